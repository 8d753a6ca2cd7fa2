//! Types and equality of values.

use super::{A, S};
use crate::budget::Meter;
use crate::functions::{Fault, Functions};
use crate::value::Value;

/// How deep values may be nested that are compared or searched.
const MAX_DEPTH: usize = 100;

pub(super) fn add(functions: &mut Functions) {
    functions.add("typeOf", &[A], |_, args| {
        Ok(args.value(0).type_name().into())
    });
    functions.add("typeIs", &[S, A], |_, args| {
        Ok((args.value(1).type_name() == args.str(0)).into())
    });
    functions.add("typeIsLike", &[S, A], |_, args| {
        let name = args.value(1).type_name();
        Ok((name.strip_prefix('*').unwrap_or(&name) == args.str(0) || name == args.str(0)).into())
    });
    functions.add("kindOf", &[A], |_, args| Ok(args.value(0).kind().into()));
    functions.add("kindIs", &[S, A], |_, args| {
        Ok((args.value(1).kind() == args.str(0)).into())
    });
    functions.add("deepEqual", &[A, A], |meter, args| {
        Ok(deep_equal(meter, args.value(0), args.value(1))?.into())
    });
}

/// Whether two values have the same types and contents.
pub(crate) fn deep_equal(meter: &Meter, a: &Value, b: &Value) -> Result<bool, Fault> {
    compare(meter, a, b, 0)
}

fn compare(meter: &Meter, a: &Value, b: &Value, depth: usize) -> Result<bool, Fault> {
    if depth > MAX_DEPTH {
        return Err("the values are nested too deeply to be compared".into());
    }
    meter.step(1)?;
    Ok(match (a, b) {
        (Value::Missing | Value::Nil, Value::Missing | Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a, of), Value::Int(b, other)) => a == b && of == other,
        (Value::Uint(a, of), Value::Uint(b, other)) => a == b && of == other,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            if a.elem() != b.elem() || a.is_nil() != b.is_nil() || a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.items().iter().zip(b.items()) {
                if !compare(meter, a, b, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.elem() != b.elem() || a.is_nil() != b.is_nil() || a.len() != b.len() {
                return Ok(false);
            }
            for ((key, a), (other, b)) in a.entries().iter().zip(b.entries()) {
                if *key != other || !compare(meter, a, &b, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(a), Value::Object(b)) => {
            a.type_name() == b.type_name() && a.is_nil() == b.is_nil() && a.json() == b.json()
        }
        (Value::Pointer(of, a), Value::Pointer(other, b)) => match (a, b) {
            _ if of != other => false,
            (Some(a), Some(b)) => compare(meter, a, b, depth + 1)?,
            (a, b) => a.is_none() == b.is_none(),
        },
        (Value::Named(a), Value::Named(b)) => {
            a.type_name == b.type_name && compare(meter, &a.value, &b.value, depth + 1)?
        }
        _ => false,
    })
}

/// Whether a map, which `identity` tells from others, is a value or somewhere in it.
pub(crate) fn contains(meter: &Meter, value: &Value, identity: usize) -> Result<bool, Fault> {
    let mut pending = vec![value.clone()];
    let mut seen = std::collections::HashSet::new();
    while let Some(value) = pending.pop() {
        meter.step(1)?;
        match value {
            Value::Map(map) => {
                if map.identity() == identity {
                    return Ok(true);
                }
                if seen.insert(map.identity()) {
                    pending.extend(map.entries().into_iter().map(|(_, value)| value));
                }
            }
            Value::List(list) => {
                meter.step(list.len())?;
                pending.extend(list.items().iter().cloned());
            }
            _ => {}
        }
    }
    Ok(false)
}
