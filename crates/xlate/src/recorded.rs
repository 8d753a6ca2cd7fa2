//! Tables recorded from Istio's own tests, for tests here. They lie beside the repository, or nowhere.

use std::path::Path;

use serde_json::Value;

/// The cases of a function in a table; none, said so, where the tables are not there.
pub(crate) fn cases(table: &str, function: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/conformance/istio-tables")
        .join(table);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: no {table}");
        return Vec::new();
    };
    let table: Value = serde_json::from_str(&text).expect("a table is JSON");
    let all = table["cases"].as_array().cloned().unwrap_or_default();
    let found: Vec<Value> = all.into_iter().filter(|c| c["fn"] == function).collect();
    assert!(!found.is_empty(), "{function} is in the table");
    found
}

/// A message of the recording; `None` for null.
pub(crate) fn message<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    (!value.is_null()).then(|| serde_json::from_value(value.clone()).expect("a recorded message"))
}

/// A service without ports, for tests to fill in.
pub(crate) fn service(host: &str, namespace: &str) -> model::service::Service {
    use std::sync::Arc;

    use model::kinds::Kind;
    use model::object::{ObjectKey, ObjectName};
    use model::service::{Registry, Resolution, Service, Visibility};
    Service {
        host: host.into(),
        namespace: namespace.into(),
        name: host.into(),
        object: ObjectKey {
            kind: Kind::ServiceEntry,
            name: ObjectName::new(namespace, host),
        },
        registry: Registry::External,
        ports: Arc::from([]),
        resolution: Resolution::ClientSide,
        default_address: "0.0.0.0".into(),
        cluster_vips: Arc::from([]),
        auto_ipv4: None,
        auto_ipv6: None,
        mesh_external: false,
        export_to: Visibility::Public,
        labels: Default::default(),
        selector: Default::default(),
        created: None,
        service_accounts: Arc::from([]),
        aliases: Arc::from([]),
        passthrough_ports: Arc::from([]),
        race_first_connect: false,
        kube: Default::default(),
    }
}
