//! What values of an expression are, and how large they may be: from a schema before there are any, and from a value.
//!
//! Kubernetes: staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go, 1.36.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::escape;

/// Bytes of the largest request.
pub(super) const LARGEST: u64 = 3 << 20;
/// How deep a schema is looked at.
const DEEPEST: usize = 100;

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Shape {
    /// Whatever it is, it is known when it is there.
    Any,
    /// What an empty list holds.
    Nothing,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    /// The name of a type.
    Type,
    List(Arc<Kind>),
    Map(Arc<Kind>),
    Object(Arc<BTreeMap<String, Kind>>),
    Optional(Arc<Kind>),
    /// What a library of Kubernetes makes of a text: a URL, an address, ...
    Made(&'static str),
}

/// What a value is, and how many characters or entries it may have.
#[derive(Clone, PartialEq, Debug)]
pub struct Kind {
    pub(super) shape: Shape,
    pub(super) most: u64,
}

impl Kind {
    pub(super) fn of(shape: Shape, most: u64) -> Self {
        Self { shape, most }
    }

    pub(super) fn any() -> Self {
        Self::of(Shape::Any, LARGEST)
    }

    /// A kind without a size of its own.
    pub(super) fn plain(shape: Shape) -> Self {
        Self::of(shape, 1)
    }

    /// What a schema says of its values; `None` where rules cannot see them.
    pub fn of_schema(schema: &Value, is_root: bool) -> Option<Self> {
        of_schema(schema, is_root, 0).map(|(kind, _)| kind)
    }

    /// The optional past of a value.
    #[must_use]
    pub fn optional(self) -> Self {
        Self::plain(Shape::Optional(Arc::new(self)))
    }

    /// What a schema says of a value that is there: as large as it is.
    pub fn of_value(&self, value: &Value) -> Self {
        let shape = match (&self.shape, value) {
            (Shape::List(of), Value::Array(items)) => {
                Shape::List(Arc::new(of.of_values(items.iter())))
            }
            (Shape::Map(of), Value::Object(map)) => {
                Shape::Map(Arc::new(of.of_values(map.values())))
            }
            (Shape::Object(fields), Value::Object(map)) => {
                let fields = fields.iter().map(|(name, kind)| {
                    let value = map.get(name).unwrap_or(&Value::Null);
                    (name.clone(), kind.of_value(value))
                });
                Shape::Object(Arc::new(fields.collect()))
            }
            (shape, _) => shape.clone(),
        };
        let most = match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 1,
        };
        Self::of(shape, most as u64)
    }

    /// The largest of some values.
    fn of_values<'v>(&self, values: impl Iterator<Item = &'v Value>) -> Self {
        let each = values.map(|value| self.of_value(value));
        each.reduce(|a, b| a.join(b))
            .unwrap_or_else(|| Self::of(self.shape.clone(), 0))
    }

    /// What a value is that is one or the other.
    pub(super) fn join(self, other: Self) -> Self {
        let most = self.most.max(other.most);
        let inner = |a: Arc<Self>, b: Arc<Self>| {
            if a == b {
                return a;
            }
            Arc::new(Arc::unwrap_or_clone(a).join(Arc::unwrap_or_clone(b)))
        };
        let shape = match (self.shape, other.shape) {
            (Shape::Nothing, shape) | (shape, Shape::Nothing) => shape,
            // What may be null as well.
            (Shape::Null, shape) | (shape, Shape::Null) => shape,
            (Shape::List(a), Shape::List(b)) => Shape::List(inner(a, b)),
            (Shape::Map(a), Shape::Map(b)) => Shape::Map(inner(a, b)),
            (Shape::Optional(a), Shape::Optional(b)) => Shape::Optional(inner(a, b)),
            (Shape::Object(a), Shape::Object(b)) if a.keys().eq(b.keys()) => {
                let mut joined = BTreeMap::new();
                for (name, kind) in a.iter() {
                    let other = b.get(name).cloned().unwrap_or_else(Self::any);
                    joined.insert(name.clone(), kind.clone().join(other));
                }
                Shape::Object(Arc::new(joined))
            }
            (a, b) if a == b => a,
            _ => Shape::Any,
        };
        Self { shape, most }
    }

    /// Whether values of both kinds can stand in the same place.
    pub(super) fn fits(&self, other: &Self) -> bool {
        match (&self.shape, &other.shape) {
            (Shape::Any | Shape::Nothing, _) | (_, Shape::Any | Shape::Nothing) => true,
            (Shape::List(a), Shape::List(b))
            | (Shape::Map(a), Shape::Map(b))
            | (Shape::Optional(a), Shape::Optional(b)) => a.fits(b),
            (Shape::Object(_) | Shape::Map(_), Shape::Object(_) | Shape::Map(_)) => true,
            (Shape::Null, b) => b.takes_null(),
            (a, Shape::Null) => a.takes_null(),
            (a, b) => a == b,
        }
    }
}

