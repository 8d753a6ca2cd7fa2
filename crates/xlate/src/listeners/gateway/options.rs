//! What options of an edge make of the listeners of a gateway.
//!
//! They count for everything that the gateway serves, over what its proxy configuration states.
//!
//! Higress: pkg/ingress/kube/configmap/global.go, gzip.go and tracing.go, 2.1, which writes EnvoyFilters.

use std::sync::Arc;

use incr::Cx;
use mesh::finding::{about_named, code};
use mesh::proxy_options::seconds;
use mesh::scope::ScopeOf;
use model::diagnostic::{Diagnostic, Severity};
use model::host::Hostname;
use model::kinds::Kind;
use policy::edge::Can;
use policy::edge::options::{self, EdgeOptions, GZIP_EXTENSION, Gzip, McpServers, OptionsOf};
use proto_envoy::envoy::config::core::v3::{Http2ProtocolOptions, HttpProtocolOptions};
use proto_envoy::envoy::config::trace::v3::tracing;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::envoy::r#type::v3::Percent;
use store::{Reads, Snapshot};

use super::GatewayProxy;

/// Options, as far as the proxy can do what they say.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Applied {
    stated: Arc<options::Options>,
    /// Who is told of requests; nobody where the collector cannot be reached.
    tracer: Option<tracing::Http>,
    /// How answers are compressed.
    gzip: bool,
}

/// The options of a gateway, and what of them it cannot do.
pub(super) fn of(
    cx: &Cx<'_, Snapshot>,
    proxy: &GatewayProxy,
) -> (Option<Arc<Applied>>, Vec<Diagnostic>) {
    let options = cx.query(&OptionsOf(proxy.gateway.clone()));
    let Some(options) = &*options else {
        return (None, Vec::new());
    };
    let loadable = &proxy.parts.loadable;
    let mut found = Vec::new();
    let object = cx.query(&EdgeOptions).object.clone();
    let told = |code, severity, why: String| match &object {
        Some(name) => {
            let told = about_named(Kind::ConfigMap, name, code, severity, why);
            told.at(format!("data.{}", options::KEY))
        }
        None => Diagnostic::new(code, severity, why),
    };
    let mut lost = |why: String| found.push(told(code::UNUSABLE_SECTION, Severity::Warning, why));
    let mut tracer = None;
    if let Some(collector) = options.tracing.collector() {
        let scope = cx.query(&ScopeOf(proxy.parts.scope.clone()));
        let service = scope.service(&Hostname::from(&*collector.host));
        let mut ports = service.iter().flat_map(|service| &*service.ports);
        if !loadable.has(collector.extension()) {
            let extension = collector.extension();
            lost(format!(
                "tracing: nothing is traced, as the proxy has no {extension}"
            ));
        } else if ports.any(|port| port.number == collector.port) {
            let namespace = &cx.settings().features.edge_namespace;
            tracer = Some(options.tracing.tracer(collector, namespace));
        } else {
            lost(format!(
                "tracing: nothing is traced, as there is no service {} with the port {} for the gateway",
                collector.host, collector.port
            ));
        }
    }
    if !Can::of(loadable).runs_library() {
        let lacking = options.mcp_servers.lacking().into_iter();
        found.extend(lacking.map(|(severity, what, help)| {
            let told = told(code::LACKS_FILTER, severity, what.to_string());
            match help {
                Some(help) => told.help(help),
                None => told,
            }
        }));
    }
    let applied = Applied {
        stated: options.clone(),
        tracer,
        gzip: options.gzip.enable && loadable.has(GZIP_EXTENSION),
    };
    (Some(Arc::new(applied)), found)
}

impl Applied {
    /// The filter that compresses answers.
    pub(super) fn compressor(&self) -> Option<hcm::HttpFilter> {
        self.gzip.then(|| Gzip::filter(&self.stated.gzip))
    }

    /// The servers of MCP that the section states.
    pub(super) fn servers_of_mcp(&self) -> &McpServers {
        &self.stated.mcp_servers
    }

    /// Whether routing adds no `x-envoy-` headers.
    pub(super) fn hides_envoy_headers(&self) -> bool {
        self.stated.hides_envoy_headers
    }

    /// What a connection of a client may buffer.
    pub(super) fn buffer_limit(&self) -> u32 {
        self.stated.downstream.connection_buffer_limits
    }

    /// Sets what connection managers have.
    pub(super) fn apply(&self, manager: &mut hcm::HttpConnectionManager) {
        let stated = &self.stated.downstream;
        let idle = seconds(stated.idle_timeout.into());
        manager
            .common_http_protocol_options
            .get_or_insert_with(HttpProtocolOptions::default)
            .idle_timeout = Some(idle);
        manager.stream_idle_timeout = Some(idle);
        manager.max_request_headers_kb = Some(stated.max_request_headers_kb);
        let http2 = manager
            .http2_protocol_options
            .get_or_insert_with(Http2ProtocolOptions::default);
        http2.max_concurrent_streams = Some(stated.http2.max_concurrent_streams);
        http2.initial_stream_window_size = Some(stated.http2.initial_stream_window_size);
        http2.initial_connection_window_size = Some(stated.http2.initial_connection_window_size);
        if let Some(tracer) = &self.tracer {
            let tracing = manager.tracing.get_or_insert_default();
            tracing.provider = Some(tracer.clone());
            tracing.random_sampling = Some(Percent {
                value: self.stated.tracing.percentage(),
            });
            tracing.spawn_upstream_span = Some(true);
        }
    }
}
