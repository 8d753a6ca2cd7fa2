//! The configuration of a proxy that is about to start.

use std::borrow::Cow;
use std::path::Path;

use model::Labels;
use model::mesh::{MeshConfig, ProxyConfig, apply_proxy_config, default_proxy_config};
use prost_reflect::DynamicMessage;
use proto_istio::networking;

use crate::Fault;
use crate::message::Message;

/// The annotation with the configuration of one pod's proxy.
pub(crate) const ANNOTATION: &str = "proxy.istio.io/config";

/// What counts for a pod: mesh config, over it the ProxyConfig of the root namespace, then of its own, then its
/// annotation, then the ProxyConfig that selects it. Of several ProxyConfigs the first counts; `resources` are those of
/// all namespaces, the oldest first.
// Istio: pilot/pkg/model/proxy_config.go EffectiveProxyConfig, 1.32.
pub fn effective<'r>(
    mesh: &MeshConfig,
    resources: impl Iterator<Item = (&'r str, &'r networking::ProxyConfig)> + Clone,
    namespace: &str,
    labels: &Labels,
    annotation: Option<&str>,
) -> ProxyConfig {
    let selector = |of: &'r networking::ProxyConfig| of.selector.as_ref().map(|s| &s.match_labels);
    let of_namespace = |wanted: &str| {
        let mut all = resources.clone();
        all.find(|(namespace, of)| *namespace == wanted && selector(of).is_none())
            .map(|(_, of)| of)
    };
    let root = mesh.root_namespace.as_str();
    let mut config = default_proxy_config();
    if let Some(of_mesh) = &mesh.default_config {
        config = over(config, of_mesh);
    }
    let shared = [
        (!root.is_empty()).then_some(root),
        (namespace != root).then_some(namespace),
    ];
    for stated in shared.into_iter().flatten().filter_map(of_namespace) {
        config = over(config, &as_mesh(stated));
    }
    if let Some(text) = annotation
        && let Ok(annotated) = apply(config.clone(), text)
    {
        config = annotated;
    }
    let mut selecting = resources.clone();
    let own = selecting.find(|(of, stated)| {
        *of == namespace && selector(stated).is_some_and(|s| !s.is_empty() && labels.matches_map(s))
    });
    match own {
        Some((_, stated)) => over(config, &as_mesh(stated)),
        None => config,
    }
}

/// A configuration with what a text sets over it.
///
/// # Errors
///
/// When the text cannot be read.
pub(crate) fn apply(base: ProxyConfig, text: &str) -> Result<ProxyConfig, Fault> {
    let mesh = MeshConfig {
        default_config: Some(base),
        ..MeshConfig::default()
    };
    let read = apply_proxy_config(text, mesh, &Path::new(ANNOTATION).into());
    let config = read.value.and_then(|mesh| mesh.default_config);
    config.ok_or_else(|| {
        let why: Vec<String> = read
            .diagnostics
            .iter()
            .map(|d| d.message.to_string())
            .collect();
        Fault::new(format!("could not parse proxy config: {}", why.join("; ")))
    })
}

/// A configuration without variables whose names no shell could read. Templates write names as they are, and a name is
/// no place for anything else.
pub(crate) fn with_variables(config: &ProxyConfig) -> Cow<'_, ProxyConfig> {
    let is_name = |name: &str| validate::text::variable_name(name).is_ok();
    if config.proxy_metadata.keys().all(|name| is_name(name)) {
        return Cow::Borrowed(config);
    }
    let mut config = config.clone();
    config.proxy_metadata.retain(|name, _| is_name(name));
    Cow::Owned(config)
}

fn over(base: ProxyConfig, stated: &ProxyConfig) -> ProxyConfig {
    let text = serde_json::to_string(stated).unwrap_or_default();
    apply(base.clone(), &text).unwrap_or(base)
}

/// What the resource sets of the configuration.
fn as_mesh(stated: &networking::ProxyConfig) -> ProxyConfig {
    ProxyConfig {
        concurrency: stated.concurrency,
        proxy_metadata: stated.environment_variables.clone(),
        image: stated.image.clone(),
        ..ProxyConfig::default()
    }
}

/// Fields that need not be told where they hold what every proxy starts with.
const CLEANED: [&str; 14] = [
    "config_path",
    "binary_path",
    "control_plane_auth_policy",
    "service_cluster",
    "drain_duration",
    "termination_drain_duration",
    "discovery_address",
    "envoy_metrics_service",
    "envoy_access_log_service",
    "tracing",
    "proxy_admin_port",
    "stat_name_length",
    "status_port",
    "concurrency",
];

/// A message; if it is a proxy's configuration, without what holds anyway.
// Istio: pkg/kube/inject/template.go cleanProxyConfig, 1.32.
pub(crate) fn without_defaults(message: &DynamicMessage) -> DynamicMessage {
    use prost_reflect::ReflectMessage;
    let mut out = message.clone();
    let defaults = Message::of(&default_proxy_config());
    let Some(defaults) = defaults.as_ref().and_then(|d| d.message.as_ref()) else {
        return out;
    };
    if defaults.descriptor() != message.descriptor() {
        return out;
    }
    for name in CLEANED {
        let equal = message.has_field_by_name(name) == defaults.has_field_by_name(name)
            && message.get_field_by_name(name) == defaults.get_field_by_name(name);
        if equal {
            out.clear_field_by_name(name);
        }
    }
    out
}
