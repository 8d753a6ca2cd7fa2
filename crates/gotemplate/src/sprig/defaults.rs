//! Defaults, choices and JSON.

use super::{A, S};
use crate::functions::{Args, Fault, Functions};
use crate::json;
use crate::value::{List, Type, Value};

pub(super) fn add(functions: &mut Functions) {
    functions.add_variadic("default", &[A], A, |_, args| {
        let given = args.value(1);
        Ok(if args.len() < 2 || is_empty(given) {
            args.value(0).clone()
        } else {
            given.clone()
        })
    });
    functions.add("empty", &[A], |_, args| Ok(is_empty(args.value(0)).into()));
    functions.add_variadic("coalesce", &[], A, |_, args| {
        Ok(args
            .rest(0)
            .iter()
            .find(|value| !is_empty(value))
            .cloned()
            .unwrap_or(Value::Nil))
    });
    functions.add_variadic("all", &[], A, |_, args| {
        Ok((!args.rest(0).iter().any(is_empty)).into())
    });
    functions.add_variadic("any", &[], A, |_, args| {
        Ok((!args.rest(0).iter().all(is_empty)).into())
    });
    functions.add("ternary", &[A, A, Type::Bool], |_, args| {
        Ok(args.value(usize::from(!args.bool(2))).clone())
    });
    for name in ["fromJson", "mustFromJson"] {
        functions.add(name, &[S], move |meter, args| {
            meter.make(args.str(0).len().saturating_mul(16))?;
            match serde_json::from_str(args.str(0)) {
                Ok(value) => Ok(json::read(&value)),
                Err(_) if name == "fromJson" => Ok(Value::Nil),
                Err(error) => Err(error.to_string().into()),
            }
        });
    }
    for (name, html, pretty) in [
        ("toJson", true, false),
        ("mustToJson", true, false),
        ("toRawJson", false, false),
        ("mustToRawJson", false, false),
        ("toPrettyJson", true, true),
        ("mustToPrettyJson", true, true),
    ] {
        functions.add(name, &[A], move |meter, args| {
            let lenient = name == "toJson" || name == "toPrettyJson";
            let text = json::write(meter, args.value(0), html).and_then(|text| match pretty {
                true => json::indented(meter, &text),
                false => Ok(text),
            });
            match text {
                Err(fault) if lenient && !fault.is_limit() => Ok("".into()),
                other => other.map(Value::from),
            }
        });
    }
    for name in ["compact", "mustCompact"] {
        functions.add(name, &[A], |meter, args| {
            let list = list_of(&args, "compact on")?;
            meter.step(list.len())?;
            Ok(Value::list(
                list.items()
                    .iter()
                    .filter(|item| !is_empty(item))
                    .cloned()
                    .collect(),
            ))
        });
    }
}

/// Whether a value is what its type is at first.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.truth()
}

/// The first argument, which has to be a list.
pub(super) fn list_of(args: &Args<'_>, what: &str) -> Result<List, Fault> {
    match args.value(0) {
        Value::List(list) => Ok(list.clone()),
        other => Err(format!("Cannot {what} type {}", other.kind()).into()),
    }
}
