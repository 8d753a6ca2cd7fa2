//! Pods as Go's types hold them: what comes in is read into those types, what goes out is written by them.
//!
//! That drops fields nobody knows and values that are empty, and brings quantities into their canonical form; istiod
//! compares pods that have gone through this, so patches hold no more than what injection changed.
// Go: encoding/json; Kubernetes: api/core/v1/types.go, 1.36.

use gotemplate::json;
use serde_json::{Map, Value};
use validate::quantity::Quantity;

use crate::Fault;
use crate::types::{Kind, named};

/// Where a value stands, for messages.
struct At<'a> {
    above: Option<&'a At<'a>>,
    /// The struct that has the field.
    of: &'a str,
    field: &'a str,
}

impl At<'_> {
    fn path(&self) -> String {
        match self.above {
            Some(above) => format!("{}.{}", above.path(), self.field),
            None => self.field.to_owned(),
        }
    }

    fn wrong(&self, value: &Value, wanted: &str) -> Fault {
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let (of, path) = (self.of, self.path());
        Fault::new(format!(
            "json: cannot unmarshal {got} into Go struct field {of}.{path} of type {wanted}"
        ))
    }
}

/// A value of a type of the table.
pub(crate) fn typed(value: &Value, of: &'static str) -> Result<Value, Fault> {
    let at = At {
        above: None,
        of,
        field: "",
    };
    read_struct(value, of, None, &at)
}

fn read_struct(
    value: &Value,
    of: &'static str,
    above: Option<&At<'_>>,
    at: &At<'_>,
) -> Result<Value, Fault> {
    let none = Map::new();
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => &none,
        other => return Err(at.wrong(other, of)),
    };
    let ty = named(of);
    let mut given: Vec<Option<&Value>> = vec![None; ty.fields.len()];
    for (key, value) in fields {
        let exact = ty.fields.iter().position(|f| f.name == key);
        let loose = || {
            let mut names = ty.fields.iter();
            names.position(|f| f.name.eq_ignore_ascii_case(key))
        };
        if let Some(place) = exact.or_else(loose)
            && (exact.is_some() || given[place].is_none())
        {
            given[place] = Some(value);
        }
    }
    let mut out = Map::new();
    for (field, value) in ty.fields.iter().zip(given) {
        let at = At {
            above,
            of,
            field: field.name,
        };
        let value = match value {
            Some(value) => read(value, &field.kind, &at)?,
            None => zero(&field.kind),
        };
        if field.always || !is_empty(&value, &field.kind) {
            out.insert(field.name.to_owned(), value);
        }
    }
    Ok(Value::Object(out))
}

fn read(value: &Value, kind: &'static Kind, at: &At<'_>) -> Result<Value, Fault> {
    if value.is_null() {
        return Ok(zero(kind));
    }
    Ok(match kind {
        Kind::String if value.is_string() => value.clone(),
        Kind::String => return Err(at.wrong(value, "string")),
        Kind::Bool if value.is_boolean() => value.clone(),
        Kind::Bool => return Err(at.wrong(value, "bool")),
        Kind::Int32 => match value.as_i64().map(i32::try_from) {
            Some(Ok(number)) => number.into(),
            _ => return Err(at.wrong(value, "int32")),
        },
        Kind::Int64 => match value.as_i64() {
            Some(number) => number.into(),
            None => return Err(at.wrong(value, "int64")),
        },
        Kind::IntOrString if value.is_string() => value.clone(),
        Kind::IntOrString => match value.as_i64().map(i32::try_from) {
            Some(Ok(number)) => number.into(),
            _ => return Err(at.wrong(value, "int32")),
        },
        Kind::Quantity => {
            let text = match value {
                Value::String(text) => text.trim().to_owned(),
                other => other.to_string(),
            };
            let quantity = Quantity::parse(&text).map_err(|e| Fault::new(e.to_string()))?;
            quantity.to_string().into()
        }
        Kind::Time if value.is_string() => value.clone(),
        Kind::Time => return Err(at.wrong(value, "string")),
        Kind::Any => value.clone(),
        Kind::Struct(of) => read_struct(value, of, Some(at), at)?,
        Kind::Pointer(to) => read(value, to, at)?,
        Kind::List(item) => {
            let items = value.as_array().ok_or_else(|| at.wrong(value, "list"))?;
            let items = items.iter().map(|value| read(value, item, at));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Kind::Map(of) => {
            let entries = value.as_object().ok_or_else(|| at.wrong(value, "map"))?;
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| Ok((key.clone(), read(value, of, at)?)));
            Value::Object(entries.collect::<Result<_, Fault>>()?)
        }
    })
}

