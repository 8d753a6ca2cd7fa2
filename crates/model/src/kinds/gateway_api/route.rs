//! What all kinds of routes have in common.

use std::sync::Arc;

use super::reference::{GatewayRef, ParentRef};
use super::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute, UdpRoute};
use crate::kinds::{Kind, Kinded};
use crate::names::Namespace;
use crate::object::{ObjectKey, ObjectName};

/// A kind of route.
pub trait Route: Kinded {
    /// What it attaches to.
    fn parent_refs(&self) -> &[ParentRef];
    /// Its hosts; none where it takes those of its parents.
    fn hostnames(&self) -> &[Arc<str>];
    /// Calls `each` with group, kind, namespace where stated, and name of each backend of its rules.
    fn backends<'a>(&'a self, each: &mut dyn FnMut(Reference<'a>));
}

/// An object as another one names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference<'a> {
    /// Group; empty for the core group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace, where stated.
    pub namespace: Option<&'a str>,
    /// Name.
    pub name: &'a str,
}

impl Reference<'_> {
    /// The object, as seen from `namespace`; `None` for a kind that is not in the list of kinds.
    pub fn key(&self, namespace: &Namespace) -> Option<ObjectKey> {
        let kind = Kind::find(self.group, self.kind)?;
        let namespace = match self.namespace {
            Some(stated) => stated.into(),
            None => namespace.clone(),
        };
        let name = ObjectName::new(namespace, self.name);
        Some(ObjectKey { kind, name })
    }
}

impl ParentRef {
    /// The parent, as seen from `namespace`; `None` for a kind that routes cannot attach to here.
    ///
    /// Istio: pilot/pkg/config/kube/gateway/conversion.go toInternalParentReference, 1.32.
    pub fn key(&self, namespace: &Namespace) -> Option<ObjectKey> {
        let reference = Reference {
            group: &self.group,
            kind: &self.kind,
            namespace: self.namespace.as_deref(),
            name: &self.name,
        };
        let key = reference.key(namespace)?;
        let parents = [
            Kind::KubeGateway,
            Kind::ListenerSet,
            Kind::Service,
            Kind::ServiceEntry,
        ];
        parents.contains(&key.kind).then_some(key)
    }
}

impl GatewayRef {
    /// The Gateway, as seen from `namespace`; `None` where something else is named.
    pub fn key(&self, namespace: &Namespace) -> Option<ObjectKey> {
        let reference = Reference {
            group: &self.group,
            kind: &self.kind,
            namespace: self.namespace.as_deref(),
            name: &self.name,
        };
        let key = reference.key(namespace)?;
        (key.kind == Kind::KubeGateway).then_some(key)
    }
}

macro_rules! references {
    ($route:expr, $each:expr) => {
        for rule in &$route.rules {
            for to in &rule.backend_refs {
                $each(Reference {
                    group: &to.group,
                    kind: &to.kind,
                    namespace: to.namespace.as_deref(),
                    name: &to.name,
                });
            }
        }
    };
}

macro_rules! routes {
    ($($kind:ty: $hostnames:expr;)+) => {$(
        impl Route for $kind {
            fn parent_refs(&self) -> &[ParentRef] {
                &self.parent_refs
            }

            fn hostnames(&self) -> &[Arc<str>] {
                let hostnames: fn(&Self) -> &[Arc<str>] = $hostnames;
                hostnames(self)
            }

            fn backends<'a>(&'a self, each: &mut dyn FnMut(Reference<'a>)) {
                references!(self, each);
            }
        }
    )+};
}

routes! {
    HttpRoute: |route| &route.hostnames;
    GrpcRoute: |route| &route.hostnames;
    TlsRoute: |route| &route.hostnames;
    TcpRoute: |_| &[];
    UdpRoute: |_| &[];
}
