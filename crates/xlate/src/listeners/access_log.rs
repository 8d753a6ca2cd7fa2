//! Access loggers, from Telemetry and providers or from the older settings of the mesh.
//!
//! Istio: pilot/pkg/networking/core/accesslog.go and pilot/pkg/model/telemetry_logging.go, 1.32.

mod format;

use incr::Cx;
use mesh::capabilities::Loadable;
use mesh::class::Class;
use policy::provider_cluster::{ProviderCluster, envoy_grpc, lookup};
use policy::telemetry::{Applied, logging, provider};
use prost_types::Any;
use proto_envoy::envoy::config::accesslog::v3 as accesslog;
use proto_envoy::envoy::config::core::v3::ApiVersion;
use proto_envoy::envoy::extensions::access_loggers::file::v3::{FileAccessLog, file_access_log};
use proto_envoy::envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter;
use proto_envoy::envoy::extensions::access_loggers::grpc::v3::{
    CommonGrpcAccessLogConfig, HttpGrpcAccessLogConfig, TcpGrpcAccessLogConfig,
};
use proto_envoy::envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
use proto_envoy::opentelemetry::proto::common::v1::{AnyValue, KeyValue, KeyValueList, any_value};
use proto_istio::mesh::MeshConfig;
use proto_istio::mesh::mesh_config::extension_provider::{
    EnvoyFileAccessLogProvider, EnvoyHttpGrpcV3LogProvider, EnvoyOpenTelemetryLogProvider,
    EnvoyTcpGrpcV3LogProvider, Provider,
};
use store::Snapshot;
use xds::any;

const FILE: &str = "envoy.access_loggers.file";
const HTTP_GRPC: &str = "envoy.access_loggers.http_grpc";
const TCP_GRPC: &str = "envoy.tcp_grpc_access_log";
const OPEN_TELEMETRY: &str = "envoy.access_loggers.open_telemetry";
const CEL_FILTER: &str = "envoy.access_loggers.extension_filters.cel";
/// The cluster of the bootstrap that `enableEnvoyAccessLogService` logs to.
const SERVICE_CLUSTER: &str = "envoy_accesslog_service";
const HTTP_LOG_NAME: &str = "http_envoy_accesslog";
const TCP_LOG_NAME: &str = "tcp_envoy_accesslog";
const LISTENER_LOG_NAME: &str = "listener_envoy_accesslog";
const OPEN_TELEMETRY_LOG_NAME: &str = "otel_envoy_accesslog";
/// What metadata exchange knows of the peers.
const PEER_STATE: [&str; 2] = ["upstream_peer", "downstream_peer"];
/// The same, with the names that older proxies use.
const ALL_PEER_STATE: [&str; 6] = [
    "upstream_peer",
    "downstream_peer",
    "wasm.upstream_peer",
    "wasm.upstream_peer_id",
    "wasm.downstream_peer",
    "wasm.downstream_peer_id",
];

/// The access loggers of one side of a proxy.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AccessLogs {
    /// Of HTTP connection managers.
    pub http: Vec<accesslog::AccessLog>,
    /// Of TCP proxies.
    pub tcp: Vec<accesslog::AccessLog>,
    /// Of listeners: connections that no filter chain takes.
    pub listener: Vec<accesslog::AccessLog>,
}

/// The access loggers of one side of a proxy.
pub fn access_logs(
    cx: &Cx<'_, Snapshot>,
    loadable: &Loadable,
    applied: &Applied,
    mesh: &MeshConfig,
    class: Class,
) -> AccessLogs {
    let mut logs = match logging::merge(applied, mesh, class) {
        // Where every provider is unknown or of no use for logs, the older settings count again.
        Some(stated) => {
            let found = provided(cx, mesh, stated);
            if found.is_empty() {
                from_mesh(mesh)
            } else {
                of_providers(&found)
            }
        }
        None => from_mesh(mesh),
    };
    if mesh.disable_envoy_listener_log {
        logs.listener.clear();
    }
    for list in [&mut logs.http, &mut logs.tcp, &mut logs.listener] {
        list.retain(|log| {
            loadable.has(&log.name) && (!uses_cel(log.filter.as_ref()) || loadable.has(CEL_FILTER))
        });
    }
    logs
}

struct Provided {
    name: String,
    logger: &'static str,
    config: Any,
    logging: logging::Logging,
}

