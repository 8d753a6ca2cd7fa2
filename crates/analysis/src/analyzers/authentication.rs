//! Where keys of tokens may be fetched from.

use incr::Cx;
use model::Object;
use model::kinds::istio::RequestAuthentication;
use model::kinds::kube::Deployment;
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::several;
use crate::finding::Report;

/// Istio: pkg/config/analysis/analyzers/authn/blockedcidrs.go, 1.32.
pub(crate) fn blocked_cidrs(
    cx: &Cx<'_, Snapshot>,
    deployment: &Object<Deployment>,
    report: &mut Report<'_>,
) {
    const VARIABLE: &str = "BLOCKED_CIDRS_IN_JWKS_URIS";
    if deployment.meta.labels.get("app") != Some("istiod") {
        return;
    }
    let containers = &deployment.spec.template.spec.containers;
    let mut env = containers.iter().flat_map(|c| &c.env);
    if env.any(|e| &*e.name == VARIABLE && !e.value.is_empty()) {
        return;
    }
    let policies = cx.names::<RequestAuthentication>();
    if policies.is_empty() {
        return;
    }
    let message = format!(
        "istiod fetches the keys of {} from any address, also one inside the cluster",
        several(&policies)
    );
    report
        .add(deployment, &code::JWKS_UNRESTRICTED, "spec.template.spec.containers", message)
        .help(format!(
            "set {VARIABLE} to the ranges that must not be reached, such as those of pods and the cloud's metadata"
        ));
}
