//! Types of values, as far as templates can tell them apart.

use std::fmt;
use std::sync::Arc;

use super::{List, Map, Value};

/// A type of Go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `interface {}`.
    Any,
    /// `reflect.Value`: a parameter that takes everything as it is, also a value that is missing.
    Reflect,
    /// `bool`.
    Bool,
    /// An integer.
    Int(IntType),
    /// `float64`.
    Float64,
    /// `string`.
    String,
    /// A slice.
    List(Arc<Type>),
    /// A map with strings as keys.
    Map(Arc<Type>),
    /// A pointer to a value that is no struct.
    Pointer(Arc<Type>),
    /// A struct, a pointer to one, or another type with a name.
    Named(Arc<str>),
}

impl Type {
    /// `int`.
    pub const INT: Self = Self::Int(IntType::Int);

    /// `[]T`.
    pub fn list_of(elem: Self) -> Self {
        Self::List(Arc::new(elem))
    }

    /// `map[string]T`.
    pub fn map_of(elem: Self) -> Self {
        Self::Map(Arc::new(elem))
    }

    /// The value that a variable of it has at first. Structs have none that is known here.
    pub(crate) fn zero(&self) -> Value {
        match self {
            Self::Reflect => Value::Missing,
            Self::Any | Self::Named(_) => Value::Nil,
            Self::Bool => Value::Bool(false),
            Self::Int(ty) if ty.is_signed() => Value::Int(0, *ty),
            Self::Int(ty) => Value::Uint(0, *ty),
            Self::Float64 => Value::Float(0.0),
            Self::String => Value::str(""),
            Self::List(elem) => Value::List(List::nil((**elem).clone())),
            Self::Map(elem) => Value::Map(Map::nil((**elem).clone())),
            Self::Pointer(to) => Value::Pointer((**to).clone(), None),
        }
    }

    /// Whether nil may stand for a value of it.
    pub(crate) fn can_be_nil(&self) -> bool {
        match self {
            Self::Any | Self::Reflect | Self::List(_) | Self::Map(_) | Self::Pointer(_) => true,
            Self::Named(name) => name.starts_with('*'),
            Self::Bool | Self::Int(_) | Self::Float64 | Self::String => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("interface {}"),
            Self::Reflect => f.write_str("reflect.Value"),
            Self::Bool => f.write_str("bool"),
            Self::Int(ty) => f.write_str(ty.name()),
            Self::Float64 => f.write_str("float64"),
            Self::String => f.write_str("string"),
            Self::List(elem) => write!(f, "[]{elem}"),
            Self::Map(elem) => write!(f, "map[string]{elem}"),
            Self::Pointer(to) => write!(f, "*{to}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// A type of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are Go's")]
pub enum IntType {
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
}

impl IntType {
    /// Go's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint => "uint",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
        }
    }

    /// Whether it has a sign.
    pub fn is_signed(self) -> bool {
        matches!(
            self,
            Self::Int | Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64
        )
    }
}
