//! Who says what a gateway gets: the author of a Gateway or VirtualService, or of what it was made from.

use incr::Cx;
use model::age::Age;
use model::kinds::istio::Gateway;
use model::kinds::kube;
use model::kinds::{Kind, knative};
use model::names::Namespace;
use model::object::{Object, ObjectKey};
use store::{Reads, Snapshot};

use crate::virtual_service::VirtualServiceHead;

/// Who says something about a host or a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Author {
    /// The object that somebody wrote.
    pub(super) key: ObjectKey,
    /// Whether its namespace has to own the host. Others have let it in.
    pub(super) asked: bool,
}

impl Author {
    /// The author of an object, which may be made of another one.
    fn of(own: ObjectKey, made_from: Option<&ObjectKey>) -> Self {
        let key = made_from.cloned().unwrap_or(own);
        let is_own = made_from.is_none();
        Self {
            asked: is_own || matches!(key.kind, Kind::Ingress | Kind::KnativeIngress),
            key,
        }
    }

    /// The author of a Gateway.
    pub(super) fn of_gateway(gateway: &Object<Gateway>) -> Self {
        let derived = gateway.meta.derived.as_ref();
        Self::of(gateway.key(), derived.and_then(|made| made.from.first()))
    }

    /// The author of a rule.
    pub(super) fn of_rule(head: &VirtualServiceHead) -> Self {
        let own = ObjectKey {
            kind: Kind::VirtualService,
            name: head.name.clone(),
        };
        Self::of(own, head.made_from.as_deref())
    }

    /// Whose word it is.
    pub(super) fn namespace(&self) -> &Namespace {
        &self.key.name.namespace
    }

    /// When the object was created that somebody wrote; rules that are made of an Ingress have no age of their own.
    pub(super) fn created(&self, cx: &Cx<'_, Snapshot>, own: Age) -> Age {
        let name = &self.key.name;
        let created = match self.key.kind {
            Kind::Ingress => cx.get::<kube::Ingress>(name).map(|o| o.meta.created),
            Kind::KnativeIngress => cx.get::<knative::Ingress>(name).map(|o| o.meta.created),
            _ => return own,
        };
        created.unwrap_or_default()
    }
}
