//! An object as it comes from the API, without what nobody reads: that is left out while it is read.

mod unread;

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::{Map, Value};

use unread::{IN_ALL, Path, unread};

/// An object of some kind.
#[derive(Clone, Default)]
pub(crate) struct Item {
    /// Its name, namespace and resource version, and nothing else.
    meta: ObjectMeta,
    /// All that may be read of it.
    pub(crate) object: Map<String, Value>,
}

impl Item {
    fn new(object: Map<String, Value>) -> Self {
        let text = |field: &str| {
            let meta = object.get("metadata")?;
            meta.get(field)?.as_str().map(str::to_owned)
        };
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Self { meta, object }
    }
}

impl fmt::Debug for Item {
    /// Not the content, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = (&self.meta.namespace, &self.meta.name);
        write!(f, "Item({namespace:?}, {name:?})")
    }
}

impl Resource for Item {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.kind)
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.group)
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.version)
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Top).map(Item::new)
    }
}

/// The object itself. Which parts are not read is known once it has said what it is, which it does first.
struct Top;

impl<'de> Visitor<'de> for Top {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        let mut paths: Vec<Path> = IN_ALL.to_vec();
        while let Some(field) = from.next_key::<String>()? {
            let below = Tree::below(&paths, &field);
            if below.is_unread() {
                from.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = from.next_value_seed(below)?;
            if field == "kind"
                && let Some(kind) = value.as_str()
            {
                paths.extend(unread(kind));
            }
            fields.insert(field, value);
        }
        Ok(fields)
    }
}

/// A value, of which the parts at these paths are not read.
struct Tree(Vec<Path>);

impl Tree {
    fn below(paths: &[Path], step: &str) -> Self {
        let below = paths.iter().filter(|path| path.first() == Some(&step));
        Self(below.map(|path| &path[1..]).collect())
    }

    fn is_unread(&self) -> bool {
        self.0.iter().any(|path| path.is_empty())
    }
}

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0.is_empty() {
            true => Value::deserialize(deserializer),
            false => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(field) = from.next_key::<String>()? {
            let below = Tree::below(&self.0, &field);
            if below.is_unread() {
                from.next_value::<IgnoredAny>()?;
            } else {
                let value = from.next_value_seed(below)?;
                fields.insert(field, value);
            }
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(Tree::below(&self.0, "*"))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    // What is not of the form that a path expects is read as it is.

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(object: &Value) -> Value {
        let item: Item = serde_json::from_str(&object.to_string()).unwrap();
        Value::Object(item.object)
    }

    #[test]
    fn what_nobody_reads_is_left_out() {
        let pod = json!({"kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "name": "a", "managedFields": [{"manager": "kubelet"}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "b": "c"},
            },
            "spec": {"volumes": [{"name": "v"}], "containers": [
                {"name": "c", "image": "i", "volumeMounts": [{"name": "v"}], "ports": [{"containerPort": 80}]}, 7]},
        });
        assert_eq!(
            read(&pod),
            json!({"kind": "Pod", "apiVersion": "v1",
                "metadata": {"name": "a", "annotations": {"b": "c"}},
                "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}, 7]},
            })
        );
        // Of other kinds such fields are their own.
        let other = json!({"kind": "Other", "spec": {"volumes": [1]}});
        assert_eq!(read(&other), other);
    }

    #[test]
    fn what_has_another_form_is_read_as_it_is() {
        for spec in [
            json!(null),
            json!("x"),
            json!(1.5),
            json!(-1),
            json!([true]),
        ] {
            let pod = json!({"kind": "Pod", "metadata": spec, "spec": spec});
            assert_eq!(read(&pod), pod);
        }
        assert!(serde_json::from_str::<Item>("[]").is_err());
    }

    #[test]
    fn debug_tells_no_content() {
        let item: Item =
            serde_json::from_str(r#"{"metadata": {"name": "n"}, "data": {"a": "hidden"}}"#)
                .unwrap();
        assert!(!format!("{item:?}").contains("hidden"));
    }
}
