//! YAML in the form in which Kubernetes writes it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// A document: entries of maps in order, lists not indented within maps.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(entries) if !entries.is_empty() => map(&mut out, entries, 0),
        Value::Array(items) if !items.is_empty() => list(&mut out, items, 0),
        other => {
            scalar(&mut out, other, 0);
            out.push('\n');
        }
    }
    out
}

fn pad(out: &mut String, indent: usize) {
    out.push_str(&" ".repeat(indent));
}

/// Entries, the first where the line already stands.
fn map(out: &mut String, entries: &serde_json::Map<String, Value>, indent: usize) {
    for (i, (key, value)) in entries.iter().enumerate() {
        if i > 0 {
            pad(out, indent);
        }
        text(out, key, indent, true);
        out.push(':');
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                out.push('\n');
                pad(out, indent + 2);
                map(out, entries, indent + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                pad(out, indent);
                list(out, items, indent);
            }
            other => {
                out.push(' ');
                scalar(out, other, indent);
                out.push('\n');
            }
        }
    }
}

fn list(out: &mut String, items: &[Value], indent: usize) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            pad(out, indent);
        }
        out.push_str("- ");
        match item {
            Value::Object(entries) if !entries.is_empty() => map(out, entries, indent + 2),
            Value::Array(items) if !items.is_empty() => list(out, items, indent + 2),
            other => {
                scalar(out, other, indent);
                out.push('\n');
            }
        }
    }
}

fn scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(string) => text(out, string, indent, false),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&crate::print::float(float)),
            _ => out.push_str(&number.to_string()),
        },
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => out.push_str(&other.to_string()),
    }
}

/// A string: plain where that cannot be taken for anything else.
fn text(out: &mut String, string: &str, indent: usize, key: bool) {
    let printable = string
        .chars()
        .all(|c| c == '\n' || c == '\t' || !c.is_control() && c != '\u{feff}');
    if !printable || means_something_else(string) {
        out.push_str(&double_quoted(string));
    } else if string.contains('\n') {
        if key || string.starts_with([' ', '\n', '\t']) || string.contains('\t') {
            out.push_str(&double_quoted(string));
        } else {
            literal(out, string, indent + 2);
        }
    } else if is_plain(string) {
        out.push_str(string);
    } else {
        out.push_str(&format!("'{}'", string.replace('\'', "''")));
    }
}

/// Lines as they are, indented.
fn literal(out: &mut String, string: &str, indent: usize) {
    let body = string.trim_end_matches('\n');
    out.push_str(match string.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    let lines = string.strip_suffix('\n').unwrap_or(string);
    for line in lines.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
    }
}

fn double_quoted(string: &str) -> String {
    let mut out = String::from("\"");
    for c in string.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if u32::from(c) < 0x20 || (0x7f..0xa0).contains(&u32::from(c)) => {
                out.push_str(&format!("\\x{:02X}", u32::from(c)))
            }
            '\u{feff}' => out.push_str("\\uFEFF"),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a plain string would be read as null, a boolean, a number or a time.
fn means_something_else(string: &str) -> bool {
    static OTHER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?i)^(|~|null|true|false|yes|no|on|off|y|n|<<|=|[-+]?\.inf|\.nan|[-+]?0x[0-9a-f_]+|[-+]?0b[01_]+|[-+]?0o[0-7_]+",
            r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?(e[-+]?[0-9]+)?|[-+]?\.[0-9][0-9_]*(e[-+]?[0-9]+)?",
            r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?)$"
        ))
        .ok()
    });
    OTHER.as_ref().is_some_and(|regex| regex.is_match(string))
}

/// Whether a string can stand without quotes in block style.
fn is_plain(string: &str) -> bool {
    let first = string.chars().next().unwrap_or(' ');
    let second = string.chars().nth(1);
    let starts = match first {
        '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
        | '@' | '`' | ' ' => false,
        '-' | '?' | ':' => second.is_some_and(|c| c != ' ') && !string.starts_with("---"),
        _ => !string.starts_with("..."),
    };
    starts
        && !string.ends_with([' ', ':'])
        && !string.contains(": ")
        && !string.contains(" #")
        && !string.contains('\t')
}
