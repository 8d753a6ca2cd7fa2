//! Arguments of functions: each becomes a value of the parameter's type, or is an error.

use super::{At, State};
use crate::ast::{Number, Part, PartKind};
use crate::error::Error;
use crate::value::{IntType, List, Map, Type, Value};

impl<'t> State<'t> {
    /// An argument for a parameter of that type.
    pub(super) fn arg(&mut self, dot: &Value, ty: &Type, part: &'t Part) -> Result<Value, Error> {
        self.step()?;
        self.at = At::Part(part);
        let value = match &part.kind {
            PartKind::Dot => dot.clone(),
            PartKind::Nil if ty.can_be_nil() => Value::Missing,
            PartKind::Nil => return Err(self.error(format!("cannot assign nil to {ty}"))),
            PartKind::Field(names) => self.chain(dot, dot.clone(), names, &[], None)?,
            PartKind::Variable(name, names) => {
                let value = self.variable(name)?;
                self.chain(dot, value, names, &[], None)?
            }
            PartKind::Chain(inner, names) => self.chained(dot, part, inner, names, &[], None)?,
            PartKind::Function(name) => {
                self.function(dot, part, At::Part(part), name, &[], None)?
            }
            PartKind::Pipe(pipe) => self.nested(|state| state.pipeline(dot, pipe))?,
            PartKind::Bool(_) | PartKind::Number(_) | PartKind::String { .. } => {
                return self.literal(ty, part);
            }
        };
        self.checked(value, ty)
    }

    /// A constant for a parameter of that type.
    fn literal(&mut self, ty: &Type, part: &'t Part) -> Result<Value, Error> {
        let found = |state: &Self, expected: &str| {
            Err(state.error(format!("expected {expected}; found {part}")))
        };
        match (ty, &part.kind) {
            (Type::Any | Type::Reflect | Type::Bool, PartKind::Bool(value)) => {
                Ok(Value::Bool(*value))
            }
            (Type::Any | Type::Reflect | Type::String, PartKind::String { text, .. }) => {
                Ok(Value::str(text))
            }
            (Type::Any | Type::Reflect, PartKind::Number(number)) => self.ideal(number),
            (
                Type::Int(int),
                PartKind::Number(Number {
                    int: Some(value), ..
                }),
            ) if int.is_signed() => Ok(Value::Int(*value, *int)),
            (
                Type::Int(int),
                PartKind::Number(Number {
                    uint: Some(value), ..
                }),
            ) if !int.is_signed() => Ok(Value::Uint(*value, *int)),
            (
                Type::Float64,
                PartKind::Number(Number {
                    float: Some(value), ..
                }),
            ) => Ok(Value::Float(*value)),
            (Type::Bool, _) => found(self, "bool"),
            (Type::String, _) => found(self, "string"),
            (Type::Int(int), _) if int.is_signed() => found(self, "integer"),
            (Type::Int(_), _) => found(self, "unsigned integer"),
            (Type::Float64, _) => found(self, "float"),
            _ => Err(self.error(format!("can't handle {part} for arg of type {ty}"))),
        }
    }

    /// A number whose type only its spelling says.
    pub(super) fn ideal(&self, number: &Number) -> Result<Value, Error> {
        let written = &number.written;
        let unsigned = written.trim_start_matches(['+', '-']);
        let hex = unsigned.starts_with("0x") || unsigned.starts_with("0X");
        let fractional =
            !hex && !written.starts_with('\'') && written.contains(['.', 'e', 'E', 'p', 'P']);
        match (number.float, number.int) {
            (Some(value), _) if fractional => Ok(Value::Float(value)),
            (_, Some(value)) => Ok(Value::Int(value, IntType::Int)),
            _ => Err(self.error(format!("{written} overflows int"))),
        }
    }

    /// A value for a parameter of that type.
    pub(super) fn checked(&self, value: Value, ty: &Type) -> Result<Value, Error> {
        match (&value, ty) {
            (_, Type::Reflect) => Ok(value),
            (Value::Missing, Type::Any) => Ok(Value::Nil),
            (_, Type::Any) => Ok(value),
            (Value::Missing, Type::List(elem)) => Ok(Value::List(List::nil((**elem).clone()))),
            (Value::Missing, Type::Map(elem)) => Ok(Value::Map(Map::nil((**elem).clone()))),
            (Value::Missing, Type::Pointer(to)) => Ok(Value::Pointer((**to).clone(), None)),
            (Value::Missing, ty) if ty.can_be_nil() => Ok(Value::Nil),
            (Value::Missing, _) => Err(self.error(format!("invalid value; expected {ty}"))),
            (Value::Nil, _) => Err(self.mismatch(ty, "interface {}")),
            _ if assignable(&value, ty) => Ok(value),
            (Value::Pointer(to, inner), _) if to == ty => match inner {
                Some(inner) => Ok((**inner).clone()),
                None => Err(self.error(format!("dereference of nil pointer of type {ty}"))),
            },
            (Value::Object(object), Type::Named(name))
                if object.type_name().strip_prefix('*') == Some(name) =>
            {
                if object.is_nil() {
                    return Err(self.error(format!("dereference of nil pointer of type {ty}")));
                }
                Ok(value)
            }
            // A field of a struct has an address.
            (Value::Object(object), Type::Named(name))
                if name.strip_prefix('*') == Some(object.type_name()) =>
            {
                Ok(value)
            }
            _ => Err(self.mismatch(ty, &value.type_name())),
        }
    }

    fn mismatch(&self, expected: &Type, got: &str) -> Error {
        self.error(format!(
            "wrong type for value; expected {expected}; got {got}"
        ))
    }
}

/// Whether the value has exactly that type.
fn assignable(value: &Value, ty: &Type) -> bool {
    match (value, ty) {
        (Value::Bool(_), Type::Bool)
        | (Value::Float(_), Type::Float64)
        | (Value::String(_), Type::String) => true,
        (Value::Int(_, int) | Value::Uint(_, int), Type::Int(wanted)) => int == wanted,
        (Value::List(list), Type::List(elem)) => list.elem() == &**elem,
        (Value::Map(map), Type::Map(elem)) => map.elem() == &**elem,
        (Value::Pointer(to, _), Type::Pointer(wanted)) => to == &**wanted,
        (Value::Object(object), Type::Named(name)) => object.type_name() == &**name,
        (Value::Named(named), Type::Named(name)) => named.type_name == *name,
        _ => false,
    }
}
