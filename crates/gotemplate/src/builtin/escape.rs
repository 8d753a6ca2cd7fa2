//! `html`, `js` and `urlquery`.

use crate::budget::Meter;
use crate::functions::{Fault, Functions};
use crate::print::sprint;
use crate::value::{Type, Value};

pub(super) fn add(functions: &mut Functions) {
    for (name, escape) in [
        ("html", html as fn(&str) -> String),
        ("js", js),
        ("urlquery", urlquery),
    ] {
        functions.add_variadic(name, &[], Type::Any, move |meter, args| {
            let text = text(meter, args.rest(0))?;
            meter.make(text.len().saturating_mul(6))?;
            Ok(Value::from(escape(&text)))
        });
    }
}

/// The text that is escaped: one string as it is, anything else printed.
fn text(meter: &Meter, args: &[Value]) -> Result<String, Fault> {
    match args {
        [Value::String(text)] => Ok(text.to_string()),
        [Value::Nil] => Ok("<no value>".to_owned()),
        _ => sprint(meter, args),
    }
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => out.extend(['\\', c]),
            '<' | '>' | '&' | '=' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            _ if c.is_ascii() && c < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            _ if c.is_ascii() || crate::print::is_printable(c) => out.push(c),
            _ => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        }
    }
    out
}

/// Escaped as a value in the query of a URL.
pub(crate) fn urlquery(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte))
            }
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
