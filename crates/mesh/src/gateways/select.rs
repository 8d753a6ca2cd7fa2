//! Which Gateways select a proxy.
//!
//! Istio: pilot/pkg/model/push_context.go mergeGateways, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::derived::Semantics;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::istio::Gateway;
use model::object::{Object, ObjectKey, ObjectName};
use model::protocol::Protocol;
use model::{Age, Kind, Name, Namespace};
use proto_istio::networking::Server;
use store::{Reads, Snapshot};

use super::author::Author;
use super::server::{is_http, is_tls};
use super::{GatewayKey, Instance};
use crate::finding::{about, code};
use crate::root::is_root;

/// A Gateway that selects a proxy.
pub(super) struct Selected {
    pub(super) gateway: Arc<Object<Gateway>>,
    /// Whose word it is.
    pub(super) author: Author,
    /// Whose it is, seen from the proxy.
    pub(super) home: Home,
    /// How clients get to the proxy.
    pub(super) reached: Reached,
}

/// When it is the turn of the routes of a Gateway, among those that share a socket: the oldest first, whosever they are. What is made
/// of Ingresses has no time, and comes before all that is written.
///
/// Istio: pilot/pkg/model/push_context.go initGateways, 1.32, whose ties go by name and then by namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Turn {
    created: Age,
    name: Name,
    namespace: Namespace,
}

impl Turn {
    pub(super) fn of(gateway: &Object<Gateway>) -> Self {
        let semantics = gateway.meta.derived.as_ref().map(|made| &made.semantics);
        let ObjectName {
            name, namespace, ..
        } = &gateway.meta.name;
        Self {
            created: match semantics {
                None | Some(Semantics::GatewayApi(_)) => gateway.meta.created,
                Some(_) => Age::First,
            },
            name: name.clone(),
            namespace: namespace.clone(),
        }
    }
}

/// Whose a Gateway is, seen from a proxy that it selects: in this order they take its ports and hosts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Home {
    /// The proxy's own namespace's.
    Own,
    /// The operator's, in the root namespace.
    Root,
    /// Another namespace's.
    Foreign,
}

impl Home {
    /// That of what a namespace says, at a proxy.
    pub(super) fn of(cx: &Cx<'_, Snapshot>, namespace: &Namespace, key: &GatewayKey) -> Self {
        if *namespace == key.namespace {
            Self::Own
        } else if is_root(cx, namespace) {
            Self::Root
        } else {
            Self::Foreign
        }
    }
}

/// How clients get to the proxy of a Gateway.
pub(super) enum Reached {
    /// Through any service whose ports the proxy serves: the Gateway selects by labels.
    Anyhow(Vec<Instance>),
    /// Through the services that the Gateway names.
    Services(Vec<Instance>),
    /// At the ports of the Gateway, with that added to them.
    Directly(u16),
}

/// Every Gateway, oldest first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct AllGateways;

/// Gateways as a value: equal where generation sees no difference.
pub(super) struct Gateways(pub(super) Vec<Arc<Object<Gateway>>>);

impl PartialEq for Gateways {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(a, b)| a.means_the_same(b))
    }
}

impl Query<Snapshot> for AllGateways {
    type Value = Gateways;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Gateways {
        let mut all = cx.list::<Gateway>();
        all.sort_by(|a, b| a.cmp_age(b));
        Gateways(all)
    }
}

/// The Gateways that select a proxy: those of its own namespace first, whatever their age, so that nobody else takes its ports; then
/// those of the root namespace, then others. Of each the oldest come first.
pub(super) fn select(cx: &Cx<'_, Snapshot>, key: &GatewayKey) -> Vec<Selected> {
    let selected = matching(cx, key);
    match cx.settings().features.strict_gateway_merging {
        true => keep_apart(selected),
        false => selected,
    }
}

/// The Gateways that match a proxy, in the order of [`select`].
fn matching(cx: &Cx<'_, Snapshot>, key: &GatewayKey) -> Vec<Selected> {
    let features = &cx.settings().features;
    let all = cx.query(&AllGateways);
    let reachable = all
        .0
        .iter()
        .filter(|g| !features.scope_gateway_to_namespace || *g.namespace() == key.namespace);
    let selected = reachable.filter_map(|gateway| {
        let role = gateway.meta.gateway_api();
        if let Some((role, services)) = role.and_then(|r| Some((r, r.services.as_ref()?))) {
            let home = role.parent_namespace.as_ref();
            let home = home.unwrap_or(gateway.namespace());
            let reached = match runs(gateway, home, key) {
                Some(port_offset) => Reached::Directly(port_offset),
                None => {
                    let instances = reached_through(services, home, key);
                    (!instances.is_empty()).then_some(Reached::Services(instances))?
                }
            };
            return Some(Selected::new(cx, gateway, key, reached));
        }
        // Without selector it is for everyone.
        key.labels
            .matches_map(&gateway.spec.selector)
            .then(|| Selected::new(cx, gateway, key, Reached::Anyhow(key.instances.to_vec())))
    });
    let mut selected: Vec<Selected> = selected.collect();
    // Of one age, whoever wrote them counts, wherever what is made of it stands.
    selected.sort_by(|a, b| {
        let (one, other) = (a.gateway.meta.created, b.gateway.meta.created);
        (a.home, one, a.author.namespace()).cmp(&(b.home, other, b.author.namespace()))
    });
    selected
}

