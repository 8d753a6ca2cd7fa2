//! Backends: which protocol they speak, which endpoint is chosen, and who answers when they cannot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Reference;

/// How an endpoint is chosen.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Balance {
    /// `load-balance`; Higress's and nginx's default is round robin.
    pub algorithm: Option<Algorithm>,
    /// `upstream-hash-by`, which goes before the algorithm.
    pub hash: Option<HashBy>,
    /// `affinity` and the `session-cookie` family, which goes before both.
    pub cookie: Option<SessionCookie>,
    /// `load-balance: mcp-sse`: sessions of MCP stay with the endpoint that made them; the parameter that names them.
    pub mcp: Option<Arc<str>>,
}

/// An algorithm of load balancing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Algorithm {
    RoundRobin,
    LeastRequest,
    Random,
    Passthrough,
}

/// What of a request decides where it goes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum HashBy {
    /// A header, `:path` and `:authority` among them.
    Header(Arc<str>),
    /// A parameter of the query.
    Query(Arc<str>),
    /// The address of the client.
    Address,
}

/// A cookie that keeps a client with an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SessionCookie {
    /// Its name.
    pub name: Arc<str>,
    /// Its path.
    pub path: Arc<str>,
    /// How long it lives; zero is as long as the browser runs.
    pub ttl: Duration,
    /// `Domain`, `SameSite` and `Secure` with their values; that of `Secure` is empty.
    pub attributes: BTreeMap<Arc<str>, Arc<str>>,
}

/// The backends of an Ingress.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Backend {
    /// `backend-protocol`.
    pub protocol: Protocol,
    /// `proxy-ssl-*`.
    pub tls: BackendTls,
    /// `destination`, in place of a backend that is no Service; in order.
    pub destinations: Vec<Destination>,
}

/// What backends speak.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub enum Protocol {
    /// As their ports say.
    #[default]
    Http,
    Http2,
    Https,
    Grpc,
    Grpcs,
}

/// How backends that speak TLS are spoken to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct BackendTls {
    /// `proxy-ssl-secret`: our certificate, its key, and the authority that theirs must be signed by.
    pub secret: Option<Reference>,
    /// `proxy-ssl-verify`: whether their certificate is checked; where not stated it is not, as in nginx.
    pub verify: Option<bool>,
    /// `proxy-ssl-name` where `proxy-ssl-server-name` is on, or the name that is checked.
    pub name: Option<Arc<str>>,
    /// `proxy-ssl-server-name`: the name is sent.
    pub send_name: bool,
}

/// A line of `destination`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Destination {
    /// How many of all; they need not sum up to 100.
    pub weight: u32,
    /// The host as a registry knows it.
    pub host: Arc<str>,
    /// Its port; its only one where absent.
    pub port: Option<u16>,
    /// A subset of its endpoints.
    pub subset: Option<Arc<str>>,
}

/// Who answers when backends cannot.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct DefaultBackend {
    /// `default-backend`: a Service, by its first port.
    pub service: Option<Reference>,
    /// `custom-http-errors`: with these statuses it answers too.
    pub statuses: BTreeSet<u16>,
}
