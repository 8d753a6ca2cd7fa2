//! What is derived from which objects: the list of translators.

mod gateway_api;

use std::sync::Arc;

use incr::{Engine, RootId};
use model::{AnyObject, Diagnostic, Namespace, ObjectKey, ObjectName};
use store::Snapshot;

use crate::edge::https::{CONFIG_MAP, FindingsOfHttps};
use crate::edge::{EntryOfService, FindingsOf, GatewayOfHost, RoutesOfEdgeHost, RuleOfService};
use crate::gateway_api::{ClosedServices, HostOfMesh, HostOfParent, RuleOfTarget, RuleOfXBackend};
use crate::gateway_api::{ServersOf, ServiceOfXBackend, StreamsOf};
use crate::ingress::{GatewayOf, RoutesOfHost};
use crate::knative::{self, Place};
use crate::outcome::{Made, Outcome};
use crate::reader::{Derivation, Derive};
use crate::strata::{Routes, Services};

/// A derivation whose objects go into the store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Root {
    /// The Gateway of an Ingress.
    IngressGateway(ObjectName),
    /// The VirtualService of a host that Ingresses name.
    IngressHost(Arc<str>),
    /// The Gateway of a host that Ingresses with annotations name.
    EdgeGateway(Arc<str>),
    /// The VirtualService of a host that Ingresses with annotations name.
    EdgeHost(Arc<str>),
    /// The DestinationRule of a Service that Ingresses with annotations name.
    EdgeService(ObjectName),
    /// The ServiceEntry of a Service of the type ExternalName that Ingresses with annotations name.
    EdgeEntry(ObjectName),
    /// What is wrong with an Ingress with annotations.
    EdgeIngress(ObjectName),
    /// What is wrong with the ConfigMap `higress-https`.
    EdgeHttps(ObjectName),
    /// The Gateway of a host that Ingresses of Knative name.
    KnativeGateway(Place),
    /// The VirtualService of a host that Ingresses of Knative name.
    KnativeHost(Place),
    /// What is wrong with an Ingress of Knative.
    KnativeIngress(ObjectName),
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
    /// The DestinationRules of all Services of a namespace, as a closed BackendTLSPolicy has it.
    ClosedServices(ObjectName),
    /// The DestinationRule of a backend that policies are about.
    TargetRule(ObjectKey),
    /// The DestinationRule of an XBackend.
    XBackendRule(ObjectName),
    /// The ServiceEntry of an XBackend.
    XBackendService(ObjectName),
}

/// Calls `$act!(derivation)` with the derivation of a root.
macro_rules! with_derivation {
    ($root:expr, $act:ident) => {
        match $root {
            Root::IngressGateway(name) => $act!(GatewayOf(name.clone())),
            Root::IngressHost(host) => $act!(RoutesOfHost(host.clone())),
            Root::EdgeGateway(host) => $act!(GatewayOfHost(host.clone())),
            Root::EdgeHost(host) => $act!(RoutesOfEdgeHost(host.clone())),
            Root::EdgeService(name) => $act!(RuleOfService(name.clone())),
            Root::EdgeEntry(name) => $act!(EntryOfService(name.clone())),
            Root::EdgeIngress(name) => $act!(FindingsOf(name.clone())),
            Root::EdgeHttps(name) => $act!(FindingsOfHttps(name.clone())),
            Root::KnativeGateway(place) => $act!(knative::GatewayOfHost(place.clone())),
            Root::KnativeHost(place) => $act!(knative::RoutesOfHost(place.clone())),
            Root::KnativeIngress(name) => $act!(knative::FindingsOf(name.clone())),
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
            Root::ClosedServices(policy) => $act!(ClosedServices(policy.clone())),
            Root::TargetRule(key) => $act!(RuleOfTarget(key.clone())),
            Root::XBackendRule(name) => $act!(RuleOfXBackend(name.clone())),
            Root::XBackendService(name) => $act!(ServiceOfXBackend(name.clone())),
        }
    };
}

