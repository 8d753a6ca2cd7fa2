//! What a Gateway or a ListenerSet listens on.
//!
//! A ListenerSet adds listeners to the Gateway that it names; [`BuiltOf`] says what becomes of each listener of either. What
//! routes see of it ([`ListenersOf`]) leaves out all that they need not be derived again for, as certificates.
//!
//! Istio: pilot/pkg/config/kube/gateway/{gateway_collection.go,conversion.go}, 1.32.

mod build;
mod charge;
mod conflict;
mod kinds;
mod namespaces;
mod owner;
mod service;
mod tls;

use std::sync::Arc;

use model::derived::{Derived, GatewayRole};
use model::{Kind, ObjectKey, ObjectName};
use proto_istio::networking::{Gateway, Server};

use super::class::Controller;
use super::status::Conditions;
use super::{derived, gateway_of_listener};
use crate::budget;
use crate::outcome::{Made, Outcome, object};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

pub(crate) use build::BuiltOf;
pub(crate) use tls::{not_a_secret, secret_of};

/// The port on which waypoints and gateways between networks take tunnels.
const TUNNEL_PORT: u16 = 15008;

/// Why something is not served as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    /// The reason of a condition.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// What becomes of a Gateway or ListenerSet that is ours.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Built {
    /// It stands for a gateway of another cluster.
    Remote,
    /// Its Gateway does not take it, for this reason.
    NotAllowed(String),
    /// It is served.
    Served(Box<Served>),
}

/// What is served of a Gateway or ListenerSet.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Served {
    /// The Gateway: itself, or the one that it adds to.
    pub gateway: ObjectName,
    /// What Gateways of its class are.
    pub controller: Controller,
    /// The hosts of the services through which it is reached. Where there are none, nothing is served.
    pub services: Arc<[Arc<str>]>,
    /// The service account of its proxies, where it is known.
    pub service_account: Option<Arc<str>>,
    /// What is wrong with the Gateway as a whole.
    pub problem: Option<Problem>,
    /// Its listeners, in order.
    pub listeners: Vec<BuiltListener>,
}

/// What becomes of a listener.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BuiltListener {
    /// What routes see of it.
    pub listener: Arc<Listener>,
    /// The server of the Istio Gateway; `None` where it conflicts with another, or lacks TLS that its protocol needs.
    pub server: Option<Arc<Server>>,
    /// Whether proxies get it.
    pub is_valid: bool,
    /// What its status says of it.
    pub conditions: Conditions,
    /// Objects without which it would be another, besides its own and the Gateway.
    pub from: Vec<ObjectKey>,
}

impl Served {
    /// Why none of the listeners is there, although services lead to the Gateway.
    fn problem_of_all(&self) -> Option<&Problem> {
        let is_reached = !self.services.is_empty();
        self.problem
            .as_ref()
            .filter(|_| is_reached && self.listeners.is_empty())
    }

    /// The listeners that become Istio Gateways, to which routes attach: not those of waypoints and for tunnels.
    fn routed(&self) -> impl Iterator<Item = (&BuiltListener, &Arc<Server>)> {
        let listeners = self.listeners.iter().filter(|built| match self.controller {
            Controller::Gateway => true,
            Controller::EastWest => built.listener.port != TUNNEL_PORT,
            Controller::Waypoint | Controller::Remote => false,
        });
        listeners.filter_map(|built| Some((built, built.server.as_ref()?)))
    }
}

/// A listener as routes see it.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go parentInfo, 1.32.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listener {
    /// Its name.
    pub section: Arc<str>,
    /// The Istio Gateway that is made of it.
    pub gateway: ObjectName,
    /// Its port.
    pub port: u16,
    /// Its protocol, as written.
    pub protocol: Arc<str>,
    /// Its host, as written; empty where it states none.
    pub hostname: Arc<str>,
    /// The hosts of the server: `namespace/host`.
    pub hosts: Vec<Arc<str>>,
    /// The kinds of routes that may attach.
    pub kinds: Vec<Kind>,
    /// Why no route attaches, if none does.
    pub refused: Option<Arc<str>>,
}

/// The listeners of a Gateway or ListenerSet that routes can attach to, in order, then those that refuse every route; none
/// of one that is not ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ListenersOf(pub ObjectKey);

impl Derive for ListenersOf {
    type Stratum = Routes;
    type Value = Arc<[Arc<Listener>]>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let built = read.derived(BuiltOf(self.0.clone()));
        let served = match &*built {
            Some(Built::Served(served)) => served,
            Some(Built::NotAllowed(why)) => return build::refusing(read, &self.0, why),
            Some(Built::Remote) | None => return Arc::from([]),
        };
        if let Some(Problem { message, .. }) = served.problem_of_all() {
            return build::refusing(read, &self.0, message);
        }
        // Routes attach to broken listeners of a Gateway, whose status counts them.
        let routed = served.routed().map(|(built, _)| &built.listener);
        let taking = routed.filter(|listener| listener.refused.is_none());
        let all = served.listeners.iter().map(|built| &built.listener);
        let refusing = all.filter(|listener| listener.refused.is_some());
        taking.chain(refusing).cloned().collect()
    }
}

/// The Istio Gateways of a Gateway or ListenerSet, one for each listener.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ServersOf(pub ObjectKey);

impl Derive for ServersOf {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let built = read.derived(BuiltOf(self.0.clone()));
        let Some(Built::Served(served)) = &*built else {
            return Outcome::default();
        };
        if charge::is_over(read, &self.0) {
            return Outcome {
                findings: [budget::finding_of(&self.0, "spec.listeners")].into(),
                ..Outcome::default()
            };
        }
        let created = owner::created(read, &self.0);
        let valid = served.routed().filter(|(built, _)| built.is_valid);
        let objects = valid.map(|(built, server)| {
            let name = gateway_of_listener(&self.0.name, &built.listener.section);
            let spec = Gateway {
                servers: vec![Server::clone(server)],
                ..Gateway::default()
            };
            let mut made = object(name, self.made_from(served, built), spec);
            made.meta.created = created;
            Made::new(made)
        });
        Outcome {
            objects: objects.collect(),
            ..Outcome::default()
        }
    }
}

impl ServersOf {
    fn made_from(&self, served: &Served, built: &BuiltListener) -> Derived {
        let gateway = ObjectKey {
            kind: Kind::KubeGateway,
            name: served.gateway.clone(),
        };
        let is_set = self.0 != gateway;
        let role = GatewayRole {
            services: Some(served.services.clone()),
            parent_namespace: is_set.then(|| gateway.name.namespace.clone()),
            service_account: served.service_account.clone(),
        };
        let owner = std::iter::once(self.0.clone());
        let parent = is_set.then_some(gateway);
        derived(owner.chain(parent).chain(built.from.iter().cloned()), role)
    }
}