/// The findings about Gateways that select a proxy by labels and stay out of it, as [`keep_apart`] has it; `selected` are those that do
/// not. What is made of other objects names no proxy by itself.
pub(super) fn kept_out(
    cx: &Cx<'_, Snapshot>,
    key: &GatewayKey,
    selected: &[Selected],
) -> Vec<Diagnostic> {
    let managed = selected.iter().find(|selected| selected.is_managed());
    let Some(managed) = managed.filter(|_| cx.settings().features.strict_gateway_merging) else {
        return Vec::new();
    };
    let served: BTreeSet<&ObjectName> = selected.iter().map(|s| &s.gateway.meta.name).collect();
    let all = matching(cx, key).into_iter();
    let out = all.filter(|s| {
        let gateway = &s.gateway;
        let is_written = gateway.meta.derived.is_none() && !gateway.spec.selector.is_empty();
        is_written && !served.contains(&gateway.meta.name)
    });
    let by = &managed.author.key;
    let found = out.map(|s| {
        let why = format!(
            "the Gateway is not served at the proxies of the {by} of the Gateway API: they take Istio Gateways of its namespace alone"
        );
        about(&s.gateway, code::SERVER_REFUSED, Severity::Warning, why)
            .at("spec.selector")
            .help(
                "add a ListenerSet to that Gateway or a route to one of its listeners, or set PILOT_ENABLE_STRICT_GATEWAY_MERGING=false",
            )
    });
    found.collect()
}

impl Selected {
    /// Whether the proxy was deployed for it.
    fn is_managed(&self) -> bool {
        let role = self.gateway.meta.gateway_api();
        role.is_some_and(|role| role.service_account.is_some())
    }

    fn new(
        cx: &Cx<'_, Snapshot>,
        gateway: &Arc<Object<Gateway>>,
        key: &GatewayKey,
        reached: Reached,
    ) -> Self {
        let author = Author::of_gateway(gateway);
        Self {
            gateway: gateway.clone(),
            home: Home::of(cx, author.namespace(), key),
            author,
            reached,
        }
    }

    /// Whether a server of another namespace is not what a port of the proxy is for, as the Services of the proxy's namespace say by
    /// the protocol of the port: it takes the place of no server that is.
    pub(super) fn yields(&self, key: &GatewayKey, server: &Server, port: u16) -> bool {
        let mut instances = key.instances.iter();
        self.home == Home::Foreign
            && instances.any(|instance| {
                instance.target_port == port
                    && instance.namespace == key.namespace
                    && !speaks(instance.protocol, server)
            })
    }
}

/// Whether a server is one for a port that speaks a protocol.
fn speaks(protocol: Protocol, server: &Server) -> bool {
    match protocol {
        Protocol::Https | Protocol::Tls => is_tls(server),
        Protocol::Tcp | Protocol::Mongo | Protocol::Redis | Protocol::Mysql => !is_http(server),
        protocol => !protocol.is_http() || (is_http(server) && !is_tls(server)),
    }
}

/// What the proxy adds to the ports of a Gateway of the Gateway API, or of a ListenerSet of it, if it runs for that.
fn runs(gateway: &Object<Gateway>, home: &Namespace, key: &GatewayKey) -> Option<u16> {
    let runs = key.runs.as_ref().filter(|_| key.namespace == *home)?;
    let mut from = gateway.meta.derived.as_ref()?.from.iter();
    let is_for = |from: &ObjectKey| {
        from.kind == Kind::KubeGateway
            && from.name.namespace == *home
            && *from.name.name == *runs.gateway
    };
    from.any(is_for).then_some(runs.port_offset)
}

/// The proxy's instances of these services of a namespace.
fn reached_through(
    services: &[Arc<str>],
    namespace: &Namespace,
    key: &GatewayKey,
) -> Vec<Instance> {
    let named: BTreeSet<&str> = services.iter().map(|host| &**host).collect();
    let instances = key.instances.iter();
    instances
        .filter(|i| named.contains(&*i.host) && i.namespace == *namespace)
        .cloned()
        .collect()
}

/// Where a Gateway of the Gateway API runs the proxy, Gateways that users wrote in other namespaces stay out of it.
///
/// Istio: pilot/pkg/model/push_context.go filterStrictGatewayMerging, 1.32.
fn keep_apart(selected: Vec<Selected>) -> Vec<Selected> {
    let from_api = |s: &Selected| s.gateway.meta.gateway_api().is_some();
    let managed: BTreeSet<_> = selected
        .iter()
        .filter(|s| s.is_managed())
        .map(|s| s.gateway.namespace().clone())
        .collect();
    let mut selected = selected;
    if !managed.is_empty() {
        selected.retain(|s| from_api(s) || managed.contains(s.gateway.namespace()));
    }
    selected
}
