//! Typed pods as templates see them: structs with Go's names, and fields that nobody set as their zero values.

use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

use gotemplate::{IntType, List, Map, Object, Struct, Type, Value, json};

use crate::types::{Kind, named};

/// A struct of the table, or a nil pointer to one.
pub(crate) struct Typed {
    /// Its name in the table.
    of: &'static str,
    name: String,
    /// Its fields in order; `None` for a nil pointer.
    fields: Option<Vec<Value>>,
    json: serde_json::Value,
}

impl Typed {
    /// A value of a type, as a template reads it.
    pub(crate) fn value(value: &serde_json::Value, of: &'static str) -> Value {
        made(value, &Kind::Struct(of))
    }

    /// The struct that a value is.
    pub(crate) fn of(value: &Value) -> Option<&Self> {
        let Value::Object(object) = value else {
            return None;
        };
        let any: &dyn Any = &**object;
        any.downcast_ref()
    }

    /// What it holds as JSON.
    pub(crate) fn raw(&self) -> &serde_json::Value {
        &self.json
    }

    fn new(value: &serde_json::Value, of: &'static str, pointer: bool) -> Self {
        let fields = named(of).fields.iter();
        let star = if pointer { "*" } else { "" };
        Self {
            of,
            name: format!("{star}v1.{of}"),
            fields: Some(fields.map(|f| made(&value[f.name], &f.kind)).collect()),
            json: value.clone(),
        }
    }

    fn nil(of: &'static str) -> Self {
        Self {
            of,
            name: format!("*v1.{of}"),
            fields: None,
            json: serde_json::Value::Null,
        }
    }
}

/// Go's type of a kind of field.
fn go_type(kind: &Kind) -> Type {
    match kind {
        Kind::String | Kind::Quantity => Type::String,
        Kind::Bool => Type::Bool,
        Kind::Int32 => Type::Int(IntType::Int32),
        Kind::Int64 => Type::Int(IntType::Int64),
        Kind::IntOrString => Type::Named("intstr.IntOrString".into()),
        Kind::Time => Type::Named("v1.Time".into()),
        Kind::Any => Type::Any,
        Kind::Struct(of) => Type::Named(format!("v1.{of}").into()),
        Kind::Pointer(to) => match &**to {
            Kind::Struct(of) => Type::Named(format!("*v1.{of}").into()),
            to => Type::Pointer(go_type(to).into()),
        },
        Kind::List(item) => Type::list_of(go_type(item)),
        Kind::Map(value) => Type::map_of(go_type(value)),
    }
}

fn made(value: &serde_json::Value, kind: &Kind) -> Value {
    match kind {
        Kind::String => Value::str(value.as_str().unwrap_or_default()),
        Kind::Quantity => Value::str(value.as_str().unwrap_or("0")),
        Kind::Bool => Value::Bool(value.as_bool().unwrap_or_default()),
        Kind::Int32 => Value::Int(value.as_i64().unwrap_or_default(), IntType::Int32),
        Kind::Int64 => Value::Int(value.as_i64().unwrap_or_default(), IntType::Int64),
        Kind::IntOrString => int_or_string(value),
        Kind::Time => {
            let text = value.as_str().unwrap_or_default().to_owned();
            Struct::new("v1.Time")
                .json(value.to_string())
                .text(text)
                .into()
        }
        Kind::Any => json::read(value),
        Kind::Struct(of) => Value::Object(Rc::new(Typed::new(value, of, false))),
        Kind::Pointer(to) => match (&**to, value.is_null()) {
            (Kind::Struct(of), true) => Value::Object(Rc::new(Typed::nil(of))),
            (Kind::Struct(of), false) => Value::Object(Rc::new(Typed::new(value, of, true))),
            (to, nil) => Value::pointer(go_type(to), (!nil).then(|| made(value, to))),
        },
        Kind::List(item) => match value.as_array() {
            None => Value::List(List::nil(go_type(item))),
            Some(items) => {
                let items = items.iter().map(|v| made(v, item));
                Value::List(List::new(go_type(item), items.collect()))
            }
        },
        Kind::Map(of) => match value.as_object() {
            None => Value::Map(Map::nil(go_type(of))),
            Some(entries) => {
                let entries = entries.iter();
                let entries = entries.map(|(key, v)| (Rc::from(key.as_str()), made(v, of)));
                Value::Map(Map::new(go_type(of), entries.collect()))
            }
        },
    }
}

fn int_or_string(value: &serde_json::Value) -> Value {
    let (number, text) = (value.as_i64(), value.as_str());
    let printed = match (number, text) {
        (_, Some(text)) => text.to_owned(),
        (number, None) => number.unwrap_or_default().to_string(),
    };
    Struct::new("intstr.IntOrString")
        .field("Type", Value::Int(text.is_some().into(), IntType::Int64))
        .field(
            "IntVal",
            Value::Int(number.unwrap_or_default(), IntType::Int32),
        )
        .field("StrVal", Value::str(text.unwrap_or_default()))
        .json(value.to_string())
        .text(printed)
        .into()
}

impl Object for Typed {
    fn type_name(&self) -> &str {
        &self.name
    }

    fn is_nil(&self) -> bool {
        self.fields.is_none()
    }

    fn field(&self, name: &str) -> Option<Value> {
        let ty = named(self.of);
        if let Some(at) = ty.fields.iter().position(|f| f.go == name) {
            return self.fields.as_ref()?.get(at).cloned();
        }
        let embedded = ty.embedded.iter().find(|of| **of == name)?;
        Some(Self::value(&self.json, embedded))
    }

    fn fields(&self) -> Vec<(Cow<'static, str>, Value)> {
        let names = named(self.of).fields.iter();
        let names = names.map(|f| Cow::Borrowed(f.go.as_str()));
        names.zip(self.fields.iter().flatten().cloned()).collect()
    }

    fn json(&self) -> String {
        match self.fields {
            Some(_) => crate::typed::to_json(&self.json, self.of),
            None => "null".to_owned(),
        }
    }
}
