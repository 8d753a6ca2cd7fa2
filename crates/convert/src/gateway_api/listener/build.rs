//! What becomes of the listeners of a Gateway or ListenerSet.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go buildListener, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::kinds::gateway_api::{
    FromNamespaces, Gateway, GatewayClass, Listener as Written, TlsMode,
};
use model::kinds::kube::ConfigMap;
use model::own_port::own_port;
use model::{Kind, Meta, Namespace, Object, ObjectKey, ObjectName};
use proto_istio::networking::{Port, Server};

use super::charge;
use super::conflict::ConflictsIn;
use super::namespaces::SelectedBy;
use super::owner::{Owner, controller_of, lets_in};
use super::service::Reached;
use super::{Built, BuiltListener, Listener, Problem, Served, TUNNEL_PORT, kinds, tls};
use crate::budget;
use crate::gateway_api::class::Controller;
use crate::gateway_api::gateway_of_listener;
use crate::gateway_api::status::Conditions;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// What becomes of a Gateway or ListenerSet; `None` where it is not there or not ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BuiltOf(pub ObjectKey);

impl Derive for BuiltOf {
    type Stratum = Routes;
    type Value = Option<Built>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<Built> {
        let owner = Owner::find(read, &self.0)?;
        let gateway = owner.gateway();
        let controller = controller_of(read, gateway)?;
        if let Owner::Set(set, _) = &owner {
            let refused = if !controller.takes_listener_sets() {
                format!(
                    "Gateways of the class {} take no ListenerSets",
                    gateway.spec.gateway_class_name
                )
            } else if !lets_in(read, gateway, set.namespace()) {
                format!(
                    "`allowedListeners` of {} does not let in ListenerSets of the namespace {}",
                    gateway.key(),
                    set.namespace()
                )
            } else {
                return Some(served(read, &owner, controller));
            };
            return Some(Built::NotAllowed(refused));
        }
        Some(match controller {
            Controller::Remote => Built::Remote,
            _ => served(read, &owner, controller),
        })
    }
}

fn served(read: &Reader<'_, '_, Routes>, owner: &Owner, controller: Controller) -> Built {
    let gateway = owner.gateway();
    let reached = Reached::of(gateway, controller, read.settings());
    let object = owner.key();
    let over = charge::is_over(read, &object).then(|| budget::reason(&object));
    let over = over.map(|why| Problem::new("Invalid", why));
    let listeners = match reached.services.is_empty() || over.is_some() {
        true => Vec::new(),
        false => listeners(read, owner, controller),
    };
    let mut problem = over.or(reached.problem);
    if problem.is_none() && matches!(owner, Owner::Gateway(_)) {
        problem = parameters(read, gateway);
    }
    Built::Served(Box::new(Served {
        gateway: gateway.meta.name.clone(),
        controller,
        services: reached.services,
        service_account: reached.service_account,
        problem,
        listeners,
    }))
}

/// What is wrong with the settings that a Gateway refers to.
fn parameters(read: &Reader<'_, '_, Routes>, gateway: &Object<Gateway>) -> Option<Problem> {
    let parameters = gateway
        .spec
        .infrastructure
        .as_ref()?
        .parameters_ref
        .as_ref()?;
    let message = if Kind::find(&parameters.group, &parameters.kind) != Some(Kind::ConfigMap) {
        format!(
            "`parametersRef` can name a ConfigMap, not a {}",
            parameters.kind
        )
    } else {
        let name = ObjectName::new(gateway.namespace().clone(), parameters.name.clone());
        match read.get::<ConfigMap>(&name) {
            Some(_) if read.settings().features.any_gateway_overlay => return None,
            Some(map) => {
                let field = validate::overlay::refused(&map.spec.data)?;
                format!(
                    "the ConfigMap {name} that `parametersRef` names sets {field}, which only the operator may"
                )
            }
            None => format!("the ConfigMap {name} that `parametersRef` names is not there"),
        }
    };
    Some(Problem::new("InvalidParameters", message))
}

