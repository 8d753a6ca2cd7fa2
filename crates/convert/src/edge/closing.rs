//! Ingresses that protect something and are not served: what they protect must not be open to rules of others.
//!
//! Each of their paths is closed as long as there is room for that. Where there is none, all is closed that their namespace has on
//! the host: which of it is theirs to protect is not looked at any more. What other namespaces have is not theirs to close.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Namespace;
use model::kinds::kube::{Ingress, IngressRule};
use store::index::{CLOSED, ObjectIndex};

use super::charge::Left;
use super::class::ServedBy;
use super::draft::{Draft, Drafting};
use super::host::{Merging, warn};
use super::limits;
use super::rules::{Backend, Path, PathKind};
use crate::outcome::code;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// Why a path is closed; stands in a header.
const NOT_SERVED: &str = "the Ingress that protects the path is not served";

/// Why a path is closed of whose namespace some host is not known.
const UNREAD: &str = "an Ingress of the namespace protects a host that cannot be read";

/// Whether an Ingress of a namespace that was rejected protects a host that nobody knows: it may be any.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ProtectsAny(Namespace);

impl Derive for ProtectsAny {
    type Stratum = Routes;
    type Value = bool;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> bool {
        let rejected = read.list_by::<Ingress>(ObjectIndex::Closed, CLOSED);
        rejected.iter().any(|ingress| {
            *ingress.namespace() == self.0
                && ingress.spec.rules.iter().any(IngressRule::is_unread)
                && read.derived(ServedBy(ingress.meta.name.clone())).is_some()
        })
    }
}

/// What is closed on a host.
#[derive(Default)]
pub(super) struct Closing {
    /// What closed routes of paths weigh.
    bytes: usize,
    /// The namespaces of which everything is closed, each with a closed rule of all paths.
    namespaces: BTreeMap<Namespace, Draft>,
}

impl Merging<'_, '_, '_> {
    /// Closes what an Ingress protects that is not served.
    pub(super) fn close(&mut self, drafting: &Drafting<'_, '_, '_>, left: Left) {
        if !drafting.protects() {
            return;
        }
        let paths = &drafting.rules.paths;
        let bytes: usize = paths
            .iter()
            .map(|path| limits::ROUTE_BYTES + path.path.len())
            .sum();
        let bytes = self.closing.bytes.saturating_add(bytes);
        let why = Arc::from(NOT_SERVED);
        let what = if left == Left::Paths && bytes <= limits::CLOSED_BYTES {
            self.closing.bytes = bytes;
            self.close_paths(drafting, &why);
            "requests for what it protects get 503".to_owned()
        } else {
            let root = Path {
                at: drafting.rules.at.clone().into(),
                path: "/".into(),
                kind: PathKind::Prefix,
                ignore_case: false,
                backend: Backend::None,
            };
            let namespace = drafting.ingress.namespace.clone();
            let root = || drafting.closed_draft(&root, &why).of_all_requests();
            self.closing
                .namespaces
                .entry(namespace.clone())
                .or_insert_with(root);
            format!(
                "all requests for the host {:?} that are for Ingresses of {namespace} get 503",
                self.host
            )
        };
        let at = "spec.rules".to_owned();
        let message = format!("is not served, so {what}");
        self.findings
            .push(warn(drafting.ingress, code::CLOSED, at, message));
    }

    fn close_paths(&mut self, drafting: &Drafting<'_, '_, '_>, why: &Arc<str>) {
        for path in &drafting.rules.paths {
            let path = self.read_as(path, drafting.rules);
            let mut draft = drafting.closed_draft(&path, why);
            let asks = draft.asks.same();
            if let Some(at) = self.by_asks.get(&asks).copied() {
                if self.lets_more_through(at, drafting) {
                    self.drafts[at].closed = Some(why.clone());
                }
                continue;
            }
            super::sound::check(&mut draft);
            if !self.included.contains(drafting.ingress) {
                self.included.push(drafting.ingress.clone());
            }
            self.by_asks.insert(asks, self.drafts.len());
            self.drafts.push(draft);
        }
    }

    /// Closes the rules of namespaces that may protect the host though no Ingress is known that does. What others have stays theirs.
    pub(super) fn close_unread(&mut self) {
        for draft in &mut self.drafts {
            let namespace = draft.ingress.namespace.clone();
            if draft.closed.is_none() && *self.read.derived(ProtectsAny(namespace)) {
                draft.closed = Some(Arc::from(UNREAD));
            }
        }
    }

    /// Closes the rules of namespaces of which everything is closed, and what no other rule matches.
    pub(super) fn close_namespaces(&mut self) {
        for (namespace, root) in std::mem::take(&mut self.closing.namespaces) {
            let own = self.drafts.iter_mut();
            for draft in own.filter(|draft| draft.ingress.namespace == namespace) {
                draft.closed.get_or_insert_with(|| Arc::from(NOT_SERVED));
            }
            if self.drafts.iter().any(|draft| draft.asks.is_catch_all()) {
                continue;
            }
            if !self.included.contains(&root.ingress) {
                self.included.push(root.ingress.clone());
            }
            self.drafts.push(root);
        }
    }
}
