//! Gateways: which servers a gateway proxy has, merged from all Gateway objects that select it.
//!
//! Istio: pilot/pkg/model/gateway.go and push_context.go mergeGateways, 1.32.

mod alone;
mod author;
mod below;
mod bind;
mod charge;
mod elsewhere;
mod held;
mod home;
mod merge;
mod owned;
mod ports;
mod redirects;
mod select;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use model::diagnostic::Diagnostic;
use model::host::Hostname;
use model::labels::Labels;
use model::names::Namespace;
use model::object::ObjectName;
use model::protocol::Protocol;
use proto_istio::networking::Server;
use store::Snapshot;

use crate::label_names::Reader;
use crate::proxy::Traits;
use crate::reserved::Reserved;

pub use alone::ServedNowhere;
pub use charge::GatewaysOver;
pub use elsewhere::HostsOfOthers;
pub use owned::{NotOwnedAt, Owners, OwnersAt, routed};
pub use redirects::{Redirects, RefusedRedirects};
pub use server::{is_http, is_passthrough, is_tls, terminates_https};

/// What decides the servers of a gateway proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GatewayKey {
    /// The namespace of the proxy.
    pub namespace: Namespace,
    /// Its labels by which Gateways select.
    pub labels: Labels,
    /// The service ports that it serves, oldest service first.
    pub instances: Arc<[Instance]>,
    /// The Gateway that it says it runs for.
    pub runs: Option<Runs>,
    /// Ports that it listens on itself.
    pub reserved: Reserved,
}

/// A proxy that runs for one Gateway of the Gateway API in its namespace, which clients reach at the proxy itself: there
/// need be no Service.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Runs {
    /// The name of the Gateway.
    pub gateway: Arc<str>,
    /// What is added to the ports of its listeners.
    pub port_offset: u16,
}

/// The metadata by which a proxy says for which Gateway it runs.
const RUNS_FOR: &str = "PILOTHOUSE_GATEWAY";
/// The metadata by which it says what to add to ports.
const PORT_OFFSET: &str = "PILOTHOUSE_PORT_OFFSET";

/// A service port that a gateway proxy serves.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Instance {
    /// The service.
    pub host: Hostname,
    /// The namespace of the service.
    pub namespace: Namespace,
    /// The port of the service.
    pub port: u16,
    /// The port of the proxy behind it.
    pub target_port: u16,
    /// What the service says that the port speaks.
    pub protocol: Protocol,
    /// Whether the service's ports are not meant by Gateways that select by labels.
    pub untranslated: bool,
}

/// What decides which ports of which Gateways a proxy serves.
pub fn key_of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> GatewayKey {
    const UNTRANSLATED: &str = "experimental.istio.io/disable-gateway-port-translation";
    GatewayKey {
        namespace: proxy.namespace().clone(),
        labels: proxy.labels_for(cx, Reader::Gateways),
        instances: proxy
            .targets
            .iter()
            .map(|target| Instance {
                host: target.service.host.clone(),
                namespace: target.service.namespace.clone(),
                port: target.port.number,
                target_port: target.target_port,
                protocol: target.port.protocol,
                untranslated: target.service.labels.contains(UNTRANSLATED),
            })
            .collect(),
        runs: proxy.text(RUNS_FOR).map(|gateway| Runs {
            gateway: gateway.into(),
            port_offset: proxy.port(PORT_OFFSET).unwrap_or(0),
        }),
        reserved: Reserved::of(proxy, None),
    }
}

/// The servers of a gateway proxy; `None` where no Gateway selects it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MergedGatewayOf(pub GatewayKey);

impl Query<Snapshot> for MergedGatewayOf {
    type Value = Option<Arc<MergedGateway>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let selected = select::select(cx, &self.0);
        let owners = cx.query(&OwnersAt(self.0.clone()));
        (!selected.is_empty()).then(|| {
            let mut merged = merge::merge(cx, &self.0, &selected, (*owners).clone());
            merged
                .refused
                .extend(select::kept_out(cx, &self.0, &selected));
            Arc::new(merged)
        })
    }
}

/// A socket that a gateway listens on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerPort {
    /// Its number, as the proxy binds it.
    pub number: u16,
    /// The protocol as written.
    pub protocol: Arc<str>,
    /// The address as written; empty for all.
    pub bind: Arc<str>,
}

/// A server of a Gateway object.
#[derive(Clone, PartialEq, Debug)]
pub struct GatewayServer {
    /// As written, hosts as `namespace/host` or `host` for every namespace.
    pub server: Server,
    /// The Gateway.
    pub gateway: ObjectName,
    /// Its place among the servers there.
    pub field: usize,
    /// The Gateway as rules name it, `namespace/name`.
    pub gateway_name: Arc<str>,
    /// Whether its route configuration is that of all HTTPS servers of an edge on its port.
    pub shares_routes: bool,
    /// For a server with TLS settings: its route configuration; empty for one without routes.
    pub tls_route: Arc<str>,
    /// For a server with TLS settings: the names that clients ask for, sorted.
    pub sni_hosts: Vec<String>,
}

impl GatewayServer {
    /// The port as written.
    pub fn port(&self) -> u16 {
        let port = self.server.port.as_ref().map_or(0, |p| p.number);
        u16::try_from(port).unwrap_or(0)
    }

    /// Whether plain requests are sent to HTTPS.
    pub fn https_redirect(&self) -> bool {
        self.server.tls.as_ref().is_some_and(|t| t.https_redirect)
    }
}

/// The servers of one socket.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PortServers {
    /// Places in [`MergedGateway::servers`], in the order in which their routes follow each other: the oldest Gateway first.
    pub servers: Vec<usize>,
    /// The route configuration of plain HTTP; that of a TLS server is its own.
    pub route: Arc<str>,
}

/// All Gateways of a proxy as one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MergedGateway {
    /// Every server, in the order in which they were placed: those of the proxy's namespace first, then the oldest.
    pub servers: Vec<GatewayServer>,
    /// The sockets, in the order first met.
    pub ports: Vec<ServerPort>,
    /// The servers of each socket.
    pub by_port: BTreeMap<ServerPort, PortServers>,
    /// The servers of each socket that also speak HTTP/3.
    pub quic: BTreeMap<ServerPort, PortServers>,
    /// The servers of each route configuration.
    pub by_route: BTreeMap<Arc<str>, Vec<usize>>,
    /// Route configurations whose answers offer HTTP/3.
    pub http3_routes: BTreeSet<Arc<str>>,
    /// What of the servers is not served, and why.
    pub refused: Vec<Diagnostic>,
    /// Whether some server forwards TLS by the names of clusters.
    pub auto_passthrough: bool,
    /// Whether some Gateway is of an edge.
    pub edge: bool,
}

impl MergedGateway {
    /// The servers that have a socket.
    pub fn placed(&self) -> impl Iterator<Item = &GatewayServer> {
        let places = self.by_port.values().flat_map(|port| &port.servers);
        let places: BTreeSet<usize> = places.copied().collect();
        places.into_iter().filter_map(|at| self.servers.get(at))
    }

    /// The names of the Gateways, as rules name them.
    pub fn names(&self) -> BTreeSet<&Arc<str>> {
        self.servers.iter().map(|s| &s.gateway_name).collect()
    }
}
