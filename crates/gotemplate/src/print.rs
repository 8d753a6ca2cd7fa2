//! Prints values as Go's `fmt` does.

mod number;
mod value;
mod verbs;

use std::sync::LazyLock;

use regex::Regex;

use crate::budget::Meter;
use crate::functions::Fault;
use crate::value::Value;

pub use number::float;
pub(crate) use verbs::sprintf;

/// A value as `%v` prints it.
pub fn value(meter: &Meter, value: &Value) -> Result<String, Fault> {
    let mut printer = value::Printer::new(meter);
    printer.value(value, 'v', 0)?;
    Ok(printer.out)
}

/// Values as `fmt.Sprint` prints them: with a space between two that are no strings.
pub(crate) fn sprint(meter: &Meter, values: &[Value]) -> Result<String, Fault> {
    let mut printer = value::Printer::new(meter);
    let mut after_text = true;
    for (i, value) in values.iter().enumerate() {
        let text = matches!(value, Value::String(_));
        if i > 0 && !text && !after_text {
            printer.out.push(' ');
        }
        printer.value(value, 'v', 0)?;
        after_text = text;
    }
    Ok(printer.out)
}

/// Values as `fmt.Sprintln` prints them: with spaces between all of them, and a newline.
pub(crate) fn sprintln(meter: &Meter, values: &[Value]) -> Result<String, Fault> {
    let mut printer = value::Printer::new(meter);
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            printer.out.push(' ');
        }
        printer.value(value, 'v', 0)?;
    }
    printer.out.push('\n');
    Ok(printer.out)
}

/// A string in double quotes, as `%q` prints it.
pub fn quote(text: &str) -> String {
    quoted(text, '"')
}

/// Text in quotes of one kind, with what cannot be printed escaped.
fn quoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        let code = u32::from(c);
        match c {
            '\\' => out.push_str("\\\\"),
            _ if c == quote => out.extend(['\\', c]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            _ if is_printable(c) => out.push(c),
            _ if code < 0x80 => out.push_str(&format!("\\x{code:02x}")),
            _ if code < 0x10000 => out.push_str(&format!("\\u{code:04x}")),
            _ => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out.push(quote);
    out
}

/// Whether Go prints a character as it is: letters, marks, numbers, punctuation, symbols, and the ASCII space.
pub(crate) fn is_printable(c: char) -> bool {
    static PRINTABLE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[\pL\pM\pN\pP\pS]$").ok());
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    PRINTABLE
        .as_ref()
        .is_some_and(|regex| regex.is_match(c.encode_utf8(&mut [0; 4])))
}
