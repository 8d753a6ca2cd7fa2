//! The configuration for stock Envoys that comes with the program: a sidecar and a gateway without Istio's images.

use serde_json::json;

const BOOTSTRAP: &str = include_str!("builtin/bootstrap.tpl");
const REDIRECT: &str = include_str!("builtin/redirect.tpl");
const SIDECAR: &str = include_str!("builtin/sidecar.tpl");
const GATEWAY: &str = include_str!("builtin/gateway.tpl");

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
        },
    }))
}
