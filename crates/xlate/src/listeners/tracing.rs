//! Tracing of HTTP connection managers, from Telemetry and providers or from the older settings of the mesh.
//!
//! Istio: pilot/pkg/networking/core/tracing.go, 1.32.

mod provider;
mod tags;

use std::sync::Arc;

use incr::Cx;
use mesh::capabilities::Loadable;
use mesh::class::Class;
use mesh::proxy::Traits;
use model::names::ClusterId;
use model::node::{IstioVersion, Role};
use policy::telemetry::{Applied, AppliedTo, tracing};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager as hcm;
use proto_envoy::envoy::r#type::v3::Percent;
use proto_istio::mesh::mesh_config::extension_provider::{Provider, ServiceAttributeEnrichment};
use proto_istio::mesh::{MeshConfig, ProxyConfig};
use store::{Reads, Snapshot};

/// How a connection manager traces.
#[derive(Clone, PartialEq, Debug)]
pub struct TracingConfig {
    /// For the connection manager; `None` switches tracing off.
    pub tracing: Option<hcm::Tracing>,
    /// Whether the request id carries the sampling decision.
    pub use_request_id: bool,
}

/// What spans tell of a proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Traced {
    role: Role,
    version: Option<IstioVersion>,
    loadable: Loadable,
    cluster: ClusterId,
    namespace: Arc<str>,
    mesh_id: Arc<str>,
    canonical_service: Arc<str>,
    canonical_revision: Arc<str>,
    /// The service that it states, where a tracer names that.
    service_cluster: Arc<str>,
    /// Its name by the conventions of OpenTelemetry, where a tracer goes by these.
    service_name: Arc<str>,
}

impl Traced {
    /// What spans tell of a proxy, if one of its sides is traced.
    pub(crate) fn of(
        cx: &Cx<'_, Snapshot>,
        proxy: &Traits<'_>,
        applied: &AppliedTo,
        class: Class,
    ) -> Option<Self> {
        let mesh = &*cx.settings().mesh;
        let stated = tracing::merge(&cx.query(applied), mesh, class);
        if !stated.map_or(mesh.enable_tracing, |spec| !spec.disabled) {
            return None;
        }
        let text = |key: &str| Arc::from(proxy.text(key).unwrap_or_default());
        let label = |key: &str| Arc::from(proxy.labels.get(key).unwrap_or_default());
        Some(Self {
            role: proxy.node.role,
            version: proxy.node.version,
            loadable: Loadable::of(proxy),
            cluster: proxy.node.cluster.clone(),
            namespace: text("NAMESPACE"),
            mesh_id: text("MESH_ID"),
            canonical_service: label("service.istio.io/canonical-name"),
            canonical_revision: label("service.istio.io/canonical-revision"),
            service_cluster: match names_services(mesh) {
                true => proxy.node.service_cluster.clone(),
                false => Arc::from(""),
            },
            service_name: match names_workloads(mesh) {
                true => service_name(proxy).into(),
                false => Arc::from(""),
            },
        })
    }

    /// Whether the proxy states a version of Istio, and at least this one. Proxies that state none count as the newest.
    fn at_least(&self, major: u16, minor: u16) -> bool {
        let version = self.version;
        version.is_none_or(|v| (v.major, v.minor) >= (major, minor))
    }
}

/// Whether a tracer of the mesh names the services of proxies.
fn names_services(mesh: &MeshConfig) -> bool {
    mesh.extension_providers.iter().any(|p| {
        matches!(
            p.provider,
            Some(Provider::Opentelemetry(_) | Provider::Datadog(_))
        )
    })
}

/// Whether a tracer of the mesh names workloads by the conventions of OpenTelemetry.
fn names_workloads(mesh: &MeshConfig) -> bool {
    let conventions = ServiceAttributeEnrichment::OtelSemanticConventions;
    mesh.extension_providers.iter().any(|p| match &p.provider {
        Some(Provider::Opentelemetry(p)) => p.service_attribute_enrichment() == conventions,
        _ => false,
    })
}

