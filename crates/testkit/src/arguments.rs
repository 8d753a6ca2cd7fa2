//! Arguments of recorded calls of Istio's functions.

use std::sync::Arc;

use model::Age;
use model::kinds::Kind;
use model::object::{ObjectKey, ObjectName};
use model::service::{Registry, Resolution, Service, Visibility};
use serde_json::Value;

/// A message of the recording; `None` for null.
///
/// # Panics
///
/// When it is none of that type.
pub fn message<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    (!value.is_null()).then(|| serde_json::from_value(value.clone()).expect("a recorded message"))
}

/// A service without ports, for tests to fill in.
pub fn service(host: &str, namespace: &str) -> Service {
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
        created: Age::default(),
        service_accounts: Arc::from([]),
        aliases: Arc::from([]),
        passthrough_ports: Arc::from([]),
        race_first_connect: false,
        kube: Default::default(),
        picker: None,
    }
}
