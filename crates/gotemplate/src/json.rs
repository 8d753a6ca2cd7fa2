//! Values and JSON, as Go's `encoding/json` reads and writes it.

use crate::budget::Meter;
use crate::functions::Fault;
use crate::value::Value;

/// How deep lists and maps may be nested.
const MAX_DEPTH: usize = 100;

/// What Go reads JSON into: numbers are floats, maps and lists hold anything.
pub fn read(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Value::str(text),
        serde_json::Value::Array(items) => Value::list(items.iter().map(read).collect()),
        serde_json::Value::Object(entries) => {
            Value::dict(entries.iter().map(|(key, value)| (key, read(value))))
        }
    }
}

/// A value as JSON without spaces; `html` says whether `<`, `>` and `&` are escaped.
pub fn write(meter: &Meter, value: &Value, html: bool) -> Result<String, Fault> {
    let mut out = String::new();
    put(meter, &mut out, value, html, 0)?;
    Ok(out)
}

fn put(
    meter: &Meter,
    out: &mut String,
    value: &Value,
    html: bool,
    depth: usize,
) -> Result<(), Fault> {
    if depth > MAX_DEPTH {
        return Err("the value is nested too deeply for JSON".into());
    }
    meter.step(1)?;
    let start = out.len();
    match value {
        Value::Missing | Value::Nil | Value::Pointer(_, None) => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(n, _) => out.push_str(&n.to_string()),
        Value::Uint(n, _) => out.push_str(&n.to_string()),
        Value::Float(n) if n.is_finite() => out.push_str(&number(*n)),
        Value::Float(n) => {
            return Err(format!("json: unsupported value: {}", crate::print::float(*n)).into());
        }
        Value::String(text) => string(out, text, html),
        Value::List(list) if list.is_nil() => out.push_str("null"),
        Value::List(list) => {
            out.push('[');
            for (i, item) in list.items().iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                put(meter, out, item, html, depth + 1)?;
            }
            out.push(']');
        }
        Value::Map(map) if map.is_nil() => out.push_str("null"),
        Value::Map(map) => {
            out.push('{');
            for (i, (key, item)) in map.entries().into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                string(out, &key, html);
                out.push(':');
                put(meter, out, &item, html, depth + 1)?;
            }
            out.push('}');
        }
        Value::Object(object) if object.is_nil() => out.push_str("null"),
        Value::Object(object) => out.push_str(&object.json()),
        Value::Pointer(_, Some(inner)) => return put(meter, out, inner, html, depth + 1),
        Value::Named(named) => return put(meter, out, &named.value, html, depth + 1),
    }
    match value {
        Value::List(_) | Value::Map(_) => Ok(()),
        _ => meter.make(out.len() - start),
    }
}

/// A float as Go writes it: with an exponent only where it is very small or very large.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        return match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
            _ => text,
        };
    }
    format!("{value}")
}

/// A string in quotes.
pub fn string(out: &mut String, text: &str, html: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' if html => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// JSON without spaces, with a line for each item and entry.
pub fn indented(meter: &Meter, compact: &str) -> Result<String, Fault> {
    let mut out = String::with_capacity(compact.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut chars = compact.chars().peekable();
    while let Some(c) = chars.next() {
        let before = out.len();
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' if matches!(chars.peek(), Some('}' | ']')) => {
                out.push(c);
                out.extend(chars.next());
            }
            '{' | '[' => {
                depth += 1;
                out.push(c);
                new_line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = c == '"';
                out.push(c);
            }
        }
        meter.make(out.len() - before)?;
    }
    Ok(out)
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}