/// What a field holds that nobody set.
fn zero(kind: &Kind) -> Value {
    match kind {
        Kind::String => "".into(),
        Kind::Bool => false.into(),
        Kind::Int32 | Kind::Int64 | Kind::IntOrString => 0.into(),
        Kind::Quantity => "0".into(),
        Kind::Time | Kind::Any | Kind::Pointer(_) | Kind::List(_) | Kind::Map(_) => Value::Null,
        Kind::Struct(of) => {
            let mut out = Map::new();
            for field in &named(of).fields {
                let value = zero(&field.kind);
                if field.always || !is_empty(&value, &field.kind) {
                    out.insert(field.name.to_owned(), value);
                }
            }
            Value::Object(out)
        }
    }
}

fn is_empty(value: &Value, kind: &Kind) -> bool {
    match (kind, value) {
        (_, Value::Null) => true,
        (Kind::String, Value::String(text)) => text.is_empty(),
        (Kind::Bool, Value::Bool(truth)) => !truth,
        (Kind::Int32 | Kind::Int64, number) => number.as_i64() == Some(0),
        (Kind::List(_), Value::Array(items)) => items.is_empty(),
        (Kind::Map(_), Value::Object(entries)) => entries.is_empty(),
        _ => false,
    }
}

/// The JSON of a typed value as Go writes it: fields in the order of the type, and `<`, `>` and `&` escaped.
pub(crate) fn to_json(value: &Value, of: &'static str) -> String {
    let mut out = String::new();
    write(&mut out, value, &Kind::Struct(of));
    out
}

/// The JSON of a value without a type as Go writes it.
pub(crate) fn any_to_json(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, &Kind::Any);
    out
}

fn write(out: &mut String, value: &Value, kind: &Kind) {
    match (kind, value) {
        (Kind::Pointer(to), value) => write(out, value, to),
        (Kind::Struct(of), Value::Object(fields)) => {
            let known = named(of).fields.iter();
            let there = known.filter_map(|f| Some((f.name, fields.get(f.name)?, &f.kind)));
            write_entries(out, there);
        }
        (Kind::Map(of), Value::Object(entries)) => {
            write_entries(out, entries.iter().map(|(k, v)| (k.as_str(), v, &**of)));
        }
        (_, Value::Object(entries)) => {
            write_entries(
                out,
                entries.iter().map(|(k, v)| (k.as_str(), v, &Kind::Any)),
            );
        }
        (kind, Value::Array(items)) => {
            let item = match kind {
                Kind::List(item) => item,
                _ => &Kind::Any,
            };
            out.push('[');
            for (at, value) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(out, value, item);
            }
            out.push(']');
        }
        (_, Value::String(text)) => write_text(out, text),
        (_, Value::Number(number)) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&json::number(float)),
            _ => out.push_str(&number.to_string()),
        },
        (_, scalar) => out.push_str(&scalar.to_string()),
    }
}

fn write_entries<'v>(
    out: &mut String,
    entries: impl Iterator<Item = (&'v str, &'v Value, &'v Kind)>,
) {
    out.push('{');
    for (at, (key, value, kind)) in entries.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_text(out, key);
        out.push(':');
        write(out, value, kind);
    }
    out.push('}');
}

/// JSON with what Go escapes for the sake of HTML. None of it stands outside of strings.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// A string as Go's `encoding/json` writes it.
pub(crate) fn write_text(out: &mut String, text: &str) {
    json::string(out, text, true);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_empty_or_unknown_goes_and_quantities_become_canonical() {
        let pod = json!({"metadata": {"name": "a", "labels": {}, "odd": 1}, "spec": {"hostNetwork": false,
            "containers": [{"Name": "app", "resources": {"limits": {"cpu": "2000m", "memory": null}},
                "securityContext": {"privileged": false}}]}});
        assert_eq!(
            typed(&pod, "Pod").unwrap(),
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "app",
                "resources": {"limits": {"cpu": "2", "memory": "0"}}, "securityContext": {"privileged": false}}]}})
        );
    }

    #[test]
    fn a_value_of_another_type_is_named_with_its_place() {
        let pod = json!({"metadata": {"labels": {"a": 1}}});
        assert_eq!(
            typed(&pod, "Pod").unwrap_err().to_string(),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
        );
    }

    #[test]
    fn json_has_the_order_of_the_type_and_gos_escapes() {
        let port = json!({"containerPort": 80, "name": "a<b"});
        assert_eq!(
            to_json(&port, "ContainerPort"),
            r#"{"name":"a\u003cb","containerPort":80}"#
        );
    }
}
