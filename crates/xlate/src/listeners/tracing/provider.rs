//! Tracers of the providers that mesh config declares.

use incr::Cx;
use mesh::proxy_options::seconds;
use model::node::Role;
use policy::provider_cluster::{ProviderCluster, lookup};
use proto_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use proto_envoy::envoy::config::core::v3::{
    HeaderValue, HeaderValueOption, HttpService, HttpUri, TypedExtensionConfig, http_uri,
};
use proto_envoy::envoy::config::trace::v3 as trace;
use proto_envoy::envoy::extensions::tracers::opentelemetry::resource_detectors::v3::{
    DynatraceResourceDetectorConfig, EnvironmentResourceDetectorConfig,
};
use proto_envoy::envoy::extensions::tracers::opentelemetry::samplers::v3::DynatraceSamplerConfig;
use proto_istio::mesh::mesh_config::ExtensionProvider;
use proto_istio::mesh::mesh_config::extension_provider::http_header::HeaderValue as Stated;
use proto_istio::mesh::mesh_config::extension_provider::open_telemetry_tracing_provider::{
    DynatraceSampler, Sampling,
};
use proto_istio::mesh::mesh_config::extension_provider::{
    HttpHeader, OpenTelemetryTracingProvider, Provider, ServiceAttributeEnrichment,
    ZipkinTracingProvider,
};
use store::Snapshot;
use xds::any;

use super::Traced;
use policy::provider_cluster::envoy_grpc;

/// How long a service that is asked over HTTP may take where nothing is stated: Envoy wants some time.
const TIMEOUT_SECONDS: u64 = 5;
const ENVIRONMENT_DETECTOR: &str = "envoy.tracers.opentelemetry.resource_detectors.environment";
const DYNATRACE_DETECTOR: &str = "envoy.tracers.opentelemetry.resource_detectors.dynatrace";

const DYNATRACE_SAMPLER: &str = "envoy.tracers.opentelemetry.samplers.dynatrace";
/// Where Dynatrace tells how much to sample.
const DYNATRACE_SAMPLING: &str = "api/v2/samplingConfiguration";

/// A tracer and what it changes of tracing.
pub(super) struct Tracer {
    /// For the connection manager.
    pub(super) http: trace::tracing::Http,
    /// Whether a span is made for the request upstream.
    pub(super) spawn_upstream_span: bool,
    /// Longest path in a tag.
    pub(super) max_path_tag_length: Option<u32>,
    /// Whether it samples itself.
    pub(super) samples: bool,
}

/// The tracer of a provider; `None` for providers of something else, of a service that is not known, or that the proxy
/// cannot load.
pub(super) fn tracer(
    cx: &Cx<'_, Snapshot>,
    traced: &Traced,
    provider: &ExtensionProvider,
) -> Option<Tracer> {
    let (name, config, max_tag_length, samples) = match provider.provider.as_ref()? {
        Provider::Zipkin(p) => {
            let cluster = lookup(cx, &p.service, p.port)?;
            let config = any(&zipkin(traced, p, &cluster));
            ("envoy.tracers.zipkin", config, p.max_tag_length, false)
        }
        Provider::Datadog(p) => {
            let cluster = lookup(cx, &p.service, p.port)?;
            let config = any(&trace::DatadogConfig {
                collector_cluster: cluster.cluster,
                collector_hostname: cluster.host,
                service_name: traced.service_cluster.to_string(),
                ..Default::default()
            });
            ("envoy.tracers.datadog", config, p.max_tag_length, false)
        }
        Provider::Skywalking(p) => {
            let cluster = lookup(cx, &p.service, p.port)?;
            let config = any(&trace::SkyWalkingConfig {
                grpc_service: Some(envoy_grpc(&cluster)),
                ..Default::default()
            });
            ("envoy.tracers.skywalking", config, 0, false)
        }
        Provider::Opentelemetry(p) => {
            let cluster = lookup(cx, &p.service, p.port)?;
            let sampler = match &p.sampling {
                Some(Sampling::DynatraceSampler(s)) => Some(dynatrace(cx, p, s, &cluster)?),
                None => None,
            };
            let samples = sampler.is_some();
            let config = any(&trace::OpenTelemetryConfig {
                sampler,
                ..open_telemetry(traced, p, cluster)
            });
            (
                "envoy.tracers.opentelemetry",
                config,
                p.max_tag_length,
                samples,
            )
        }
        _ => return None,
    };
    if !traced.loadable.has(name) {
        return None;
    }
    Some(Tracer {
        http: trace::tracing::Http {
            name: name.to_owned(),
            config_type: Some(trace::tracing::http::ConfigType::TypedConfig(config)),
        },
        spawn_upstream_span: traced.role == Role::Router || name == "envoy.tracers.skywalking",
        max_path_tag_length: (max_tag_length != 0).then_some(max_tag_length),
        samples,
    })
}

