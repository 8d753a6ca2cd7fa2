//! What is derived from which objects: the list of translators.

use std::sync::Arc;

use incr::{Engine, RootId};
use model::{AnyObject, Namespace, ObjectKey, ObjectName};
use store::Snapshot;

use crate::gateway_api::{self, HostOfMesh, HostOfParent, RuleOfTarget, RuleOfXBackend};
use crate::gateway_api::{ServersOf, StreamsOf};
use crate::ingress::{GatewayOf, RoutesOfHost, hosts};
use crate::outcome::Outcome;
use crate::reader::{Derivation, Derive};
use crate::strata::Routes;

/// A derivation whose objects go into the store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Root {
    /// The Gateway of an Ingress.
    IngressGateway(ObjectName),
    /// The VirtualService of a host that Ingresses name.
    IngressHost(Arc<str>),
    /// The Istio Gateways of a Gateway or ListenerSet.
    GatewayServers(ObjectKey),
    /// The VirtualServices of a host that routes to a Gateway or ListenerSet name.
    ParentHost(ObjectKey, Arc<str>),
    /// The VirtualServices that routes of a namespace make for a service of the mesh.
    MeshHost {
        /// The namespace of the routes.
        namespace: Namespace,
        /// The Service or ServiceEntry.
        parent: ObjectKey,
        /// One port of it; all where absent.
        port: Option<u16>,
    },
    /// The VirtualServices of a TLSRoute, TCPRoute or UDPRoute.
    StreamRoutes(ObjectKey),
    /// The DestinationRule of a backend that policies are about.
    TargetRule(ObjectKey),
    /// The DestinationRule of an XBackend.
    XBackendRule(ObjectName),
}

/// Calls `$act!(derivation)` with the derivation of a root.
macro_rules! with_derivation {
    ($root:expr, $act:ident) => {
        match $root {
            Root::IngressGateway(name) => $act!(GatewayOf(name.clone())),
            Root::IngressHost(host) => $act!(RoutesOfHost(host.clone())),
            Root::GatewayServers(key) => $act!(ServersOf(key.clone())),
            Root::ParentHost(parent, host) => $act!(HostOfParent(parent.clone(), host.clone())),
            Root::MeshHost {
                namespace,
                parent,
                port,
            } => $act!(HostOfMesh {
                namespace: namespace.clone(),
                parent: parent.clone(),
                port: *port,
            }),
            Root::StreamRoutes(key) => $act!(StreamsOf(key.clone())),
            Root::TargetRule(key) => $act!(RuleOfTarget(key.clone())),
            Root::XBackendRule(name) => $act!(RuleOfXBackend(name.clone())),
        }
    };
}

impl Root {
    /// Calls `emit` with each root that is there because of the object, which need not be there because of it alone.
    pub(crate) fn of(object: &AnyObject, emit: &mut dyn FnMut(Root)) {
        if let AnyObject::Ingress(ingress) = object {
            emit(Root::IngressGateway(ingress.meta.name.clone()));
            for host in hosts(&ingress.spec) {
                emit(Root::IngressHost(host));
            }
        }
        gateway_api::roots(object, emit);
    }

    /// Keeps the root up to date from here on.
    pub(crate) fn register(&self, engine: &mut Engine<Snapshot>) -> RootId {
        macro_rules! register {
            ($derivation:expr) => {
                engine.root(&Derivation($derivation))
            };
        }
        with_derivation!(self, register)
    }

    /// What it gives at the last commit.
    pub(crate) fn pull(
        &self,
        engine: &Engine<Snapshot>,
        snapshot: &Snapshot,
    ) -> Arc<Outcome<Routes>> {
        fn get<D: Derive>(
            engine: &Engine<Snapshot>,
            snapshot: &Snapshot,
            derivation: D,
        ) -> Arc<D::Value> {
            engine.get(snapshot, &Derivation(derivation))
        }
        macro_rules! pull {
            ($derivation:expr) => {
                get(engine, snapshot, $derivation)
            };
        }
        with_derivation!(self, pull)
    }
}
