//! Strategic merge patch by the schemas of this API.

use serde_json::Value;
use strategic::{Shape, Strategy};

use crate::schema;
use crate::status::Failure;

/// What a schema says of a field.
#[derive(Clone, Copy)]
struct Schema<'s> {
    of: &'s Value,
    /// Whether it is that of a whole object, which does not say what `metadata` is like.
    top: bool,
}

static METADATA: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| {
    serde_json::json!({"properties": {
        "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge"},
        "ownerReferences": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid"},
    }})
});

impl Shape for Schema<'_> {
    fn field(self, name: &str) -> Option<Self> {
        let of = if self.top && name == "metadata" {
            &METADATA
        } else {
            schema::field(Some(self.of), name)?
        };
        Some(Self { of, top: false })
    }

    fn items(self) -> Option<Self> {
        let of = schema::items(Some(self.of))?;
        Some(Self { of, top: false })
    }

    fn strategy(&self) -> Strategy<'_> {
        let strategy = self.of["x-kubernetes-patch-strategy"].as_str();
        let has = |word: &str| strategy.is_some_and(|s| s.split(',').any(|s| s == word));
        match self.of["x-kubernetes-patch-merge-key"].as_str() {
            Some(key) if has("merge") => Strategy::MergeBy(key),
            None if has("merge") => Strategy::Merge,
            _ if has("replace") => Strategy::Replace,
            _ => Strategy::Plain,
        }
    }
}

/// Changes `object` by `patch`.
pub(super) fn merge(
    object: &mut Value,
    patch: &Value,
    schema: Option<&Value>,
) -> Result<(), Failure> {
    let schema = schema.map(|of| Schema { of, top: true });
    strategic::merge(object, patch, schema).map_err(|e| Failure::bad_request(e.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> Value {
        json!({"kind": "Service", "metadata": {"finalizers": ["a"]}, "spec": {"selector": {"app": "a"},
            "ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}})
    }

    fn patched(patch: Value) -> Value {
        let schema = schema::builtin("Service").unwrap();
        let mut object = service();
        merge(&mut object, &patch, Some(&schema)).unwrap();
        object
    }

    #[test]
    fn ports_are_merged_by_their_number() {
        let after =
            patched(json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 90}]}}));
        assert_eq!(
            after["spec"]["ports"],
            json!([{"port": 80, "name": "http", "targetPort": 8080}, {"port": 90}, {"port": 443, "name": "https"}])
        );
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let after = patched(json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}));
        assert_eq!(
            after["spec"]["ports"],
            json!([{"port": 443, "name": "https"}])
        );
        let after = patched(json!({"spec": {"ports": [{"$patch": "replace"}, {"port": 1}]}}));
        assert_eq!(after["spec"]["ports"], json!([{"port": 1}]));
        let after =
            patched(json!({"spec": {"$setElementOrder/ports": [{"port": 443}, {"port": 80}]}}));
        assert_eq!(
            after["spec"]["ports"],
            json!([{"port": 443, "name": "https"}, {"port": 80, "name": "http"}])
        );
        let after = patched(
            json!({"spec": {"$retainKeys": ["selector"], "selector": {"$patch": "replace", "x": "y"}}}),
        );
        assert_eq!(after["spec"], json!({"selector": {"x": "y"}}));
    }

    #[test]
    fn finalizers_are_merged_and_taken_out_by_value() {
        let after = patched(json!({"metadata": {"finalizers": ["b"]}}));
        assert_eq!(after["metadata"]["finalizers"], json!(["b", "a"]));
        let after = patched(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}));
        assert_eq!(after["metadata"]["finalizers"], json!([]));
    }

    #[test]
    fn an_item_without_its_key_is_refused() {
        let mut object = service();
        let schema = schema::builtin("Service").unwrap();
        assert!(
            merge(
                &mut object,
                &json!({"spec": {"ports": [{"name": "x"}]}}),
                Some(&schema)
            )
            .is_err()
        );
    }
}