fn provided(
    cx: &Cx<'_, Snapshot>,
    mesh: &MeshConfig,
    stated: std::collections::BTreeMap<String, logging::Logging>,
) -> Vec<Provided> {
    let mut found: Vec<Provided> = stated
        .into_iter()
        .filter_map(|(name, logging)| {
            let provider = provider(mesh, &name)?;
            let (logger, config) = logger(cx, mesh, &provider.name, provider.provider.as_ref()?)?;
            Some(Provided {
                name: provider.name.clone(),
                logger,
                config,
                logging,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn of_providers(found: &[Provided]) -> AccessLogs {
    let build = |outer: Option<accesslog::AccessLogFilter>| {
        found
            .iter()
            .filter(|p| !p.logging.disabled)
            .map(|p| {
                let inner = p.logging.filter.as_deref().map(cel_filter);
                let filters: Vec<_> = outer.clone().into_iter().chain(inner).collect();
                log(p.logger, p.config.clone(), both(filters))
            })
            .collect::<Vec<_>>()
    };
    AccessLogs {
        http: build(None),
        tcp: build(None),
        listener: build(Some(no_route_filter())),
    }
}

fn from_mesh(mesh: &MeshConfig) -> AccessLogs {
    let mut logs = AccessLogs::default();
    if !mesh.access_log_file.is_empty() {
        let config = any(&file(
            mesh.access_log_file.clone(),
            Some(format::of_mesh(mesh)),
        ));
        logs.http.push(log(FILE, config.clone(), None));
        logs.tcp.push(log(FILE, config.clone(), None));
        logs.listener
            .push(log(FILE, config, Some(no_route_filter())));
    }
    if mesh.enable_envoy_access_log_service {
        let common = |name: &str| {
            let cluster = ProviderCluster {
                host: String::new(),
                cluster: SERVICE_CLUSTER.to_owned(),
            };
            common_grpc(name, &cluster, owned(&ALL_PEER_STATE))
        };
        let http = HttpGrpcAccessLogConfig {
            common_config: Some(common(HTTP_LOG_NAME)),
            ..Default::default()
        };
        let tcp = |name| {
            any(&TcpGrpcAccessLogConfig {
                common_config: Some(common(name)),
            })
        };
        logs.http.push(log(HTTP_GRPC, any(&http), None));
        logs.tcp.push(log(TCP_GRPC, tcp(TCP_LOG_NAME), None));
        logs.listener.push(log(
            TCP_GRPC,
            tcp(LISTENER_LOG_NAME),
            Some(no_route_filter()),
        ));
    }
    logs
}

/// The logger of a provider; `None` for providers of something else, or of a service that is not known.
fn logger(
    cx: &Cx<'_, Snapshot>,
    mesh: &MeshConfig,
    name: &str,
    provider: &Provider,
) -> Option<(&'static str, Any)> {
    match provider {
        Provider::EnvoyFileAccessLog(p) => Some((FILE, any(&file_of_provider(mesh, name, p)))),
        Provider::EnvoyHttpAls(p) => Some((HTTP_GRPC, any(&http_grpc(cx, p)?))),
        Provider::EnvoyTcpAls(p) => Some((TCP_GRPC, any(&tcp_grpc(cx, p)?))),
        Provider::EnvoyOtelAls(p) => Some((OPEN_TELEMETRY, any(&open_telemetry(cx, p)?))),
        _ => None,
    }
}

fn file_of_provider(
    mesh: &MeshConfig,
    name: &str,
    p: &EnvoyFileAccessLogProvider,
) -> FileAccessLog {
    // The provider that Istio itself declares takes its format from the mesh, like the older setting.
    if name == "envoy" && p.log_format.is_none() && !p.omit_empty_values {
        return file(p.path.clone(), Some(format::of_mesh(mesh)));
    }
    let path = if p.path.is_empty() {
        "/dev/stdout".to_owned()
    } else {
        p.path.clone()
    };
    file(path, format::of_provider(p))
}

fn file(path: String, format: Option<format::Format>) -> FileAccessLog {
    FileAccessLog {
        path,
        access_log_format: format.map(file_access_log::AccessLogFormat::LogFormat),
    }
}

fn http_grpc(
    cx: &Cx<'_, Snapshot>,
    p: &EnvoyHttpGrpcV3LogProvider,
) -> Option<HttpGrpcAccessLogConfig> {
    let cluster = lookup(cx, &p.service, p.port)?;
    let state = stated_or(&p.filter_state_objects_to_log, &PEER_STATE);
    Some(HttpGrpcAccessLogConfig {
        common_config: Some(common_grpc(
            named(&p.log_name, HTTP_LOG_NAME),
            &cluster,
            state,
        )),
        additional_request_headers_to_log: p.additional_request_headers_to_log.clone(),
        additional_response_headers_to_log: p.additional_response_headers_to_log.clone(),
        additional_response_trailers_to_log: p.additional_response_trailers_to_log.clone(),
    })
}

fn tcp_grpc(
    cx: &Cx<'_, Snapshot>,
    p: &EnvoyTcpGrpcV3LogProvider,
) -> Option<TcpGrpcAccessLogConfig> {
    let cluster = lookup(cx, &p.service, p.port)?;
    let state = stated_or(&p.filter_state_objects_to_log, &PEER_STATE);
    Some(TcpGrpcAccessLogConfig {
        common_config: Some(common_grpc(
            named(&p.log_name, TCP_LOG_NAME),
            &cluster,
            state,
        )),
    })
}

#[expect(
    deprecated,
    reason = "proxies of all supported versions read `common_config`"
)]
fn open_telemetry(
    cx: &Cx<'_, Snapshot>,
    p: &EnvoyOpenTelemetryLogProvider,
) -> Option<OpenTelemetryAccessLogConfig> {
    let cluster = lookup(cx, &p.service, p.port)?;
    let stated = p.log_format.clone().unwrap_or_default();
    let text = named(&stated.text, format::TEXT);
    let labels = stated.labels.map(|l| l.0.fields).unwrap_or_default();
    let string = |text: &str| AnyValue {
        value: Some(any_value::Value::StringValue(text.to_owned())),
    };
    let attributes: Vec<KeyValue> = labels
        .iter()
        .map(|(key, value)| KeyValue {
            key: key.clone(),
            value: Some(string(format::text_of(value))),
            ..Default::default()
        })
        .collect();
    Some(OpenTelemetryAccessLogConfig {
        common_config: Some(common_grpc(
            named(&p.log_name, OPEN_TELEMETRY_LOG_NAME),
            &cluster,
            owned(&ALL_PEER_STATE),
        )),
        disable_builtin_labels: true,
        body: Some(string(text)),
        attributes: (!attributes.is_empty()).then_some(KeyValueList { values: attributes }),
        formatters: format::formatters(
            std::iter::once(text).chain(labels.values().map(format::text_of)),
        ),
        ..Default::default()
    })
}

fn common_grpc(
    name: &str,
    cluster: &ProviderCluster,
    state: Vec<String>,
) -> CommonGrpcAccessLogConfig {
    CommonGrpcAccessLogConfig {
        log_name: name.to_owned(),
        grpc_service: Some(envoy_grpc(cluster)),
        transport_api_version: ApiVersion::V3 as i32,
        filter_state_objects_to_log: state,
        ..Default::default()
    }
}

fn named<'a>(stated: &'a str, default: &'a str) -> &'a str {
    if stated.is_empty() { default } else { stated }
}

fn stated_or(stated: &[String], default: &[&str]) -> Vec<String> {
    if stated.is_empty() {
        owned(default)
    } else {
        stated.to_vec()
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn log(
    name: &str,
    config: Any,
    filter: Option<accesslog::AccessLogFilter>,
) -> accesslog::AccessLog {
    accesslog::AccessLog {
        name: name.to_owned(),
        filter,
        config_type: Some(accesslog::access_log::ConfigType::TypedConfig(config)),
    }
}

fn filter(specifier: accesslog::access_log_filter::FilterSpecifier) -> accesslog::AccessLogFilter {
    accesslog::AccessLogFilter {
        filter_specifier: Some(specifier),
    }
}

/// Only connections that no filter chain takes: others are logged by the filters of their chain.
fn no_route_filter() -> accesslog::AccessLogFilter {
    filter(
        accesslog::access_log_filter::FilterSpecifier::ResponseFlagFilter(
            accesslog::ResponseFlagFilter {
                flags: vec!["NR".to_owned()],
            },
        ),
    )
}

/// The same loggers for connections that could not be made, alone.
///
/// Istio: setHboneOriginationAccessLog.
pub(super) fn of_failures(logs: &[accesslog::AccessLog]) -> Vec<accesslog::AccessLog> {
    let failed = filter(
        accesslog::access_log_filter::FilterSpecifier::ResponseFlagFilter(
            accesslog::ResponseFlagFilter {
                flags: vec!["UF".to_owned()],
            },
        ),
    );
    let logs = logs.iter().map(|log| accesslog::AccessLog {
        filter: both(
            std::iter::once(failed.clone())
                .chain(log.filter.clone())
                .collect(),
        ),
        ..log.clone()
    });
    logs.collect()
}

fn cel_filter(expression: &str) -> accesslog::AccessLogFilter {
    let config = any(&ExpressionFilter {
        expression: expression.to_owned(),
        ..Default::default()
    });
    filter(
        accesslog::access_log_filter::FilterSpecifier::ExtensionFilter(
            accesslog::ExtensionFilter {
                name: CEL_FILTER.to_owned(),
                config_type: Some(accesslog::extension_filter::ConfigType::TypedConfig(config)),
            },
        ),
    )
}

fn both(mut filters: Vec<accesslog::AccessLogFilter>) -> Option<accesslog::AccessLogFilter> {
    if filters.len() < 2 {
        return filters.pop();
    }
    Some(filter(
        accesslog::access_log_filter::FilterSpecifier::AndFilter(accesslog::AndFilter { filters }),
    ))
}

fn uses_cel(filter: Option<&accesslog::AccessLogFilter>) -> bool {
    use accesslog::access_log_filter::FilterSpecifier;
    match filter.and_then(|f| f.filter_specifier.as_ref()) {
        Some(FilterSpecifier::ExtensionFilter(_)) => true,
        Some(FilterSpecifier::AndFilter(and)) => and.filters.iter().any(|f| uses_cel(Some(f))),
        _ => false,
    }
}
