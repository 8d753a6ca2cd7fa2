use std::path::Path;

use proto_istio::json::from_value;
use proto_istio::mesh::ProxyConfig;
use serde_json::{Value, json};

use super::*;

/// Whether the input of a recorded call passes, where the call is one that is checked here.
fn passes(function: &str, input: &Value) -> Option<bool> {
    let mut faults = Faults::default();
    match function {
        "agent.ValidateMeshConfigProxyConfig" => {
            let config = from_value::<ProxyConfig>(&input["config"]).ok()?.message;
            proxy::check(&config, &mut faults);
        }
        "agent.validateConnectionSettings" => {
            let settings = json!({"connectionSettings": input["cs"]});
            let settings = from_value::<ProxyConfig>(&settings).ok()?.message;
            let config = ProxyConfig {
                connection_settings: settings.connection_settings,
                ..crate::mesh::default_proxy_config()
            };
            proxy::check(&config, &mut faults);
        }
        "agent.ValidateMeshConfig" => {
            faults.0 = mesh_config(&from_value(&input["mesh"]).ok()?.message);
        }
        "agent.ValidateMeshNetworks" => {
            faults.0 = mesh_networks(&from_value(&input["meshnetworks"]).ok()?.message);
        }
        "agent.ValidateTrustDomain" => faults.trust_domain("", input["domain"].as_str()?),
        _ => return None,
    }
    Some(faults.0.iter().all(|d| d.severity != Severity::Error))
}

#[test]
fn mesh_config_is_refused_as_in_istio() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/conformance/istio-tables/validation-meshconfig.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: no recorded table");
        return;
    };
    let table: Value = serde_json::from_str(&text).unwrap();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for case in table["cases"].as_array().unwrap() {
        // A tag without a value cannot be written down: in a file it is a tag that is not there.
        let unwritable = case["test"]
            .as_str()
            .unwrap()
            .ends_with("custom_tags_with_a_nil_value");
        let function = case["fn"].as_str().unwrap();
        let Some(passes) = passes(function, &case["in"]).filter(|_| !unwritable) else {
            continue;
        };
        checked += 1;
        // An error, or a warning and an error.
        let error = match &case["out"] {
            Value::Array(parts) => parts
                .iter()
                .any(|p| p.as_str().is_some_and(|p| !p.is_empty())),
            Value::String(text) => !text.is_empty(),
            _ => false,
        };
        if passes == error {
            wrong.push(format!("{function} {}: {}", case["test"], case["out"]));
        }
    }
    eprintln!("{checked} calls");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
