//! Recorded configuration: every object of Istio's reads, and what it says is what was written.

use pilothouse_proto_istio::json::{self, Error};
use pilothouse_proto_istio::{extensions, mesh, networking, security, telemetry};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fields that old objects still carry and that Istio ignores.
const EXPECTED: &[&str] = &[r#"unknown ["http[0].websocketUpgrade"]"#];

#[test]
fn recorded_objects_read_and_keep_their_meaning() {
    let Some(scenarios) = testkit::recording("scenarios") else {
        return;
    };
    let mut objects = 0;
    let mut problems = Vec::new();
    for scenario in std::fs::read_dir(scenarios)
        .expect("the folder is readable")
        .flatten()
    {
        let config = std::fs::read_dir(scenario.path().join("config"));
        let mut files: Vec<_> = config
            .into_iter()
            .flatten()
            .flatten()
            .map(|f| f.path())
            .collect();
        files.push(scenario.path().join("mesh.yaml"));
        for file in files.iter().filter(|f| f.exists()) {
            for document in crate::shared::documents(file) {
                let result = match document.get("kind") {
                    Some(_) => read(&document),
                    None => Some(round::<mesh::MeshConfig>(&document)),
                };
                objects += usize::from(result.is_some());
                if let Some(Err(problem)) = result {
                    problems.push(format!(
                        "{}: {}: {problem}",
                        file.display(),
                        document["metadata"]["name"]
                    ));
                }
            }
        }
    }
    assert!(objects > 0, "the recordings hold objects");
    let problems: Vec<_> = problems
        .iter()
        .filter(|p| !EXPECTED.iter().any(|e| p.ends_with(e)))
        .collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Reads one object both ways; `None` for kinds that are not Istio's.
fn read(document: &Value) -> Option<Result<(), String>> {
    let group = document["apiVersion"].as_str()?.split('/').next()?;
    let spec = match &document["spec"] {
        Value::Null => &Value::Object(serde_json::Map::new()),
        spec => spec,
    };
    Some(match (group, document["kind"].as_str()?) {
        ("networking.istio.io", "DestinationRule") => round::<networking::DestinationRule>(spec),
        ("networking.istio.io", "EnvoyFilter") => round::<networking::EnvoyFilter>(spec),
        ("networking.istio.io", "Gateway") => round::<networking::Gateway>(spec),
        ("networking.istio.io", "ProxyConfig") => round::<networking::ProxyConfig>(spec),
        ("networking.istio.io", "ServiceEntry") => round::<networking::ServiceEntry>(spec),
        ("networking.istio.io", "Sidecar") => round::<networking::Sidecar>(spec),
        ("networking.istio.io", "VirtualService") => round::<networking::VirtualService>(spec),
        ("networking.istio.io", "WorkloadEntry") => round::<networking::WorkloadEntry>(spec),
        ("networking.istio.io", "WorkloadGroup") => round::<networking::WorkloadGroup>(spec),
        ("security.istio.io", "AuthorizationPolicy") => {
            round::<security::AuthorizationPolicy>(spec)
        }
        ("security.istio.io", "PeerAuthentication") => round::<security::PeerAuthentication>(spec),
        ("security.istio.io", "RequestAuthentication") => {
            round::<security::RequestAuthentication>(spec)
        }
        ("telemetry.istio.io", "Telemetry") => round::<telemetry::Telemetry>(spec),
        ("extensions.istio.io", "WasmPlugin") => round::<extensions::WasmPlugin>(spec),
        ("extensions.istio.io", "TrafficExtension") => round::<extensions::TrafficExtension>(spec),
        (group, kind) if group.ends_with("istio.io") => {
            Err(format!("{group} {kind} has no message"))
        }
        _ => return None,
    })
}

/// Reads a message, writes it as JSON and reads that strictly: nothing may be unknown, nothing may change.
fn round<T: DeserializeOwned + Serialize + PartialEq + prost::Message + Default>(
    spec: &Value,
) -> Result<(), String> {
    let read = json::from_value::<T>(spec)
        .map_err(|Error { path, reason }| format!("{path}: {reason}"))?;
    if !read.unknown.is_empty() {
        return Err(format!("unknown {:?}", read.unknown));
    }
    let written = serde_json::to_value(&read.message).map_err(|e| e.to_string())?;
    let again: T = serde_json::from_value(written).map_err(|e| e.to_string())?;
    if again != read.message {
        return Err("JSON changes it".to_owned());
    }
    let decoded = T::decode(read.message.encode_to_vec().as_slice()).map_err(|e| e.to_string())?;
    if decoded == read.message {
        Ok(())
    } else {
        Err("the wire changes it".to_owned())
    }
}
