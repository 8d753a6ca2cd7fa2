//! The status of an XMesh.

use model::ObjectName;
use model::kinds::gateway_api::XMesh;
use serde_json::{Value, json};

use super::Conditions;
use crate::gateway_api::class::MESH_CONTROLLER;
use crate::reader::Reader;
use crate::strata::Routes;

/// What sidecars do with routes of the mesh, by the names of upstream's features (pkg/features of the Gateway API), sorted.
///
/// `MeshClusterIPMatching` is not among them: sidecars tell services apart by the host of a request, not by its address.
const FEATURES: &[&str] = &[
    "Mesh",
    "MeshConsumerRoute",
    "MeshHTTPRouteBackendRequestHeaderModification",
    "MeshHTTPRouteNamedRouteRule",
    "MeshHTTPRouteQueryParamMatching",
    "MeshHTTPRouteRedirectPath",
    "MeshHTTPRouteRedirectPort",
    "MeshHTTPRouteRewritePath",
    "MeshHTTPRouteSchemeRedirect",
];

/// What is reported about an XMesh that names us as its controller. The specification wants it accepted or refused by each
/// implementation that it names; Istio says nothing.
pub(super) fn status(read: &Reader<'_, '_, Routes>, name: &ObjectName) -> Option<Value> {
    let features = &read.settings().features;
    let mesh = read.get::<XMesh>(name)?;
    let is_on = features.gateway_api && features.alpha_gateway_api;
    if !is_on || &*mesh.spec.controller_name != MESH_CONTROLLER {
        return None;
    }
    let mut conditions = Conditions::default();
    match &mesh.spec.parameters_ref {
        None => conditions.holds("Accepted", "Accepted", "handled by Pilothouse"),
        Some(reference) => {
            let message = format!(
                "no parameters are read, so not from {} {}",
                reference.kind, reference.name
            );
            conditions.fails("Accepted", "InvalidParameters", message);
        }
    }
    let features = FEATURES.iter().map(|name| json!({ "name": name }));
    Some(json!({
        "conditions": conditions.list(mesh.meta.generation),
        "supportedFeatures": features.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_sorted() {
        assert!(FEATURES.is_sorted());
    }
}