impl Shape {
    /// Texts, numbers and lists are never null, so that to ask whether they are is a mistake.
    fn takes_null(&self) -> bool {
        !matches!(
            self,
            Shape::Bool
                | Shape::Int
                | Shape::Uint
                | Shape::Double
                | Shape::Text
                | Shape::Bytes
                | Shape::List(_)
                | Shape::Map(_)
        )
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Shape::Int | Shape::Uint | Shape::Double)
    }
}

/// As messages name it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Any | Shape::Nothing => f.write_str("dyn"),
            Shape::Null => f.write_str("null"),
            Shape::Bool => f.write_str("bool"),
            Shape::Int => f.write_str("int"),
            Shape::Uint => f.write_str("uint"),
            Shape::Double => f.write_str("double"),
            Shape::Text => f.write_str("string"),
            Shape::Bytes => f.write_str("bytes"),
            Shape::Duration => f.write_str("google.protobuf.Duration"),
            Shape::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Shape::Type => f.write_str("type"),
            Shape::List(of) => write!(f, "list({of})"),
            Shape::Map(of) => write!(f, "map(string, {of})"),
            Shape::Object(_) => f.write_str("object"),
            Shape::Optional(of) => write!(f, "optional_type({of})"),
            Shape::Made(name) => f.write_str(name),
        }
    }
}

/// The kind, and the fewest bytes that a value of it takes in a request.
fn of_schema(schema: &Value, is_root: bool, depth: usize) -> Option<(Kind, u64)> {
    if depth > DEEPEST {
        return None;
    }
    let number = |key: &str| schema[key].as_u64();
    let text_length = || number("maxLength").map(|most| most.saturating_mul(4));
    if schema["x-kubernetes-int-or-string"] == true {
        let most = text_length().unwrap_or(LARGEST - 2);
        return Some((Kind::of(Shape::Any, most), 1));
    }
    let embedded = |schema: &Value| schema["x-kubernetes-embedded-resource"] == true;
    let ty = if is_root {
        "object"
    } else {
        schema["type"].as_str().unwrap_or_default()
    };
    match ty {
        "array" => {
            let items = schema.get("items")?;
            let (kind, least) = of_schema(items, embedded(items), depth + 1)?;
            let most = number("maxItems").unwrap_or((LARGEST - 2) / (least + 1));
            Some((Kind::of(Shape::List(Arc::new(kind)), most), 2))
        }
        "object" => {
            if let Some(values) = schema.get("additionalProperties").filter(|a| a.is_object()) {
                let (kind, least) = of_schema(values, embedded(values), depth + 1)?;
                let most = number("maxProperties").unwrap_or((LARGEST - 2) / (least + 6));
                return Some((Kind::of(Shape::Map(Arc::new(kind)), most), 2));
            }
            let needed = schema["required"].as_array();
            let mut least = 2;
            let mut fields = BTreeMap::new();
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let Some((kind, size)) = of_schema(field, embedded(field), depth + 1) else {
                    continue;
                };
                let is_needed = needed.is_some_and(|all| all.iter().any(|n| *n == **name));
                if is_needed && field.get("default").is_none() {
                    least += name.len() as u64 + size + 4;
                }
                fields.insert(escape(name), kind);
            }
            if is_root {
                let text = || Kind::of(Shape::Text, LARGEST - 2);
                let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
                let metadata = Shape::Object(Arc::new(names.into_iter().collect()));
                for name in ["apiVersion", "kind"] {
                    fields.entry(name.to_owned()).or_insert_with(text);
                }
                fields.insert("metadata".to_owned(), Kind::plain(metadata));
            }
            Some((Kind::plain(Shape::Object(Arc::new(fields))), least))
        }
        "string" => Some(match schema["format"].as_str() {
            Some("byte") => {
                let most = number("maxLength").unwrap_or(LARGEST - 2);
                (Kind::of(Shape::Bytes, most), 2)
            }
            Some("duration") => (Kind::of(Shape::Duration, 32), 4),
            Some("date") => (Kind::of(Shape::Timestamp, 12), 12),
            Some("date-time") => (Kind::of(Shape::Timestamp, 27), 22),
            _ => {
                let values = schema["enum"].as_array().filter(|all| !all.is_empty());
                let longest = values.map(|all| {
                    let lengths = all.iter().filter_map(|v| Some(v.as_str()?.len() as u64));
                    lengths.max().unwrap_or(0)
                });
                let most = text_length().or(longest).unwrap_or(LARGEST - 2);
                (Kind::of(Shape::Text, most), 2)
            }
        }),
        "boolean" => Some((Kind::of(Shape::Bool, 0), 4)),
        "number" => Some((Kind::of(Shape::Double, 0), 1)),
        "integer" => Some((Kind::of(Shape::Int, 0), 1)),
        _ => None,
    }
}

/// How often a value that stands in an unbounded list may be in a request.
pub fn most_often(schema: &Value) -> u64 {
    let least = of_schema(schema, false, 0).map_or(1, |(_, least)| least);
    LARGEST / (least + 1)
}

/// How many values a list or map may have; `None` where nothing limits them.
pub fn most_entries(schema: &Value) -> Option<u64> {
    let key = match schema.get("items") {
        Some(_) => "maxItems",
        None => "maxProperties",
    };
    schema[key].as_u64()
}