/// The listeners of an object. Of several with one name, which no API server stores, the first is served.
fn listeners(
    read: &Reader<'_, '_, Routes>,
    owner: &Owner,
    controller: Controller,
) -> Vec<BuiltListener> {
    let gateway = owner.gateway();
    let object = owner.key();
    let kind = object.kind;
    let (meta, written) = owner.listeners();
    let conflicts = read.derived(ConflictsIn {
        gateway: gateway.meta.name.clone(),
        object,
    });
    let class = ObjectKey {
        kind: Kind::GatewayClass,
        name: ObjectName::new("", gateway.spec.gateway_class_name.clone()),
    };
    let named = Controller::built_in(&gateway.spec.gateway_class_name, &read.settings().features);
    let needs_class = named != Some(controller) && read.get::<GatewayClass>(&class.name).is_some();
    let building = Building {
        read,
        kind,
        meta,
        gateway,
        controller,
        from: needs_class.then_some(class).into_iter().collect(),
    };
    let mut names = BTreeSet::new();
    let distinct = written
        .iter()
        .filter(|listener| names.insert(&listener.name));
    let built = distinct.map(|listener| match conflicts.get(&listener.name) {
        Some(reason) => building.conflicting(listener, reason),
        None => building.build(listener),
    });
    built.collect()
}

/// Where listeners are built.
struct Building<'a, 'b, 'c> {
    read: &'a Reader<'b, 'c, Routes>,
    /// The kind of the object that they are in.
    kind: Kind,
    /// That object.
    meta: &'a Meta,
    gateway: &'a Object<Gateway>,
    controller: Controller,
    /// Objects without which none of them would be served.
    from: Vec<ObjectKey>,
}

