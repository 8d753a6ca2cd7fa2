//! Values as Go's templates see them: typed numbers, nil, maps, lists and structs with methods.

mod container;
mod object;
mod types;

use std::rc::Rc;
use std::sync::Arc;

pub use container::{List, Map};
pub use object::{Object, Struct};
pub use types::{IntType, Type};

/// A value that a template reads, makes or prints.
#[derive(Clone)]
pub enum Value {
    /// No value at all: what a missing key of a map is. Printed as `<no value>`.
    Missing,
    /// A nil of type `interface {}`, for instance an explicit null in a document.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64, IntType),
    /// An unsigned integer.
    Uint(u64, IntType),
    /// A float64.
    Float(f64),
    /// A string.
    String(Rc<str>),
    /// A slice.
    List(List),
    /// A map with strings as keys.
    Map(Map),
    /// A struct, or a pointer to one.
    Object(Rc<dyn Object>),
    /// A pointer to a value that is no struct, nil without one.
    Pointer(Type, Option<Rc<Value>>),
    /// A number or string of a type with a name of its own, for instance an enum.
    Named(Rc<Named>),
}

/// A value of a named type such as `v1.Protocol`.
pub struct Named {
    /// The type's name as Go prints it.
    pub type_name: Arc<str>,
    /// The number or string below.
    pub value: Value,
    /// What the method `String` returns, for types that have it.
    pub text: Option<Rc<str>>,
}

impl Value {
    /// An `int`.
    pub fn int(value: i64) -> Self {
        Self::Int(value, IntType::Int)
    }

    /// A string.
    pub fn str(text: impl AsRef<str>) -> Self {
        Self::String(Rc::from(text.as_ref()))
    }

    /// A value of a named type; `text` is what its method `String` returns, if it has one.
    pub fn named(type_name: &str, value: Self, text: Option<&str>) -> Self {
        Self::Named(Rc::new(Named {
            type_name: Arc::from(type_name),
            value,
            text: text.map(Rc::from),
        }))
    }

    /// A pointer to a value of that type, nil without one.
    pub fn pointer(to: Type, value: Option<Self>) -> Self {
        Self::Pointer(to, value.map(Rc::new))
    }

    /// A list of strings (`[]string`).
    pub fn strings<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::List(List::new(
            Type::String,
            items.into_iter().map(Self::str).collect(),
        ))
    }

    /// A list of anything (`[]interface {}`).
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(Type::Any, items))
    }

    /// A map of strings (`map[string]string`).
    pub fn string_map<K: AsRef<str>, V: AsRef<str>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entries = entries
            .into_iter()
            .map(|(k, v)| (Rc::from(k.as_ref()), Self::str(v)));
        Self::Map(Map::new(Type::String, entries.collect()))
    }

    /// A map of anything (`map[string]interface {}`).
    pub fn dict<K: AsRef<str>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        let entries = entries.into_iter().map(|(k, v)| (Rc::from(k.as_ref()), v));
        Self::Map(Map::new(Type::Any, entries.collect()))
    }

    /// The string, if it is one, also of a named type.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Named(named) => named.value.as_str(),
            _ => None,
        }
    }

    /// The integer, if it is one, also of a named type.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(n, _) => Some(i128::from(*n)),
            Self::Uint(n, _) => Some(i128::from(*n)),
            Self::Named(named) => named.value.as_int(),
            _ => None,
        }
    }

    /// The items, if it is a list.
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// The map, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Its type; nothing where it has none.
    pub fn type_of(&self) -> Option<Type> {
        Some(match self {
            Self::Missing | Self::Nil => return None,
            Self::Bool(_) => Type::Bool,
            Self::Int(_, ty) | Self::Uint(_, ty) => Type::Int(*ty),
            Self::Float(_) => Type::Float64,
            Self::String(_) => Type::String,
            Self::List(list) => Type::List(Arc::new(list.elem().clone())),
            Self::Map(map) => Type::Map(Arc::new(map.elem().clone())),
            Self::Object(object) => Type::Named(Arc::from(object.type_name())),
            Self::Pointer(ty, _) => Type::Pointer(Arc::new(ty.clone())),
            Self::Named(named) => Type::Named(named.type_name.clone()),
        })
    }

    /// The name of its type, as Go's `%T` prints it.
    pub fn type_name(&self) -> String {
        self.type_of()
            .map_or_else(|| "<nil>".to_owned(), |ty| ty.to_string())
    }

    /// The name of its kind, as Go's `reflect` names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "invalid",
            Self::Bool(_) => "bool",
            Self::Int(_, ty) | Self::Uint(_, ty) => ty.name(),
            Self::Float(_) => "float64",
            Self::String(_) => "string",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Object(object) if object.type_name().starts_with('*') => "ptr",
            Self::Object(_) => "struct",
            Self::Pointer(..) => "ptr",
            Self::Named(named) => named.value.kind(),
        }
    }

    /// Whether `if` takes it for true.
    pub fn truth(&self) -> bool {
        match self {
            Self::Missing | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(n, _) => *n != 0,
            Self::Uint(n, _) => *n != 0,
            Self::Float(n) => *n != 0.0,
            Self::String(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Object(object) => !object.is_nil(),
            Self::Pointer(_, value) => value.is_some(),
            Self::Named(named) => named.value.truth(),
        }
    }

    /// Whether it is nil: an interface, pointer, map or list without content of its own.
    pub fn is_nil(&self) -> bool {
        match self {
            Self::Missing | Self::Nil | Self::Pointer(_, None) => true,
            Self::List(list) => list.is_nil(),
            Self::Map(map) => map.is_nil(),
            Self::Object(object) => object.is_nil(),
            _ => false,
        }
    }

    /// What a pointer points to, itself for anything else; nothing for a nil pointer or interface.
    pub fn indirect(&self) -> Option<&Self> {
        match self {
            Self::Nil | Self::Pointer(_, None) => None,
            Self::Object(object) if object.is_nil() => None,
            Self::Pointer(_, Some(value)) => value.indirect(),
            other => Some(other),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value, IntType::Int64)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Int(i64::from(value), IntType::Int32)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Uint(u64::from(value), IntType::Uint32)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::str(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(Rc::from(value))
    }
}
