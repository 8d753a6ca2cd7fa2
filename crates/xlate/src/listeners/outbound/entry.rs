//! What an outbound listener is to be, before it is built: cheap to make, to compare and to use as a key.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::host::Hostname;
use model::object::ObjectName;
use model::protocol::Protocol;
use model::service::{Port, Service};

/// An outbound listener.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Entry {
    /// Addresses it is bound to, the first of which names it.
    pub(super) binds: Box<[Arc<str>]>,
    /// Its port; 0 for a Unix domain socket.
    pub(super) port: u16,
    /// Whether it binds a real port, rather than waiting for redirected connections.
    pub(super) binds_port: bool,
    /// Its filter chains: those of the first batch stand as they are, those of each further one only where they do not
    /// conflict with what is there.
    pub(super) batches: Vec<Vec<Chain>>,
}

impl Entry {
    /// The address that names it.
    pub(super) fn bind(&self) -> &str {
        self.binds.first().map_or("", |b| b)
    }

    /// Whether it has HTTP chains.
    pub(super) fn has_http(&self) -> bool {
        self.chains().any(|c| matches!(c, Chain::Http(_)))
    }

    /// Whether its TCP chains follow rules.
    pub(super) fn has_rules(&self) -> bool {
        self.chains()
            .any(|c| matches!(c, Chain::Tcp(tcp) if !tcp.rules.is_empty()))
    }

    fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.batches.iter().flatten()
    }
}

/// A filter chain, or several that belong together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Chain {
    /// An HTTP chain.
    Http(HttpChain),
    /// The TCP or TLS chains of one service.
    Tcp(TcpChains),
}

/// An HTTP chain.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct HttpChain {
    /// Name of its route configuration.
    pub(super) routes: String,
    /// Whether gRPC-Web is translated.
    pub(super) grpc_web: bool,
    /// Whether it takes only what was found to be HTTP.
    pub(super) detected: bool,
    /// Whether requests name whole URLs.
    pub(super) absolute_urls: bool,
    /// The wildcard host whose names are resolved as requests come.
    pub(super) resolves: Option<Hostname>,
}

/// The TCP or TLS chains of one service on one port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct TcpChains {
    /// The service.
    pub(super) service: ServiceKey,
    /// The address by which the proxy knows it.
    pub(super) address: Arc<str>,
    /// The port of the listener.
    pub(super) port: Port,
    /// The address ranges of the service.
    pub(super) ranges: Vec<Arc<str>>,
    /// Whether these are the addresses of one endpoint.
    pub(super) by_endpoint: bool,
    /// The address that the listener is bound to.
    pub(super) bind: Arc<str>,
    /// The rules that concern the service and have TCP or TLS routes, in order.
    pub(super) rules: Vec<Followed>,
}

/// A rule that chains follow.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Followed {
    /// Its name.
    pub(super) rule: ObjectName,
    /// Whether its connections are closed, because its routes would be copied too often.
    pub(super) refused: bool,
}

impl TcpChains {
    /// What the port speaks.
    pub(super) fn protocol(&self) -> Protocol {
        self.port.protocol
    }
}

/// A service as part of a key: cheap to hash, equal where the services are.
#[derive(Clone)]
pub(super) struct ServiceKey(pub(super) Arc<Service>);

impl PartialEq for ServiceKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for ServiceKey {}

impl Hash for ServiceKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.0.host, &self.0.namespace).hash(state);
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.namespace, self.0.host)
    }
}