impl Building<'_, '_, '_> {
    fn build(&self, written: &Written) -> BuiltListener {
        let mut conditions = Conditions::default();
        conditions.holds("Accepted", "Accepted", "the listener is valid");
        conditions.fails(
            "Conflicted",
            "NoConflicts",
            "no other listener of the Gateway is in the way",
        );
        conditions.holds("Programmed", "Programmed", "proxies get the listener");
        conditions.holds("ResolvedRefs", "ResolvedRefs", "all references are good");
        let mut is_valid = true;
        let mut from = self.from.clone();
        let tls = written.tls.as_ref().map(|tls| {
            let met = tls::Met {
                kind: self.kind,
                namespace: self.meta.namespace(),
                gateway_namespace: self.gateway.namespace(),
                is_between_networks: self.is_between_networks(written),
                port: written.port,
                gateway: self.gateway.spec.tls.as_ref(),
                tls,
            };
            let mut settings = met.settings(self.read);
            from.append(&mut settings.from);
            if let Some(problem) = settings.problem {
                is_valid &= settings.is_usable;
                tell_of_tls(&mut conditions, &problem, settings.is_usable);
            }
            settings.server
        });
        if let Some(message) = self.unsupported_protocol(&written.protocol) {
            conditions.fails("Accepted", "UnsupportedProtocol", message);
            is_valid = false;
        }
        if let Some(message) = self.unexpected(written) {
            conditions.fails("Accepted", "UnsupportedProtocol", message);
        }
        let own = own_port(written.port).filter(|_| &*written.protocol != "HBONE");
        if let Some(own) = own {
            let message = format!(
                "port {} is one of Envoy or its agent ({})",
                own.number, own.holder
            );
            conditions.fails("Accepted", "PortUnavailable", message.clone());
            conditions.fails("Programmed", "PortUnavailable", message);
            is_valid = false;
        }
        let lacks_tls = tls.is_none() && matches!(&*written.protocol, "HTTPS" | "TLS");
        if lacks_tls && self.kind == Kind::ListenerSet {
            let message = format!(
                "a listener of the protocol {} needs `tls`",
                written.protocol
            );
            conditions.fails("Accepted", "UnsupportedProtocol", message.clone());
            conditions.fails("Programmed", "Invalid", message);
            is_valid = false;
        }
        let hosts = self.hosts(written, &mut from);
        let server = (!lacks_tls).then(|| Server {
            port: Some(Port {
                name: "default".to_owned(),
                number: written.port.into(),
                protocol: written.protocol.to_string(),
                ..Port::default()
            }),
            hosts: hosts.iter().map(|host| host.to_string()).collect(),
            tls,
            ..Server::default()
        });
        self.built(written, hosts, server, is_valid, conditions, from)
    }

    /// A listener that conflicts with one that came before it.
    fn conflicting(&self, written: &Written, reason: &'static str) -> BuiltListener {
        let message = match reason {
            "HostnameConflict" => "another listener of the Gateway has this port and host",
            _ => "another listener of the Gateway has this port for another protocol",
        };
        let mut conditions = Conditions::default();
        conditions.fails("Accepted", reason, message);
        conditions.fails("Programmed", reason, message);
        conditions.holds("Conflicted", reason, message);
        self.built(written, Vec::new(), None, false, conditions, Vec::new())
    }

    fn built(
        &self,
        written: &Written,
        hosts: Vec<Arc<str>>,
        server: Option<Server>,
        is_valid: bool,
        mut conditions: Conditions,
        from: Vec<ObjectKey>,
    ) -> BuiltListener {
        let (kinds, is_all) = kinds::of(written);
        if !is_all {
            let message =
                "`allowedRoutes.kinds` names kinds of routes that do not fit the protocol";
            conditions.fails("ResolvedRefs", "InvalidRouteKinds", message);
        }
        // A broken listener of a ListenerSet is not part of the Gateway; a Gateway's own is, unless another has its place.
        let is_refused = !is_valid && (self.kind == Kind::ListenerSet || server.is_none());
        let refused = is_refused.then(|| {
            let why = conditions.first_failing(&["Accepted", "Programmed"]);
            let why = why.unwrap_or("it is not valid");
            format!("listener {} is not served: {why}", written.name).into()
        });
        let listener = Listener {
            hosts,
            kinds,
            refused,
            ..seen_by_routes(&self.meta.name, written)
        };
        BuiltListener {
            listener: Arc::new(listener),
            server: server.map(Arc::new),
            is_valid,
            conditions,
            from,
        }
    }

    /// Whether what passes through a listener goes to services as its server name says: the listener's option says so, or
    /// it has the port of such, of a gateway that is labelled with a network.
    fn is_between_networks(&self, written: &Written) -> bool {
        let labels = &self.meta.labels;
        written.is_auto_passthrough()
            || (labels.contains("topology.istio.io/network") && written.has_network_port(labels))
    }

    /// Why a protocol is not served, where it is not.
    ///
    /// Istio: pilot/pkg/config/kube/gateway/conversion.go listenerProtocolToIstio, 1.32.
    fn unsupported_protocol(&self, protocol: &str) -> Option<String> {
        let for_tunnels = matches!(self.controller, Controller::Waypoint | Controller::EastWest);
        match protocol {
            "HTTP" | "HTTPS" | "TLS" | "TCP" => None,
            "HBONE" if for_tunnels => None,
            "HBONE" => Some("HBONE is for waypoints and gateways between networks".to_owned()),
            _ => {
                let upper = protocol.to_ascii_uppercase();
                let near = matches!(&*upper, "HTTP" | "HTTPS" | "TLS" | "TCP" | "HBONE");
                let hint = if near && upper != protocol {
                    format!("; did you mean {upper}?")
                } else {
                    String::new()
                };
                Some(format!("the protocol {protocol:?} is not served{hint}"))
            }
        }
    }

    /// What is not as it should be with a listener for tunnels. It is served all the same.
    fn unexpected(&self, written: &Written) -> Option<&'static str> {
        let is_tunnel = written.port == TUNNEL_PORT && &*written.protocol == "HBONE";
        let mode = written.tls.as_ref().map(|tls| tls.mode);
        match self.controller {
            Controller::Waypoint if !is_tunnel => {
                Some("a waypoint has one listener, on port 15008 for the protocol HBONE")
            }
            Controller::EastWest if written.port == TUNNEL_PORT => {
                let is_fine = is_tunnel && mode == Some(TlsMode::Terminate);
                (!is_fine)
                    .then_some("port 15008 is for the protocol HBONE, with TLS that ends here")
            }
            Controller::EastWest => {
                let is_fine = &*written.protocol == "TLS" && mode == Some(TlsMode::Passthrough);
                (!is_fine).then_some("ports other than 15008 are for TLS that passes through")
            }
            _ => None,
        }
    }

    /// The hosts of the server, for each namespace whose routes may attach. Where there is none, the server is there for
    /// no namespace, as it must name a host.
    ///
    /// Istio: pilot/pkg/config/kube/gateway/conversion.go buildHostnameMatch, 1.32.
    fn hosts(&self, written: &Written, from: &mut Vec<ObjectKey>) -> Vec<Arc<str>> {
        let host = written.hostname.as_deref().unwrap_or("*");
        let allowed = &written.allowed_routes.namespaces;
        let of = |namespace: &str| Arc::from(format!("{namespace}/{host}"));
        let own: &Namespace = self.meta.namespace();
        let selector = allowed.selector.as_ref();
        match allowed.from.unwrap_or_default() {
            FromNamespaces::Same => vec![of(own)],
            FromNamespaces::All => vec![of("*")],
            FromNamespaces::None => vec![of("~")],
            FromNamespaces::Selector => {
                let Some(selector) = selector else {
                    return vec![of("*")];
                };
                let selected = self.read.derived(SelectedBy(selector.clone()));
                from.extend(selected.iter().map(|namespace| ObjectKey {
                    kind: Kind::Namespace,
                    name: ObjectName::new("", namespace.clone()),
                }));
                match selected.is_empty() {
                    true => vec![of("~")],
                    false => selected.iter().map(|namespace| of(namespace)).collect(),
                }
            }
        }
    }
}