/// The name that OpenTelemetry's conventions give a workload in Kubernetes.
fn service_name(proxy: &Traits<'_>) -> String {
    let annotations = proxy
        .text("ANNOTATIONS")
        .and_then(|raw| serde_json::from_str::<serde_json::Value>(&raw).ok());
    let annotation = annotations
        .as_ref()
        .and_then(|a| a.get("resource.opentelemetry.io/service.name"))
        .and_then(|v| v.as_str());
    let label = |key| proxy.labels.get(key);
    let workload = proxy.text("WORKLOAD_NAME");
    [
        annotation,
        label("app.kubernetes.io/instance"),
        label("app.kubernetes.io/name"),
        workload.as_deref(),
    ]
    .into_iter()
    .flatten()
    .find(|name| !name.is_empty())
    .unwrap_or("unknown_service")
    .to_owned()
}

/// How connection managers of one side of a proxy trace.
pub fn tracing_config(
    cx: &Cx<'_, Snapshot>,
    traced: Option<&Traced>,
    applied: &Applied,
    (mesh, proxy): (&MeshConfig, &ProxyConfig),
    class: Class,
) -> TracingConfig {
    let off = TracingConfig {
        tracing: None,
        use_request_id: true,
    };
    let Some(traced) = traced else {
        return off;
    };
    let default = cx.settings().features.trace_sampling.get();
    let stated = proxy.tracing.clone().unwrap_or_default();
    let max_path_tag_length =
        (stated.max_path_tag_length != 0).then_some(stated.max_path_tag_length);
    let Some(spec) = tracing::merge(applied, mesh, class) else {
        if !mesh.enable_tracing {
            return off;
        }
        let own = tags::of_proxy(&stated);
        return TracingConfig {
            tracing: Some(hcm::Tracing {
                custom_tags: tags::all(traced, stated.enable_istio_tags.unwrap_or(true), own),
                max_path_tag_length,
                ..sampled(sampling(&stated, default))
            }),
            use_request_id: true,
        };
    };
    if spec.disabled {
        return off;
    }
    let named = spec.provider.as_deref();
    let Some(stated_provider) = named.and_then(|name| policy::telemetry::provider(mesh, name))
    else {
        return off;
    };
    let Some(tracer) = provider::tracer(cx, traced, stated_provider) else {
        return off;
    };
    // A provider's own sampler must see every request.
    let percentage = if tracer.samples {
        100.0
    } else {
        spec.sampling.unwrap_or_else(|| sampling(&stated, default))
    };
    let own = if spec.custom_tags.is_empty() {
        tags::of_proxy(&stated)
    } else {
        tags::of_telemetry(&spec.custom_tags, traced.at_least(1, 29))
    };
    TracingConfig {
        tracing: Some(hcm::Tracing {
            provider: Some(tracer.http),
            spawn_upstream_span: tracer.spawn_upstream_span.then_some(true),
            max_path_tag_length: tracer.max_path_tag_length.or(max_path_tag_length),
            custom_tags: tags::all(traced, spec.istio_tags, own),
            no_context_propagation: spec.no_context_propagation && traced.at_least(1, 30),
            ..sampled(percentage)
        }),
        use_request_id: spec.use_request_id,
    }
}

fn sampled(percentage: f64) -> hcm::Tracing {
    let percent = |value| Some(Percent { value });
    hcm::Tracing {
        client_sampling: percent(100.0),
        overall_sampling: percent(100.0),
        random_sampling: percent(percentage),
        ..Default::default()
    }
}

/// The percentage of requests that are traced where no Telemetry resource says it.
fn sampling(stated: &proto_istio::mesh::Tracing, default: f64) -> f64 {
    match stated.sampling {
        0.0 => default,
        // As Istio: what is no percentage counts as one percent.
        over if over > 100.0 => 1.0,
        stated => stated,
    }
}