impl Root {
    /// Calls `emit` with each root that is there because of the object, which need not be there because of it alone.
    pub(crate) fn of(object: &AnyObject, emit: &mut dyn FnMut(Root)) {
        if let AnyObject::Ingress(ingress) = object {
            let name = &ingress.meta.name;
            // Those of remote clusters are served with their annotations only.
            let is_istios = name.cluster.is_none();
            if is_istios {
                emit(Root::IngressGateway(name.clone()));
            }
            emit(Root::EdgeIngress(name.clone()));
            for host in ingress.hosts() {
                if is_istios {
                    emit(Root::IngressHost(host.clone()));
                }
                emit(Root::EdgeGateway(host.clone()));
                emit(Root::EdgeHost(host));
            }
            for service in ingress.spec.services() {
                let service = ObjectName::new(name.namespace.clone(), &**service);
                emit(Root::EdgeService(service));
            }
        }
        if let AnyObject::Service(service) = object
            && &*service.spec.service_type == "ExternalName"
            && service.meta.name.cluster.is_none()
        {
            emit(Root::EdgeEntry(service.meta.name.clone()));
        }
        if let AnyObject::ConfigMap(map) = object
            && map.meta.name.name.as_str() == CONFIG_MAP
        {
            emit(Root::EdgeHttps(map.meta.name.clone()));
        }
        if let AnyObject::KnativeIngress(ingress) = object {
            emit(Root::KnativeIngress(ingress.meta.name.clone()));
            for (visibility, host) in ingress.spec.hosts() {
                let place = Place { visibility, host };
                emit(Root::KnativeGateway(place.clone()));
                emit(Root::KnativeHost(place));
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
    pub(crate) fn pull(&self, engine: &Engine<Snapshot>, snapshot: &Snapshot) -> Given {
        fn get<D: Derive>(
            engine: &Engine<Snapshot>,
            snapshot: &Snapshot,
            derivation: D,
        ) -> Arc<D::Value> {
            engine.get(snapshot, &Derivation(derivation))
        }
        macro_rules! pull {
            ($derivation:expr) => {
                get(engine, snapshot, $derivation).into()
            };
        }
        with_derivation!(self, pull)
    }
}

/// What a root of any stratum gives.
#[derive(Clone)]
pub(crate) enum Given {
    /// One that makes services.
    Services(Arc<Outcome<Services>>),
    /// One that makes routes.
    Routes(Arc<Outcome<Routes>>),
}

impl Default for Given {
    fn default() -> Self {
        Self::Routes(Arc::default())
    }
}

impl From<Arc<Outcome<Services>>> for Given {
    fn from(outcome: Arc<Outcome<Services>>) -> Self {
        Self::Services(outcome)
    }
}

impl From<Arc<Outcome<Routes>>> for Given {
    fn from(outcome: Arc<Outcome<Routes>>) -> Self {
        Self::Routes(outcome)
    }
}

impl Given {
    /// Whether it is the very same as what was given before.
    pub(crate) fn is(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Services(now), Self::Services(before)) => Arc::ptr_eq(now, before),
            (Self::Routes(now), Self::Routes(before)) => Arc::ptr_eq(now, before),
            _ => false,
        }
    }

    /// The objects that it makes.
    pub(crate) fn objects(&self) -> Vec<&AnyObject> {
        match self {
            Self::Services(outcome) => outcome.objects.iter().map(Made::object).collect(),
            Self::Routes(outcome) => outcome.objects.iter().map(Made::object).collect(),
        }
    }

    /// What is wrong with the objects that it is made from.
    pub(crate) fn findings(&self) -> &Arc<[Diagnostic]> {
        match self {
            Self::Services(outcome) => &outcome.findings,
            Self::Routes(outcome) => &outcome.findings,
        }
    }
}
