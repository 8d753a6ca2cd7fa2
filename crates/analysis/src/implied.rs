//! Objects that a mesh has though no folder holds them: the ingress gateway that the mesh config names.

use std::path::Path;
use std::sync::Arc;

use model::parse::{Validation, parse};
use model::settings::Settings;
use model::{AnyObject, Origin};
use proto_istio::mesh::mesh_config::IngressControllerMode;

use crate::finding::Finding;

/// Where implied objects say that they come from.
const ORIGIN: &str = "implied by the mesh config";

/// The objects that the settings imply. Findings about them are of no use ([`is_about`]).
///
/// Istio: pkg/config/analysis/local/defaults.go, 1.32.
pub fn objects(settings: &Settings) -> Vec<AnyObject> {
    let mesh = &settings.mesh;
    if mesh.ingress_controller_mode() == IngressControllerMode::Off
        || mesh.ingress_service.is_empty()
    {
        return Vec::new();
    }
    let (name, namespace) = (&mesh.ingress_service, &settings.system_namespace);
    let port = |number: u16| format!("{{name: http-{number}, port: {number}, protocol: TCP}}");
    let ports = [80, 443, 31400, 15443].map(port).join(", ");
    let text = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, \
         labels: {{istio: ingressgateway}}}}, spec: {{containers: [{{name: istio-proxy, image: proxy}}]}}}}\n---\n\
         {{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: {namespace}, \
         labels: {{istio: ingressgateway}}}}, spec: {{ports: [{ports}], selector: {{istio: ingressgateway}}}}}}\n"
    );
    let origin: Arc<Path> = Path::new(ORIGIN).into();
    parse(&text, &origin, Validation::Warn)
        .objects()
        .cloned()
        .collect()
}

/// Whether a finding is about an implied object.
pub fn is_about(finding: &Finding) -> bool {
    finding.diagnostic.origin.as_ref().is_some_and(is_from)
}

/// Whether implied objects come from there.
pub(crate) fn is_from(origin: &Origin) -> bool {
    matches!(origin, Origin::File { path, .. } if **path == *Path::new(ORIGIN))
}
