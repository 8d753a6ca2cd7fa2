//! Values in place of marks: the last thing that happens to a resource before it is sent.
//!
//! A value is for proxies that have proven to be of the asking object's namespace, and for gateways that have proven to be
//! of the namespace of a Gateway that the object names. For others, and where there is no value, the route, the HTTP filter
//! or the filter chain that needs it is closed ([`closed`]); elsewhere it gets a text that differs for each asker, Secret,
//! key and audience, and that nobody can guess.
//!
//! What has no mark costs nothing here. A resource with one is read, filled and encoded once for each audience. A text that
//! is JSON is filled within its texts, so that no value becomes part of its syntax.

mod closed;
mod filler;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use descriptors::texts::{self, Edit};
use incr::{Cx, Query};
use mesh::proxy::Traits;
use model::names::Namespace;
use model::node::Role;
use model::template::{Asker, Gateways};
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet, TypeUrl};

use filler::{Filler, Written};

use crate::judged;

/// Who gets a resource.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reader {
    /// Proxies that have not proven to be of their namespace: they get no value.
    Anybody,
    /// Proxies that have.
    Proven {
        /// Their namespace.
        namespace: Namespace,
        /// Whether they are gateways.
        is_gateway: bool,
    },
}

impl Reader {
    /// Who the proxy is.
    pub(crate) fn of(proxy: &Traits<'_>) -> Self {
        let identity = proxy.node.identity.as_ref();
        match identity.is_some_and(|i| i.namespace == *proxy.namespace()) {
            true => Self::Proven {
                namespace: proxy.namespace().clone(),
                is_gateway: proxy.node.role == Role::Router,
            },
            false => Self::Anybody,
        }
    }

    /// Whether they may have what an object asks for.
    fn may_have(&self, cx: &Cx<'_, Snapshot>, asker: &Asker) -> bool {
        let Self::Proven {
            namespace,
            is_gateway,
        } = self
        else {
            return false;
        };
        let is_named = || match &asker.gateways {
            Gateways::Of(named) => named.contains(namespace),
            Gateways::Edge => *namespace == cx.settings().features.edge_namespace,
        };
        *namespace == asker.name.namespace || *is_gateway && is_named()
    }
}

/// The set with values in place of marks.
pub(crate) fn filled(
    cx: &Cx<'_, Snapshot>,
    ty: TypeUrl,
    set: ResourceSet,
    reader: &Reader,
) -> ResourceSet {
    let marked = set.marked();
    if marked.is_empty() {
        return set;
    }
    let filled = marked.into_iter().map(|resource| {
        let query = Filled {
            ty,
            resource,
            reader: reader.clone(),
        };
        (*cx.query(&query)).clone()
    });
    set.replaced([], filled)
}

/// A resource with values in place of its marks.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Filled {
    ty: TypeUrl,
    resource: Arc<Resource>,
    reader: Reader,
}

impl Hash for Filled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ty.hash(state);
        self.reader.hash(state);
        self.resource.name.hash(state);
        self.resource.version.hash(state);
    }
}

impl Query<Snapshot> for Filled {
    type Value = Arc<Resource>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Resource> {
        let (url, resource) = (self.ty.as_str(), &self.resource);
        let mut filler = Filler::new(cx, &self.reader, self.ty);
        // What cannot be read stays as it is: marks are sealed, and say nothing to those that get them.
        let edited = |message: &Bytes, edit: &mut dyn Edit| {
            let edited = texts::edit(url, message, edit);
            edited.map_or_else(|| message.clone(), Bytes::from)
        };
        let body = edited(&resource.body, &mut filler);
        let shown = edited(resource.shown(), &mut Written);
        // What came may be a value that Envoy refuses where the text stands.
        let body = judged::filled(self.ty, body).unwrap_or_else(|| shown.clone());
        let mut found = resource.findings().to_vec();
        found.extend(filler.found());
        Arc::new(resource.fill(body, shown).finding(found))
    }
}