fn zipkin(
    traced: &Traced,
    p: &ZipkinTracingProvider,
    cluster: &ProviderCluster,
) -> trace::ZipkinConfig {
    let endpoint = if p.path.is_empty() {
        "/api/v2/spans"
    } else {
        &p.path
    };
    let mut config = trace::ZipkinConfig {
        collector_endpoint_version: trace::zipkin_config::CollectorEndpointVersion::HttpJson as i32,
        trace_id_128bit: !p.enable_64bit_trace_id,
        shared_span_context: Some(false),
        ..Default::default()
    };
    // Older proxies know only the older fields, without time limit and headers.
    if traced.at_least(1, 29) {
        let uri = format!("http://{}{endpoint}", cluster.host);
        config.collector_service = Some(http_service(
            uri,
            &cluster.cluster,
            p.timeout.map(|t| t.0),
            &p.headers,
        ));
    } else {
        config.collector_cluster.clone_from(&cluster.cluster);
        config.collector_hostname.clone_from(&cluster.host);
        config.collector_endpoint = endpoint.to_owned();
    }
    if traced.at_least(1, 28) {
        config.trace_context_option = p.trace_context_option;
    }
    config
}

fn open_telemetry(
    traced: &Traced,
    p: &OpenTelemetryTracingProvider,
    cluster: ProviderCluster,
) -> trace::OpenTelemetryConfig {
    let semantic =
        p.service_attribute_enrichment() == ServiceAttributeEnrichment::OtelSemanticConventions;
    let mut config = trace::OpenTelemetryConfig {
        service_name: if semantic {
            traced.service_name.to_string()
        } else {
            traced.service_cluster.to_string()
        },
        ..Default::default()
    };
    if let Some(http) = &p.http {
        let uri = join_path(&cluster.host, &http.path);
        config.http_service = Some(http_service(
            uri,
            &cluster.cluster,
            http.timeout.map(|t| t.0),
            &http.headers,
        ));
    } else {
        let mut grpc = envoy_grpc(&cluster);
        if let Some(stated) = &p.grpc {
            grpc.timeout = stated.timeout.map(|t| t.0);
            grpc.initial_metadata = stated.initial_metadata.iter().map(header).collect();
        }
        config.grpc_service = Some(grpc);
    }
    let detectors = p.resource_detectors.unwrap_or_default();
    if detectors.environment.is_some() || semantic {
        config.resource_detectors.push(TypedExtensionConfig {
            name: ENVIRONMENT_DETECTOR.to_owned(),
            typed_config: Some(any(&EnvironmentResourceDetectorConfig {})),
        });
    }
    if detectors.dynatrace.is_some() {
        let detector = TypedExtensionConfig {
            name: DYNATRACE_DETECTOR.to_owned(),
            typed_config: Some(any(&DynatraceResourceDetectorConfig {})),
        };
        // Before the environment's, if that was only implied.
        let at = usize::from(detectors.environment.is_some());
        config.resource_detectors.insert(at, detector);
    }
    config
}

/// Sampling as Dynatrace decides: asked at a service of its own, or where spans are exported to over HTTP. `None` where
/// neither is known.
///
/// Istio: pilot/pkg/networking/core/tracing.go configureDynatraceSampler, 1.32.
fn dynatrace(
    cx: &Cx<'_, Snapshot>,
    p: &OpenTelemetryTracingProvider,
    stated: &DynatraceSampler,
    exporter: &ProviderCluster,
) -> Option<TypedExtensionConfig> {
    let service = match &stated.http_service {
        None => {
            let http = p.http.as_ref()?;
            http_service(
                join_path(&exporter.host, DYNATRACE_SAMPLING),
                &exporter.cluster,
                http.timeout.map(|t| t.0),
                &http.headers,
            )
        }
        Some(api) => {
            let own = lookup(cx, &api.service, api.port)?;
            let http = api.http.clone().unwrap_or_default();
            http_service(
                join_path(&own.host, &http.path),
                &own.cluster,
                http.timeout.map(|t| t.0),
                &http.headers,
            )
        }
    };
    let config = DynatraceSamplerConfig {
        tenant: stated.tenant.clone(),
        cluster_id: stated.cluster_id,
        root_spans_per_minute: stated.root_spans_per_minute,
        http_service: Some(service),
    };
    Some(TypedExtensionConfig {
        name: DYNATRACE_SAMPLER.to_owned(),
        typed_config: Some(any(&config)),
    })
}

fn http_service(
    uri: String,
    cluster: &str,
    timeout: Option<prost_types::Duration>,
    headers: &[HttpHeader],
) -> HttpService {
    HttpService {
        http_uri: Some(HttpUri {
            uri,
            timeout: Some(timeout.unwrap_or(seconds(TIMEOUT_SECONDS))),
            http_upstream_type: Some(http_uri::HttpUpstreamType::Cluster(cluster.to_owned())),
        }),
        request_headers_to_add: headers
            .iter()
            .map(|h| HeaderValueOption {
                header: Some(header(h)),
                append_action: HeaderAppendAction::OverwriteIfExistsOrAdd as i32,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// A header with its value. Generation has no environment: values of that were put in when the mesh config was read, and
/// a variable that was not set then is empty.
fn header(stated: &HttpHeader) -> HeaderValue {
    let value = match &stated.header_value {
        Some(Stated::Value(value)) => value.clone(),
        Some(Stated::EnvName(_)) | None => String::new(),
    };
    HeaderValue {
        key: stated.name.clone(),
        value,
        ..Default::default()
    }
}

/// Joins as Go's `url.JoinPath` does for a host and a path.
fn join_path(host: &str, path: &str) -> String {
    let trimmed = path.trim_start_matches('/');
    if trimmed.is_empty() && path.is_empty() {
        host.to_owned()
    } else {
        format!("{host}/{trimmed}")
    }
}
