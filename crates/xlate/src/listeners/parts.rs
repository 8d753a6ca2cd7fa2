//! What all filter chains of one side of a proxy have in common, built once and shared.
//!
//! Leaves that build a listener are keyed by these values, not by the view they came from: views that agree on them share
//! the listener.

use std::hash::Hash;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::capabilities::{Capabilities, Loadable, name};
use mesh::class::Class;
use mesh::keyed::Keyed;
use mesh::proxy::Traits;
use mesh::proxy_options;
use mesh::proxy_options::StatedConfig;
use mesh::scope::ScopeKey;
use policy::envoy_filter::SelectedBy;
use policy::filters;
use policy::security::{Security, SecurityOf};
use policy::telemetry::AppliedTo;
use policy::traffic_extension::{ExtensionsOf, Has, Phases, extend};
use prost_types::Duration;
use proto_envoy::envoy::config::accesslog::v3::AccessLog;
use proto_envoy::envoy::config::listener::v3 as listener;
use store::{Reads, Snapshot};

use super::access_log::access_logs;
use super::hcm::HttpParts;
use super::repeated::Chains;
use super::tracing::{Traced, tracing_config};
use super::{metrics, refusal, repeated};
use crate::proxy_headers::ProxyHeaders;

/// What TCP filter chains and listeners of one side of a proxy have in common.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpParts {
    /// Which side.
    pub class: Class,
    /// Metrics filters.
    pub metrics: Vec<listener::Filter>,
    /// Filters that check who connects and whether they may, and those of users.
    pub security: Phases<listener::Filter>,
    /// Whether every connection is refused, because the proxy lacks one of those filters.
    pub refuses: bool,
    /// Whether that is so because the filters, repeated in every chain, are too large.
    pub overloaded: bool,
    /// Loggers of TCP proxies.
    pub access_log: Vec<AccessLog>,
    /// Loggers of listeners.
    pub listener_log: Vec<AccessLog>,
    /// When idle connections are closed, if the proxy states it.
    pub idle_timeout: Option<Duration>,
    /// What the proxy can load.
    pub capabilities: Capabilities,
    /// Whether connections are spread evenly over the proxy's threads.
    pub exact_balance: bool,
    /// How long the inspectors wait for the first bytes.
    pub detection_timeout: Option<Duration>,
    /// Pattern of the statistics names of clusters; empty for the cluster's own name.
    pub cluster_stat_name: String,
    /// Bytes that a connection may buffer, if the proxy's configuration states it.
    pub buffer_limit: Option<u32>,
}

impl TcpParts {
    /// The filter that exchanges metadata, where the proxy has it.
    pub fn metadata_exchange(&self) -> Option<listener::Filter> {
        self.capabilities
            .metadata_exchange
            .then(filters::tcp_metadata_exchange)
    }
}

/// The common parts of one side of a proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SideParts {
    /// Of TCP chains and listeners.
    pub tcp: Arc<Keyed<TcpParts>>,
    /// Of HTTP chains.
    pub http: Arc<Keyed<HttpParts>>,
}

/// What decides the common parts of one side of a proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SidePartsOf {
    /// Which side.
    pub class: Class,
    /// What the proxy may see.
    pub(crate) scope: ScopeKey,
    /// What it states of its own configuration.
    pub(crate) config: StatedConfig,
    /// What it can load.
    pub(crate) loadable: Loadable,
    /// What of that the mesh may want.
    pub(crate) capabilities: Capabilities,
    /// Which Telemetry it follows.
    pub(crate) telemetry: AppliedTo,
    /// Which filters of users it has.
    pub(crate) extensions: ExtensionsOf,
    /// Which policies it follows. Outbound none: clients are checked where they arrive.
    pub(crate) security: Option<SecurityOf>,
    /// Which patches it gets.
    pub(crate) patched: SelectedBy,
    /// Whether those are too large for all its chains, and so are left out.
    pub(crate) too_many_copies: bool,
    /// What spans tell of it, where the side is traced.
    traced: Option<Arc<Traced>>,
    /// What decides how many chains there are.
    pub(super) chains: Chains,
    http10: bool,
    exact_balance: bool,
    idle_timeout: Option<Arc<str>>,
}

