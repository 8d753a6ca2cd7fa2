//! The stream of one client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use ads::server::{Asker, ExtraStream};
use ads::{Code, Protocol, Request, Status};
use bytes::Bytes;
use export::{Exported, Item, Items};
use mcp::{Spelling, kinds};
use model::node::IstioVersion;
use proto_envoy::envoy::config::core::v3::Node;
use serde_json::Value;

use super::keeper::{Catalog, Keeper, Listener};
use super::watched::Watched;
use crate::quiet::beginning;

/// The first release of Istio whose control plane asks for the preferred versions of its kinds and knows no others.
const PREFERRED_SINCE: (u16, u16) = (1, 23);

/// What a client sees, by what it says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct View {
    /// Objects for other revisions are not for it.
    revision: Option<Box<str>>,
    /// It knows a kind of Istio by its preferred version alone, so that under another name there is nothing.
    prefers: bool,
}

impl View {
    /// That of a client. One that says nothing sees everything, in every spelling: istiod states a release that there is not.
    pub(super) fn of(node: Option<&Node>) -> Self {
        let node = node.and_then(|node| mesh::node::from_envoy(node).ok());
        let Some(node) = node else {
            return Self::default();
        };
        let revision = node.metadata.get("ISTIO_REVISION").and_then(Value::as_str);
        let is_current = |version: IstioVersion| {
            version.major == PREFERRED_SINCE.0 && version.minor >= PREFERRED_SINCE.1
        };
        Self {
            revision: revision.filter(|text| !text.is_empty()).map(Into::into),
            prefers: node.version.is_some_and(is_current),
        }
    }

    /// Whether an object is for the client.
    pub(super) fn shows(&self, item: &Item) -> bool {
        match (&self.revision, &item.revision) {
            (Some(own), Some(stated)) => **own == **stated,
            _ => true,
        }
    }

    /// What a type stands for; `None` where the client is not to find anything under that name.
    pub(super) fn exported(&self, type_url: &str) -> Option<Exported> {
        let hides = |spelling: &Spelling| {
            let is_istio = kinds::of_istio().any(|kind| kind == spelling.kind);
            self.prefers && is_istio && !spelling.is_preferred()
        };
        match Spelling::parse(type_url) {
            Some(spelling) if hides(&spelling) => None,
            _ => Exported::of(type_url),
        }
    }
}

/// A client that reads configuration.
pub(super) struct Peer {
    listener: Listener,
    catalog: Option<Arc<Catalog>>,
    id: Box<str>,
    protocol: Protocol,
    view: View,
    admitted: Result<(), Status>,
    types: BTreeMap<String, Watched>,
}

impl Peer {
    pub(super) fn new(
        keeper: &Keeper,
        asker: &Asker,
        view: View,
        admitted: Result<(), Status>,
    ) -> Self {
        Self {
            listener: keeper.listen(),
            catalog: None,
            id: asker.id.clone(),
            protocol: asker.protocol,
            view,
            admitted,
            types: BTreeMap::new(),
        }
    }
}

impl ExtraStream for Peer {
    fn on_request(&mut self, request: Request) -> Result<(), Status> {
        self.admitted.clone()?;
        if let Some(rejection) = &request.rejection {
            let client = beginning(&self.id);
            let (type_url, reason) = (&request.type_url, beginning(&rejection.message));
            tracing::debug!(
                client,
                type_url,
                reason,
                "A control plane rejected a response."
            );
        }
        if let Some(watched) = self.types.get_mut(&request.type_url) {
            return watched.on_request(request, false);
        }
        let type_url = request.type_url.clone();
        let exported = self.view.exported(&type_url);
        if let Some(exported) = exported {
            self.listener.want(exported);
        }
        let mut watched = Watched::new(exported, &request);
        watched.on_request(request, true)?;
        self.types.insert(type_url, watched);
        Ok(())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        while let Poll::Ready(next) = self.listener.poll_next(cx) {
            let Some(catalog) = next else {
                let over = "server is shutting down";
                return Poll::Ready(Err(Status::new(Code::Unavailable, over)));
            };
            self.catalog = Some(catalog);
        }
        let Self {
            types,
            catalog,
            view,
            protocol,
            ..
        } = self;
        let nothing: Items = Arc::from([]);
        for (type_url, watched) in types {
            let items = match watched.exported() {
                None => Some(&nothing),
                Some(exported) => catalog.as_ref().and_then(|catalog| catalog.get(exported)),
            };
            if let Some(answer) = items.and_then(|items| watched.answer(type_url, items, view)) {
                return Poll::Ready(Ok(answer.encode(*protocol)));
            }
        }
        Poll::Pending
    }

    fn owes(&self) -> bool {
        self.types.values().any(|watched| watched.owes)
    }
}
