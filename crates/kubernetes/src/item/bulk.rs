//! Large entries of ConfigMaps and Secrets that nobody reads.

use model::Kind;
use serde_json::{Map, Value};

/// An entry that is larger, in bytes as the API sends it, is kept only under a key that is read.
const LARGE: usize = 4096;

/// The keys that are read: of certificates, of pull secrets, of mesh config, and of what istiod injects.
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
];

/// Marks Secrets whose keys are names of clusters.
const CLUSTERS: &str = "istio/multiCluster";

/// Takes large entries out of an object that nobody reads.
pub(crate) fn drop_unread(kind: Kind, object: &mut Map<String, Value>) {
    let fields: &[&str] = match kind {
        Kind::ConfigMap => &["data", "binaryData"],
        Kind::Secret if !names_clusters(object) => &["data"],
        _ => return,
    };
    for field in fields {
        if let Some(entries) = object.get_mut(*field).and_then(Value::as_object_mut) {
            let is_small = |value: &Value| value.as_str().is_none_or(|text| text.len() <= LARGE);
            entries.retain(|key, value| READ.contains(&key.as_str()) || is_small(value));
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
    }
}
