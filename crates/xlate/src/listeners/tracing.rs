//! Tracing of HTTP connection managers, from Telemetry and providers or from the older settings of the mesh.
//!
//! Istio: pilot/pkg/networking/core/tracing.go, 1.32.

mod provider;
mod tags;

use incr::Cx;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager as hcm;
use proto_envoy::envoy::r#type::v3::Percent;
use proto_istio::mesh::{MeshConfig, ProxyConfig};
use store::{Reads, Snapshot};

use mesh::class::Class;
use mesh::view::View;
use policy::telemetry::{Applied, tracing};

/// How a connection manager traces.
#[derive(Clone, PartialEq, Debug)]
pub struct TracingConfig {
    /// For the connection manager; `None` switches tracing off.
    pub tracing: Option<hcm::Tracing>,
    /// Whether the request id carries the sampling decision.
    pub use_request_id: bool,
}

/// How connection managers of one side of a proxy trace.
pub fn tracing_config(
    cx: &Cx<'_, Snapshot>,
    view: &View,
    applied: &Applied,
    (mesh, proxy): (&MeshConfig, &ProxyConfig),
    class: Class,
) -> TracingConfig {
    let off = TracingConfig {
        tracing: None,
        use_request_id: true,
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
                custom_tags: tags::all(view, stated.enable_istio_tags.unwrap_or(true), own),
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
    let Some(tracer) = provider::tracer(cx, view, stated_provider) else {
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
        tags::of_telemetry(&spec.custom_tags)
    };
    TracingConfig {
        tracing: Some(hcm::Tracing {
            provider: Some(tracer.http),
            spawn_upstream_span: tracer.spawn_upstream_span.then_some(true),
            max_path_tag_length: tracer.max_path_tag_length.or(max_path_tag_length),
            custom_tags: tags::all(view, spec.istio_tags, own),
            no_context_propagation: spec.no_context_propagation && at_least(view, 1, 30),
            ..sampled(percentage)
        }),
        use_request_id: spec.use_request_id,
    }
}

/// Whether the proxy states a version of Istio, and at least this one. Proxies that state none count as the newest.
pub(super) fn at_least(view: &View, major: u16, minor: u16) -> bool {
    view.version
        .is_none_or(|v| (v.major, v.minor) >= (major, minor))
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
