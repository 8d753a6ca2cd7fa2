//! Large entries of ConfigMaps and Secrets that nobody reads.

use model::Kind;
use serde_json::{Map, Value};

/// An entry that is larger, in bytes as the API sends it, is kept only under a key that is read.
const LARGE: usize = 4096;

/// The keys that are read: of certificates, of pull secrets, of mesh config, of what istiod injects, and of what is laid over
/// what is deployed for Gateways.
const READ: &[&str] = &[
    "cert",
    "key",
    "cacert",
    "crl",
    "tls.crt",
    "tls.key",
    "tls.ocsp-staple",
    "ca.crt",
    "ca.crl",
    ".dockerconfigjson",
    "mesh",
    "meshNetworks",
    "values",
    "deployment",
    "horizontalPodAutoscaler",
    "podDisruptionBudget",
    "service",
    "serviceAccount",
];

/// The ConfigMap with the templates of injection, of any revision, and their key.
const TEMPLATES: (&str, &str) = ("istio-sidecar-injector", "config");

/// Marks Secrets whose keys are names of clusters.
const CLUSTERS: &str = "istio/multiCluster";

/// Takes large entries out of an object that nobody reads.
pub(crate) fn drop_unread(kind: Kind, object: &mut Map<String, Value>) {
    let fields: &[&str] = match kind {
        Kind::ConfigMap => &["data", "binaryData"],
        Kind::Secret if !names_clusters(object) => &["data"],
        _ => return,
    };
    let metadata = object.get("metadata");
    let name = metadata.and_then(|m| m.get("name")).and_then(Value::as_str);
    let has_templates =
        kind == Kind::ConfigMap && name.is_some_and(|name| name.starts_with(TEMPLATES.0));
    let is_read = |key: &str| READ.contains(&key) || (has_templates && key == TEMPLATES.1);
    for field in fields {
        if let Some(entries) = object.get_mut(*field).and_then(Value::as_object_mut) {
            let is_small = |value: &Value| value.as_str().is_none_or(|text| text.len() <= LARGE);
            entries.retain(|key, value| is_read(key) || is_small(value));
        }
    }
}

fn names_clusters(object: &Map<String, Value>) -> bool {
    let labels = object.get("metadata").and_then(|m| m.get("labels"));
    labels.is_some_and(|labels| labels.get(CLUSTERS).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_entries_are_kept_under_keys_that_are_read() {
        let large = "x".repeat(LARGE + 1);
        let keys = |kind: Kind, labels: Value| {
            let object = json!({"metadata": {"labels": labels}, "data": {"a": "b", "c": large, "tls.crt": large, "mesh": large}});
            let Value::Object(mut object) = object else {
                unreachable!()
            };
            drop_unread(kind, &mut object);
            let data = object["data"].as_object().unwrap();
            data.keys().cloned().collect::<Vec<_>>()
        };
        let some = ["a", "mesh", "tls.crt"];
        assert_eq!(keys(Kind::ConfigMap, json!({})), some);
        assert_eq!(keys(Kind::Secret, json!({})), some);
        assert_eq!(
            keys(Kind::Secret, json!({"istio/multiCluster": "true"})).len(),
            4
        );
        assert_eq!(keys(Kind::Service, json!({})).len(), 4);
        for (name, kept) in [("istio-sidecar-injector-canary", 1), ("other", 0)] {
            let object = json!({"metadata": {"name": name}, "data": {"config": large}});
            let mut object = object.as_object().cloned().unwrap();
            drop_unread(Kind::ConfigMap, &mut object);
            assert_eq!(object["data"].as_object().unwrap().len(), kept);
        }
    }
}
