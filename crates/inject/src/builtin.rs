//! The configuration for stock Envoys that comes with the program: a sidecar, a gateway and what is deployed for Gateways
//! and waypoints, without Istio's images.

use serde_json::json;

const BOOTSTRAP: &str = include_str!("builtin/bootstrap.tpl");
const REDIRECT: &str = include_str!("builtin/redirect.tpl");
const SIDECAR: &str = include_str!("builtin/sidecar.tpl");
const GATEWAY: &str = include_str!("builtin/gateway.tpl");
const DEPLOYMENT: &str = include_str!("builtin/deployment.tpl");

/// The values that its templates read.
pub const VALUES: &str = include_str!("builtin/values.yaml");

/// Policy and templates, as [`crate::Injection::read`] takes them.
pub fn config() -> String {
    gotemplate::yaml::write(&json!({
        "policy": "enabled",
        "defaultTemplates": [crate::SIDECAR],
        "templates": {
            "sidecar": format!("{BOOTSTRAP}{REDIRECT}{SIDECAR}"),
            "gateway": format!("{BOOTSTRAP}{GATEWAY}"),
            "kube-gateway": deployment("router"),
            "waypoint": deployment("waypoint"),
        },
    }))
}

/// What is deployed for a Gateway whose proxies have that role. The pod is four columns further in than one that is
/// injected.
fn deployment(role: &str) -> String {
    let deeper = BOOTSTRAP.lines().map(|line| format!("    {line}\n"));
    let bootstrap: String = deeper.collect();
    format!("{bootstrap}{{{{- $role := {role:?} }}}}\n{DEPLOYMENT}")
}
