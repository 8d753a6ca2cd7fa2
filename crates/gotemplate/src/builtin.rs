//! The functions of `text/template` itself.

mod compare;
mod escape;

use crate::functions::{Fault, Functions};
use crate::print::{sprint, sprintf, sprintln};
use crate::value::{List, Type, Value};

/// Adds them.
pub(crate) fn add(functions: &mut Functions) {
    compare::add(functions);
    escape::add(functions);
    functions.add_short_circuit("and", false);
    functions.add_short_circuit("or", true);
    functions.add("not", &[Type::Reflect], |_, args| {
        Ok(Value::Bool(!args.value(0).truth()))
    });
    functions.add("len", &[Type::Reflect], |_, args| length(args.value(0)));
    functions.add_variadic("index", &[Type::Reflect], Type::Reflect, |meter, args| {
        meter.step(args.len())?;
        let first = args.value(0);
        if matches!(first, Value::Missing | Value::Nil) {
            return Err("index of untyped nil".into());
        }
        args.rest(1)
            .iter()
            .try_fold(first.clone(), |item, index| element(&item, index))
    });
    functions.add_variadic("slice", &[Type::Reflect], Type::Reflect, |meter, args| {
        meter.step(args.value(0).as_list().map_or(0, List::len))?;
        slice(args.value(0), args.rest(1))
    });
    functions.add_variadic("print", &[], Type::Any, |meter, args| {
        sprint(meter, args.rest(0)).map(Value::from)
    });
    functions.add_variadic("println", &[], Type::Any, |meter, args| {
        sprintln(meter, args.rest(0)).map(Value::from)
    });
    functions.add_variadic("printf", &[Type::String], Type::Any, |meter, args| {
        sprintf(meter, args.str(0), args.rest(1)).map(Value::from)
    });
    functions.refuse("call", "there are no functions among the values");
}

fn length(value: &Value) -> Result<Value, Fault> {
    let count = match value.indirect() {
        None => return Err("len of nil pointer".into()),
        Some(Value::Missing) => return Err("len of untyped nil".into()),
        Some(Value::List(list)) => list.len(),
        Some(Value::Map(map)) => map.len(),
        Some(other) => match other.as_str() {
            Some(text) => text.len(),
            None => return Err(format!("len of type {}", struct_name(other)).into()),
        },
    };
    Ok(Value::int(count as i64))
}

/// The type's name, without the pointer of a pointer to a struct.
fn struct_name(value: &Value) -> String {
    value.type_name().trim_start_matches('*').to_owned()
}

/// An index of a list or a string.
fn position(index: &Value, most: usize) -> Result<usize, Fault> {
    match index.as_int() {
        Some(n) => match usize::try_from(n) {
            Ok(n) if n <= most => Ok(n),
            _ => Err(format!("index out of range: {n}").into()),
        },
        None if index.is_nil() => Err("cannot index slice/array with nil".into()),
        None => Err(format!("cannot index slice/array with type {}", index.type_name()).into()),
    }
}

fn element(item: &Value, index: &Value) -> Result<Value, Fault> {
    let Some(item) = item.indirect() else {
        return Err("index of nil pointer".into());
    };
    match item {
        Value::List(list) => {
            let at = position(index, list.len())?;
            list.items()
                .get(at)
                .cloned()
                .ok_or_else(|| "reflect: slice index out of range".into())
        }
        Value::Map(map) => match index {
            Value::String(key) => Ok(map.get(key).unwrap_or_else(|| map.elem().zero())),
            Value::Missing | Value::Nil => Err("value is nil; should be of type string".into()),
            other => Err(format!("value has type {}; should be string", other.type_name()).into()),
        },
        other => match other.as_str() {
            Some(text) => {
                let at = position(index, text.len())?;
                let byte = text
                    .as_bytes()
                    .get(at)
                    .ok_or("reflect: string index out of range")?;
                Ok(Value::Uint(u64::from(*byte), crate::IntType::Uint8))
            }
            None => Err(format!("can't index item of type {}", struct_name(other)).into()),
        },
    }
}

fn slice(item: &Value, indexes: &[Value]) -> Result<Value, Fault> {
    let item = match item.indirect() {
        Some(Value::Missing) => return Err("slice of untyped nil".into()),
        Some(item) => item,
        None if matches!(item, Value::Nil) => return Err("slice of untyped nil".into()),
        None => return Err("slice of nil pointer".into()),
    };
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()).into());
    }
    let length = match (item, item.as_str()) {
        (_, Some(_)) if indexes.len() == 3 => return Err("cannot 3-index slice a string".into()),
        (_, Some(text)) => text.len(),
        (Value::List(list), _) => list.len(),
        _ => return Err(format!("can't slice item of type {}", struct_name(item)).into()),
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, length)?;
    }
    let [from, to, end] = bounds;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}").into());
    }
    if to > end {
        return Err(format!("invalid slice index: {to} > {end}").into());
    }
    Ok(match item {
        Value::List(list) => Value::List(List::new(
            list.elem().clone(),
            list.items()[from..to].to_vec(),
        )),
        _ => crate::sprig::cut(item.as_str().unwrap_or_default(), from, to),
    })
}
