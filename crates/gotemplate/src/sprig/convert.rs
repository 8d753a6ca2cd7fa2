//! Conversions that many functions share.

use crate::budget::Meter;
use crate::functions::Fault;
use crate::literal::integer;
use crate::print;
use crate::value::Value;

/// A value as text: a string as it is, anything else printed.
pub(super) fn text(meter: &Meter, value: &Value) -> Result<String, Fault> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        other => print::value(meter, other),
    }
}

/// Texts of the items of a list, or of a single value.
pub(super) fn texts(meter: &Meter, value: &Value) -> Result<Vec<String>, Fault> {
    match value {
        Value::List(list) => {
            meter.step(list.len())?;
            list.items()
                .iter()
                .filter(|item| !matches!(item, Value::Nil | Value::Missing))
                .map(|item| text(meter, item))
                .collect()
        }
        Value::Nil | Value::Missing => Ok(Vec::new()),
        other => Ok(vec![text(meter, other)?]),
    }
}

/// A value as an integer; zero for what is none.
pub(super) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n, _) => *n,
        Value::Uint(n, _) => *n as i64,
        Value::Float(n) => *n as i64,
        Value::Bool(value) => i64::from(*value),
        Value::String(text) => int_of_text(text),
        Value::Pointer(_, Some(inner)) => int(inner),
        _ => 0,
    }
}

fn int_of_text(text: &str) -> i64 {
    let whole = match text.split_once('.') {
        Some((whole, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => whole,
        _ => text,
    };
    let magnitude = whole.strip_prefix(['+', '-']).unwrap_or(whole);
    let Some(magnitude) = integer(magnitude) else {
        return 0;
    };
    let signed = if whole.starts_with('-') {
        -i128::from(magnitude)
    } else {
        i128::from(magnitude)
    };
    i64::try_from(signed).unwrap_or_default()
}

/// A value as a float; zero for what is none.
pub(super) fn float(value: &Value) -> f64 {
    match value {
        Value::Float(n) => *n,
        Value::Int(n, _) => *n as f64,
        Value::Uint(n, _) => *n as f64,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::String(text) => text.replace('_', "").parse().unwrap_or_default(),
        Value::Pointer(_, Some(inner)) => float(inner),
        _ => 0.0,
    }
}