impl SidePartsOf {
    /// What decides the common parts of one side of a proxy.
    pub(crate) fn of(
        cx: &Cx<'_, Snapshot>,
        proxy: &Traits<'_>,
        class: Class,
        chains: Chains,
    ) -> Self {
        let telemetry = AppliedTo::of(cx, proxy);
        let patched = SelectedBy::of(cx, proxy);
        let balance = match class {
            Class::SidecarInbound => "INBOUND_LISTENER_EXACT_BALANCE",
            Class::SidecarOutbound | Class::Gateway => "OUTBOUND_LISTENER_EXACT_BALANCE",
        };
        Self {
            class,
            scope: proxy.scope.clone(),
            config: StatedConfig::of(proxy),
            loadable: Loadable::of(proxy),
            capabilities: Capabilities::of(proxy),
            traced: Traced::of(cx, proxy, &telemetry, class).map(Arc::new),
            telemetry,
            extensions: ExtensionsOf::of(cx, proxy),
            security: match class {
                Class::SidecarOutbound => None,
                Class::SidecarInbound | Class::Gateway => Some(SecurityOf::of(cx, proxy)),
            },
            too_many_copies: repeated::too_many_copies(cx, proxy, &patched),
            patched,
            chains,
            http10: proxy.text("HTTP10").as_deref() == Some("1"),
            exact_balance: proxy.flag(balance),
            idle_timeout: proxy.text("IDLE_TIMEOUT").map(Arc::from),
        }
    }

    /// What runs filters of users.
    pub(crate) fn has(&self, cx: &Cx<'_, Snapshot>) -> Has<'_> {
        Has {
            loadable: &self.loadable,
            capabilities: self.capabilities,
            fetches: cx.settings().features.wasm_fetch,
        }
    }
}

impl Query<Snapshot> for SidePartsOf {
    type Value = SideParts;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> SideParts {
        let class = self.class;
        let settings = cx.settings();
        let mesh = &*settings.mesh;
        let proxy = self.config.or_of(mesh);
        let applied = cx.query(&self.telemetry);
        let mut capabilities = self.capabilities;
        capabilities.metadata_exchange &= settings.features.metadata_exchange;
        capabilities.metadata_exchange_alpn &=
            capabilities.metadata_exchange && !settings.features.disable_mx_alpn;
        capabilities.redis &= settings.features.redis_filter;
        capabilities.mysql &= settings.features.mysql_filter;
        let logs = access_logs(cx, &self.loadable, &applied, mesh, class);
        let metrics = if capabilities.stats {
            metrics::configs(&applied, mesh, class)
        } else {
            Vec::new()
        };
        let tracing = tracing_config(cx, self.traced.as_deref(), &applied, (mesh, &proxy), class);
        let stat_name = match class {
            Class::SidecarInbound => &mesh.inbound_cluster_stat_name,
            Class::SidecarOutbound | Class::Gateway => &mesh.outbound_cluster_stat_name,
        };
        let idle_timeout = self.idle_timeout.as_deref();
        let idle_timeout = idle_timeout.and_then(proxy_options::idle_timeout);
        let security = self.security.as_ref();
        let mut security = security.map_or_else(Security::default, |of| (*cx.query(of)).clone());
        let mut missing = refusal::take_missing(&self.loadable, &mut security.http, |f| &f.name);
        let mut missing_tcp = refusal::take_missing(&self.loadable, &mut security.tcp, |f| &f.name);
        let extensions = cx.query(&self.extensions);
        let has = self.has(cx);
        missing.extend(extend(&mut security.http, &extensions, has, class));
        // Filters of connections stand before requests too.
        let of_connections = extend(&mut security.tcp, &extensions, has, class);
        missing.extend(of_connections.iter().cloned());
        missing_tcp.extend(of_connections);
        let overloaded = repeated::too_much(cx, self, &security);
        let closed = overloaded || repeated::closed_by_patches(cx, self);
        if closed {
            // Without them nobody may be let in, nor out.
            security = Security::default();
            missing = vec![repeated::ROOM.to_owned()];
            missing_tcp.clone_from(&missing);
        }
        let connection = proxy_options::connection_settings(&proxy, mesh, class);
        let buffer_limit = connection
            .as_ref()
            .and_then(|c| c.listener_per_connection_buffer_limit_bytes)
            .and_then(|bytes| u32::try_from(bytes).ok());
        let http = HttpParts::new(super::hcm::Input {
            class,
            mesh,
            networks: &settings.networks,
            headers: ProxyHeaders::of(&proxy, class),
            connection,
            capabilities,
            http10: settings.features.http10 || self.http10,
            sessions: settings.features.persistent_session_filter,
            idle_timeout,
            access_log: logs.http,
            tracing,
            security: security.http,
            missing,
            topology: proxy.gateway_topology,
            metrics: metrics
                .iter()
                .map(|config| filters::http(name::STATS, config.clone()))
                .collect(),
        });
        let tcp = TcpParts {
            class,
            metrics: metrics
                .into_iter()
                .map(|config| filters::network(name::STATS, config))
                .collect(),
            security: security.tcp,
            refuses: !missing_tcp.is_empty(),
            overloaded,
            access_log: logs.tcp,
            listener_log: logs.listener,
            idle_timeout,
            capabilities,
            exact_balance: self.exact_balance,
            detection_timeout: mesh.protocol_detection_timeout.map(|d| d.0),
            cluster_stat_name: stat_name.clone(),
            buffer_limit: (class == Class::Gateway).then_some(buffer_limit).flatten(),
        };
        SideParts {
            tcp: Keyed::new(tcp),
            http: Keyed::new(http),
        }
    }
}
