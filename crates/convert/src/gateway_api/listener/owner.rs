//! Which Gateway a listener is of, and whether it takes the ListenerSet that the listener is in.

use std::sync::Arc;

use model::kinds::gateway_api::{FromNamespaces, Gateway, Listener, ListenerSet};
use model::{Age, Kind, Meta, Namespace, Object, ObjectKey};

use super::namespaces::selects;
use crate::gateway_api::class::{ClassOf, Controller};
use crate::reader::Reader;
use crate::strata::Routes;

/// The object that listeners are written in.
pub(super) enum Owner {
    /// A Gateway.
    Gateway(Arc<Object<Gateway>>),
    /// A ListenerSet and the Gateway that it names.
    Set(Arc<Object<ListenerSet>>, Arc<Object<Gateway>>),
}

impl Owner {
    /// The object of a key and its Gateway; `None` where either is not there.
    pub(super) fn find(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Option<Self> {
        if key.kind == Kind::KubeGateway {
            return Some(Self::Gateway(read.get::<Gateway>(&key.name)?));
        }
        let set = read.get::<ListenerSet>(&key.name)?;
        let parent = set.spec.parent_ref.key(set.namespace())?;
        let gateway = read.get::<Gateway>(&parent.name)?;
        Some(Self::Set(set, gateway))
    }

    /// The object itself.
    pub(super) fn key(&self) -> ObjectKey {
        match self {
            Self::Gateway(gateway) => gateway.key(),
            Self::Set(set, _) => set.key(),
        }
    }

    /// The object's metadata and the listeners that it states.
    pub(super) fn listeners(&self) -> (&Meta, &[Listener]) {
        match self {
            Self::Gateway(gateway) => (&gateway.meta, &gateway.spec.listeners),
            Self::Set(set, _) => (&set.meta, &set.spec.listeners),
        }
    }

    /// The Gateway.
    pub(super) fn gateway(&self) -> &Arc<Object<Gateway>> {
        match self {
            Self::Gateway(gateway) | Self::Set(_, gateway) => gateway,
        }
    }
}

/// What Gateways of a Gateway's class are; `None` where it is not ours.
pub(super) fn controller_of(
    read: &Reader<'_, '_, Routes>,
    gateway: &Object<Gateway>,
) -> Option<Controller> {
    *read.derived(ClassOf(gateway.spec.gateway_class_name.clone()))
}

/// Whether a Gateway takes ListenerSets of a namespace; of none unless it says so.
///
/// Istio: pilot/pkg/config/kube/gatewaycommon/gateway_utils.go NamespaceAcceptedByAllowListeners, 1.32.
pub(super) fn lets_in(
    read: &Reader<'_, '_, Routes>,
    gateway: &Object<Gateway>,
    namespace: &Namespace,
) -> bool {
    let allowed = gateway.spec.allowed_listeners.as_ref();
    let Some(allowed) = allowed.and_then(|allowed| allowed.namespaces.as_ref()) else {
        return false;
    };
    match allowed.from.unwrap_or(FromNamespaces::None) {
        FromNamespaces::All => true,
        FromNamespaces::Same => namespace == gateway.namespace(),
        FromNamespaces::None => false,
        FromNamespaces::Selector => {
            let selector = allowed.selector.as_ref();
            selector.is_some_and(|selector| selects(read, selector, namespace))
        }
    }
}

/// When a Gateway or ListenerSet was created.
pub(super) fn created(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Age {
    let created = match key.kind {
        Kind::KubeGateway => read.get::<Gateway>(&key.name).map(|o| o.meta.created),
        _ => read.get::<ListenerSet>(&key.name).map(|o| o.meta.created),
    };
    created.unwrap_or_default()
}
