//! Which extensions a data plane has, and what is sent to one that lacks some.
//!
//! Two data planes are served: Istio's build of Envoy and the stock one. A proxy says in `node.extensions` what it has;
//! one that says nothing is taken for Istio's. Nothing that a proxy cannot load is ever sent:
//!
//! | extension | without it |
//! |---|---|
//! | `istio.stats` | left out: it only observes |
//! | `istio.metadata_exchange` (HTTP and TCP) | left out, and servers do not offer its ALPN |
//! | `istio.alpn` | left out: clusters state their ALPN in the TLS context |
//! | protocol filters (Mongo, Redis, MySQL) | left out: the TCP proxy behind them remains |
//! | certificates, from an agent or from us | clients and servers speak plain text where they may, and nothing where a rule wants mutual TLS |
//! | access loggers, tracers, formatters | left out: they only observe |
//! | a filter that protects (RBAC, JWT, external authorization) | the chain refuses all traffic |

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::proxy::Traits;

/// Names under which extensions are registered in Envoy.
pub mod name {
    /// Istio's metrics.
    pub const STATS: &str = "istio.stats";
    /// Istio's exchange of peer metadata.
    pub const METADATA_EXCHANGE: &str = "istio.metadata_exchange";
    /// Istio's override of the ALPN of upstream connections.
    pub const ALPN: &str = "istio.alpn";
    /// HTTP connection manager.
    pub const HTTP_CONNECTION_MANAGER: &str = "envoy.filters.network.http_connection_manager";
    /// TCP proxy.
    pub const TCP_PROXY: &str = "envoy.filters.network.tcp_proxy";
    /// Redis, by command.
    pub const REDIS_PROXY: &str = "envoy.filters.network.redis_proxy";
    /// MySQL statistics.
    pub const MYSQL_PROXY: &str = "envoy.filters.network.mysql_proxy";
    /// MongoDB statistics.
    pub const MONGO_PROXY: &str = "envoy.filters.network.mongo_proxy";
    /// DNS resolution of the SNI.
    pub const SNI_DYNAMIC_FORWARD_PROXY: &str = "envoy.filters.network.sni_dynamic_forward_proxy";
    /// Statistics of gRPC.
    pub const GRPC_STATS: &str = "envoy.filters.http.grpc_stats";
    /// gRPC-Web.
    pub const GRPC_WEB: &str = "envoy.filters.http.grpc_web";
    /// Fault injection.
    pub const FAULT: &str = "envoy.filters.http.fault";
    /// CORS.
    pub const CORS: &str = "envoy.filters.http.cors";
    /// Router.
    pub const ROUTER: &str = "envoy.filters.http.router";
    /// Sessions bound to endpoints.
    pub const STATEFUL_SESSION: &str = "envoy.filters.http.stateful_session";
    /// DNS resolution of the authority.
    pub const DYNAMIC_FORWARD_PROXY: &str = "envoy.filters.http.dynamic_forward_proxy";
    /// Access control of HTTP.
    pub const HTTP_RBAC: &str = "envoy.filters.http.rbac";
    /// Access control of TCP.
    pub const NETWORK_RBAC: &str = "envoy.filters.network.rbac";
    /// Authorizers asked about requests.
    pub const EXT_AUTHZ_HTTP: &str = "envoy.filters.http.ext_authz";
    /// Authorizers asked about connections.
    pub const EXT_AUTHZ_NETWORK: &str = "envoy.filters.network.ext_authz";
    /// JSON web tokens.
    pub const JWT_AUTHN: &str = "envoy.filters.http.jwt_authn";
    /// Lets a server look at requests and change them.
    pub const EXT_PROC: &str = "envoy.filters.http.ext_proc";
    /// Detection of TLS.
    pub const TLS_INSPECTOR: &str = "envoy.filters.listener.tls_inspector";
    /// Detection of HTTP.
    pub const HTTP_INSPECTOR: &str = "envoy.filters.listener.http_inspector";
    /// Original destination.
    pub const ORIGINAL_DST: &str = "envoy.filters.listener.original_dst";
    /// Original source.
    pub const ORIGINAL_SRC: &str = "envoy.filters.listener.original_src";
    /// PROXY protocol.
    pub const PROXY_PROTOCOL: &str = "envoy.filters.listener.proxy_protocol";
    /// QUIC transport socket.
    pub const QUIC: &str = "envoy.transport_sockets.quic";
    /// TLS transport socket.
    pub const TLS: &str = "envoy.transport_sockets.tls";
}

/// What of the extensions that may be missing a proxy has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Capabilities {
    /// `istio.stats`.
    pub stats: bool,
    /// `istio.metadata_exchange`.
    pub metadata_exchange: bool,
    /// Whether servers agree to it by ALPN.
    pub metadata_exchange_alpn: bool,
    /// `istio.alpn`.
    pub alpn: bool,
    /// The Mongo filter.
    pub mongo: bool,
    /// The Redis filter, where it is wanted.
    pub redis: bool,
    /// The MySQL filter, where it is wanted.
    pub mysql: bool,
    /// Where its certificate comes from.
    pub certificates: CertificateSource,
}

/// Where the certificate of a proxy's identity, and the roots that it trusts, come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CertificateSource {
    /// From nowhere.
    Nowhere,
    /// From an agent beside the proxy, as beside Istio's own. A stock Envoy has none: what names the agent's cluster would
    /// be refused. `PILOTHOUSE_CERTIFICATES: true` in its metadata says that its bootstrap knows one.
    Agent,
    /// From us, with its other resources. `PILOTHOUSE_CERTIFICATES: ads` says that the proxy wants that; its identity has
    /// to be proven.
    Ads,
}

impl CertificateSource {
    fn of(proxy: &Traits<'_>, loadable: &Loadable) -> Self {
        const STATED: &str = "PILOTHOUSE_CERTIFICATES";
        let istio = || proxy.node.version.is_some() || loadable.0.is_none();
        match proxy.text(STATED).as_deref() {
            Some("ads") if proxy.node.identity.is_some() => Self::Ads,
            Some("ads") => Self::Nowhere,
            _ if istio() || proxy.flag(STATED) => Self::Agent,
            _ => Self::Nowhere,
        }
    }

    /// Whether the proxy has a certificate.
    pub fn is_any(self) -> bool {
        self != Self::Nowhere
    }
}

impl Capabilities {
    /// What a proxy has.
    pub fn of(proxy: &Traits<'_>) -> Self {
        let loadable = Loadable::of(proxy);
        Self {
            stats: loadable.has(name::STATS),
            metadata_exchange: loadable.has(name::METADATA_EXCHANGE),
            metadata_exchange_alpn: loadable.has(name::METADATA_EXCHANGE),
            alpn: loadable.has(name::ALPN),
            mongo: loadable.has(name::MONGO_PROXY),
            redis: loadable.has(name::REDIS_PROXY),
            mysql: loadable.has(name::MYSQL_PROXY),
            certificates: CertificateSource::of(proxy, &loadable),
        }
    }
}

/// The extensions that a proxy can load.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Loadable(Option<Arc<BTreeSet<Arc<str>>>>);

impl Loadable {
    /// Those of a proxy.
    pub fn of(proxy: &Traits<'_>) -> Self {
        Self(proxy.node.extensions.clone())
    }

    /// Whether the extension of that name is among them (`istio.stats`, `envoy.filters.http.router`). A proxy that does not
    /// say is taken for Istio's own.
    pub fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|known| known.contains(name))
    }

    /// Whether the proxy says that the extension of that name is among them.
    pub fn states(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|known| known.contains(name))
    }
}
