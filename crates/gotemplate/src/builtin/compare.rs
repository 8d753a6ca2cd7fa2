//! `eq`, `ne`, `lt`, `le`, `gt` and `ge`.

use std::cmp::Ordering;

use crate::functions::{Fault, Functions};
use crate::value::{Type, Value};

pub(super) fn add(functions: &mut Functions) {
    functions.add_variadic("eq", &[Type::Reflect], Type::Reflect, |meter, args| {
        meter.step(args.len())?;
        if args.len() < 2 {
            return Err("missing argument for comparison".into());
        }
        for other in args.rest(1) {
            if equal(args.value(0), other)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    });
    functions.add("ne", &[Type::Reflect, Type::Reflect], |_, args| {
        Ok(Value::Bool(!equal(args.value(0), args.value(1))?))
    });
    functions.add("lt", &[Type::Reflect, Type::Reflect], |_, args| {
        ordered(args.value(0), args.value(1), Ordering::is_lt)
    });
    functions.add("le", &[Type::Reflect, Type::Reflect], |_, args| {
        ordered(args.value(0), args.value(1), Ordering::is_le)
    });
    functions.add("gt", &[Type::Reflect, Type::Reflect], |_, args| {
        ordered(args.value(0), args.value(1), Ordering::is_gt)
    });
    functions.add("ge", &[Type::Reflect, Type::Reflect], |_, args| {
        ordered(args.value(0), args.value(1), Ordering::is_ge)
    });
}

/// What can be compared: integers with one another whatever their size and sign.
enum Basic<'a> {
    Bool(bool),
    Int(i128),
    Float(f64),
    String(&'a str),
}

fn basic(value: &Value) -> Option<Basic<'_>> {
    Some(match value {
        Value::Bool(value) => Basic::Bool(*value),
        Value::Float(value) => Basic::Float(*value),
        Value::Named(named) => return basic(&named.value),
        _ => match (value.as_int(), value.as_str()) {
            (Some(n), _) => Basic::Int(n),
            (_, Some(text)) => Basic::String(text),
            _ => return None,
        },
    })
}

fn equal(a: &Value, b: &Value) -> Result<bool, Fault> {
    match (basic(a), basic(b)) {
        (Some(Basic::Bool(a)), Some(Basic::Bool(b))) => Ok(a == b),
        (Some(Basic::Int(a)), Some(Basic::Int(b))) => Ok(a == b),
        (Some(Basic::Float(a)), Some(Basic::Float(b))) => Ok(a == b),
        (Some(Basic::String(a)), Some(Basic::String(b))) => Ok(a == b),
        (None, None) => same(a, b),
        _ if untyped(a) || untyped(b) => Ok(false),
        _ => Err(incompatible(a, b)),
    }
}

fn incompatible(a: &Value, b: &Value) -> Fault {
    format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(),
        b.type_name()
    )
    .into()
}

fn untyped(value: &Value) -> bool {
    matches!(value, Value::Missing | Value::Nil)
}

/// Values that are neither numbers nor texts: only nil and pointers can be compared.
fn same(a: &Value, b: &Value) -> Result<bool, Fault> {
    if untyped(a) || untyped(b) || a.is_nil() || b.is_nil() {
        return Ok(a.is_nil() == b.is_nil());
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => Ok(std::rc::Rc::ptr_eq(a, b)),
        (Value::Pointer(_, Some(a)), Value::Pointer(_, Some(b))) => Ok(std::rc::Rc::ptr_eq(a, b)),
        _ => Err(format!("non-comparable type {}", a.type_name()).into()),
    }
}

fn ordered(a: &Value, b: &Value, holds: fn(Ordering) -> bool) -> Result<Value, Fault> {
    let ordering = match (basic(a), basic(b)) {
        (Some(Basic::Int(a)), Some(Basic::Int(b))) => Some(a.cmp(&b)),
        (Some(Basic::Float(a)), Some(Basic::Float(b))) => a.partial_cmp(&b),
        (Some(Basic::String(a)), Some(Basic::String(b))) => Some(a.cmp(b)),
        (Some(Basic::Bool(_)), Some(Basic::Bool(_))) | (None, _) | (_, None) => {
            return Err("invalid type for comparison".into());
        }
        _ => return Err(incompatible(a, b)),
    };
    Ok(Value::Bool(ordering.is_some_and(holds)))
}
