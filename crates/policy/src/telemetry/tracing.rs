//! Tracing: which provider gets spans, of how many requests, with what tags.

use std::collections::BTreeMap;

use model::settings::MeshConfig;
use proto_istio::telemetry::tracing::CustomTag;
use proto_istio::telemetry::{Tracing, WorkloadMode};

use super::{Applied, mode, names, provider};
use mesh::class::Class;

/// Tracing of one side of a proxy.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// Name of the provider; `None` where none was stated or none of that name exists, and nothing is traced.
    pub provider: Option<String>,
    /// Whether spans are reported at all.
    pub disabled: bool,
    /// Percentage of requests, if stated.
    pub sampling: Option<f64>,
    /// Tags by name.
    pub custom_tags: BTreeMap<String, CustomTag>,
    /// Whether the request id carries the sampling decision.
    pub use_request_id: bool,
    /// Whether Istio's own tags are added.
    pub istio_tags: bool,
    /// Whether the trace context is kept from the upstream.
    pub no_context_propagation: bool,
}

/// Tracing of one side of a proxy. `None` where neither Telemetry resources nor default providers say anything, and the
/// older settings of the mesh count.
///
/// Istio: pilot/pkg/model/telemetry.go Tracing, 1.32.
pub fn merge(applied: &Applied, mesh: &MeshConfig, class: Class) -> Option<Spec> {
    let default = mesh
        .default_providers
        .as_ref()
        .and_then(|p| p.tracing.first());
    let entries: Vec<&Tracing> = applied.0.iter().flat_map(|t| &t.spec.tracing).collect();
    if entries.is_empty() && default.is_none() {
        return None;
    }
    let known = |name: &str| provider(mesh, name).map(|p| p.name.clone());
    let mut spec = Spec {
        provider: default.and_then(|name| known(name)),
        disabled: false,
        sampling: None,
        custom_tags: BTreeMap::new(),
        use_request_id: true,
        istio_tags: true,
        no_context_propagation: false,
    };
    let side = mode(class);
    for entry in entries {
        let stated = entry
            .r#match
            .as_ref()
            .map_or(WorkloadMode::ClientAndServer, |m| m.mode());
        if stated != WorkloadMode::ClientAndServer && stated != side {
            continue;
        }
        // Only one provider is supported; the first stated counts.
        if let Some(name) = names(&entry.providers).first() {
            spec.provider = known(name);
        }
        spec.disabled = entry.disable_span_reporting.unwrap_or(spec.disabled);
        if !entry.custom_tags.is_empty() {
            spec.custom_tags.clone_from(&entry.custom_tags);
        }
        spec.sampling = entry.random_sampling_percentage.or(spec.sampling);
        spec.use_request_id = entry
            .use_request_id_for_trace_sampling
            .unwrap_or(spec.use_request_id);
        spec.istio_tags = entry.enable_istio_tags.unwrap_or(spec.istio_tags);
        spec.no_context_propagation = entry
            .disable_context_propagation
            .unwrap_or(spec.no_context_propagation);
    }
    spec.disabled |= spec.provider.is_none();
    Some(spec)
}