/// The listeners of a Gateway or ListenerSet none of which is served, as routes see them.
pub(super) fn refusing(
    read: &Reader<'_, '_, Routes>,
    object: &ObjectKey,
    why: &str,
) -> Arc<[Arc<Listener>]> {
    let Some(owner) = Owner::find(read, object) else {
        return Arc::from([]);
    };
    let refused: Arc<str> = format!("the {} is not accepted: {why}", object.kind.name()).into();
    let (meta, written) = owner.listeners();
    let listeners = written.iter().map(|written| {
        Arc::new(Listener {
            refused: Some(refused.clone()),
            ..seen_by_routes(&meta.name, written)
        })
    });
    listeners.collect()
}

/// What routes see of a listener of an object, as far as it is written.
fn seen_by_routes(object: &ObjectName, written: &Written) -> Listener {
    Listener {
        section: written.name.clone(),
        gateway: gateway_of_listener(object, &written.name),
        port: written.port,
        protocol: written.protocol.clone(),
        hostname: written.hostname.clone().unwrap_or_default(),
        hosts: Vec::new(),
        kinds: Vec::new(),
        refused: None,
    }
}

/// Says what is wrong with TLS. Where another certificate can be shown, proxies get the listener all the same.
fn tell_of_tls(conditions: &mut Conditions, problem: &Problem, is_usable: bool) {
    let Problem { reason, message } = problem;
    conditions.fails("ResolvedRefs", reason, message.clone());
    if is_usable {
        return;
    }
    conditions.fails("Programmed", "Invalid", message.clone());
    let of_authorities = [
        "InvalidCACertificateRef",
        "InvalidCACertificateKind",
        tls::NOT_PERMITTED,
    ];
    if of_authorities.contains(reason) {
        conditions.fails("Accepted", "NoValidCACertificate", message.clone());
    }
}
