//! Prints a value with a verb.

use super::number::{self, digits, formatted};
use super::{quote, quoted};
use crate::budget::Meter;
use crate::functions::Fault;
use crate::value::{Object, Value};

/// How deep lists and maps may be nested.
const MAX_DEPTH: usize = 100;

/// The flags of a verb.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    pub(super) minus: bool,
    pub(super) plus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// `%+v`.
    pub(super) plus_v: bool,
    /// `%#v`.
    pub(super) sharp_v: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
}

/// What is printed so far.
pub(super) struct Printer<'m> {
    pub(super) meter: &'m Meter,
    pub(super) out: String,
    pub(super) flags: Flags,
}

impl<'m> Printer<'m> {
    pub(super) fn new(meter: &'m Meter) -> Self {
        Self {
            meter,
            out: String::new(),
            flags: Flags::default(),
        }
    }

    /// Prints text, filled up to the width.
    fn pad(&mut self, text: &str) -> Result<(), Fault> {
        let width = self.flags.width.unwrap_or(0);
        let missing = width.saturating_sub(text.chars().count());
        self.meter.make(text.len() + missing)?;
        let fill = if self.flags.zero && !self.flags.minus {
            "0"
        } else {
            " "
        };
        if !self.flags.minus {
            self.out.push_str(&fill.repeat(missing));
        }
        self.out.push_str(text);
        if self.flags.minus {
            self.out.push_str(&" ".repeat(missing));
        }
        Ok(())
    }

    /// Prints a value with a verb; `depth` says how deep it is within others.
    pub(super) fn value(&mut self, value: &Value, verb: char, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err("the value is nested too deeply to be printed".into());
        }
        self.meter.step(1)?;
        if let Some(result) = self.by_name(value, verb, depth) {
            return result;
        }
        match value {
            Value::Missing | Value::Nil => match verb {
                'v' if self.flags.sharp_v && depth > 0 => self.pad("interface {}(nil)"),
                'v' => self.pad("<nil>"),
                _ => self.bad_verb(value, verb),
            },
            Value::Bool(truth) => match verb {
                't' | 'v' => self.pad(if *truth { "true" } else { "false" }),
                _ => self.bad_verb(value, verb),
            },
            Value::Int(n, _) => self.integer(value, i128::from(*n), verb),
            Value::Uint(n, _) => self.integer(value, i128::from(*n), verb),
            Value::Float(n) => self.float(value, *n, verb),
            Value::String(text) => self.string(value, text, verb),
            Value::List(list) => {
                if self.flags.sharp_v {
                    return self.go_list(value, list.items(), depth);
                }
                self.out.push('[');
                for (i, item) in list.items().iter().enumerate() {
                    if i > 0 {
                        self.out.push(' ');
                    }
                    self.value(item, verb, depth + 1)?;
                }
                self.out.push(']');
                Ok(())
            }
            Value::Map(map) => {
                let go = self.flags.sharp_v;
                self.out.push_str(&if go {
                    format!("{}{{", value.type_name())
                } else {
                    "map[".to_owned()
                });
                for (i, (key, item)) in map.entries().into_iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(if go { ", " } else { " " });
                    }
                    self.value(&Value::String(key), verb, depth + 1)?;
                    self.out.push(':');
                    self.value(&item, verb, depth + 1)?;
                }
                self.out.push(if go { '}' } else { ']' });
                Ok(())
            }
            Value::Object(object) => self.object(object.as_ref(), verb, depth),
            Value::Pointer(_, Some(inner)) => self.value(inner, verb, depth + 1),
            Value::Pointer(_, None) => self.value(&Value::Nil, verb, depth),
            Value::Named(named) => self.value(&named.value, verb, depth + 1),
        }
    }

    /// Values that print themselves with a method.
    fn by_name(&mut self, value: &Value, verb: char, _depth: usize) -> Option<Result<(), Fault>> {
        if self.flags.sharp_v || !matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') {
            return None;
        }
        let text = match value {
            Value::Object(object) if !object.is_nil() => object.text()?,
            Value::Named(named) => named.text.as_deref()?.to_owned(),
            _ => return None,
        };
        Some(self.string(value, &text, verb))
    }

    fn object(&mut self, object: &dyn Object, verb: char, depth: usize) -> Result<(), Fault> {
        if object.is_nil() {
            return self.value(&Value::Nil, verb, depth);
        }
        let (pointer, name) = match object.type_name().strip_prefix('*') {
            Some(name) => (true, name.to_owned()),
            None => (false, object.type_name().to_owned()),
        };
        if pointer {
            self.out.push('&');
        }
        let go = self.flags.sharp_v;
        if go {
            self.out.push_str(&name);
        }
        self.out.push('{');
        for (i, (name, field)) in object.fields().into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(if go { ", " } else { " " });
            }
            if go || self.flags.plus_v {
                self.out.push_str(&name);
                self.out.push(':');
            }
            self.value(&field, verb, depth + 1)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn go_list(&mut self, value: &Value, items: &[Value], depth: usize) -> Result<(), Fault> {
        self.out.push_str(&value.type_name());
        if value.is_nil() {
            self.out.push_str("(nil)");
            return Ok(());
        }
        self.out.push('{');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.value(item, 'v', depth + 1)?;
        }
        self.out.push('}');
        Ok(())
    }

    /// `%!d(string=text)`.
    fn bad_verb(&mut self, value: &Value, verb: char) -> Result<(), Fault> {
        self.out.push_str(&format!("%!{verb}("));
        let flags = std::mem::take(&mut self.flags);
        match value {
            Value::Missing | Value::Nil => self.out.push_str("<nil>"),
            _ => {
                self.out.push_str(&value.type_name());
                self.out.push('=');
                self.value(value, 'v', 0)?;
            }
        }
        self.flags = flags;
        self.out.push(')');
        Ok(())
    }

    fn string(&mut self, value: &Value, text: &str, verb: char) -> Result<(), Fault> {
        let text = match self.flags.precision {
            Some(most) if verb != 'v' || !self.flags.sharp_v => text
                .char_indices()
                .nth(most)
                .map_or(text, |(end, _)| &text[..end]),
            _ => text,
        };
        match verb {
            'v' if self.flags.sharp_v => self.pad(&quote(text)),
            'v' | 's' => self.pad(text),
            'q' if self.flags.sharp && !text.contains(['`', '\n']) => {
                self.pad(&format!("`{text}`"))
            }
            'q' => self.pad(&quote(text)),
            'x' | 'X' => {
                self.meter.make(text.len() * 3)?;
                let upper = verb == 'X';
                let bytes = text
                    .bytes()
                    .map(|byte| digits(u128::from(byte), 16, upper, 2));
                let separator = if self.flags.space { " " } else { "" };
                let hex = bytes.collect::<Vec<_>>().join(separator);
                let prefix = if self.flags.sharp && !hex.is_empty() {
                    if upper { "0X" } else { "0x" }
                } else {
                    ""
                };
                self.pad(&format!("{prefix}{hex}"))
            }
            _ => self.bad_verb(value, verb),
        }
    }

    fn integer(&mut self, value: &Value, n: i128, verb: char) -> Result<(), Fault> {
        let unsigned = matches!(value, Value::Uint(..));
        let (radix, prefix) = match verb {
            'v' if self.flags.sharp_v && unsigned => (16, "0x"),
            'v' | 'd' => (10, ""),
            'b' => (2, if self.flags.sharp { "0b" } else { "" }),
            'o' => (8, if self.flags.sharp { "0" } else { "" }),
            'O' => (8, "0o"),
            'x' => (16, if self.flags.sharp { "0x" } else { "" }),
            'X' => (16, if self.flags.sharp { "0X" } else { "" }),
            'c' | 'q' | 'U' => return self.character(n, verb),
            _ => return self.bad_verb(value, verb),
        };
        let sign = match n {
            _ if n < 0 => "-",
            _ if self.flags.plus => "+",
            _ if self.flags.space => " ",
            _ => "",
        };
        let least = match (self.flags.precision, self.flags.width) {
            (Some(0), _) if n == 0 => return self.pad(""),
            (Some(least), _) => least,
            (None, Some(width)) if self.flags.zero && !self.flags.minus => {
                width.saturating_sub(sign.len())
            }
            _ => 0,
        };
        self.meter.make(least)?;
        let prefix = if verb == 'o' && n == 0 { "" } else { prefix };
        let text = format!(
            "{sign}{prefix}{}",
            digits(n.unsigned_abs(), radix, verb == 'X', least)
        );
        let zero = std::mem::take(&mut self.flags.zero);
        let result = self.pad(&text);
        self.flags.zero = zero;
        result
    }

    fn character(&mut self, n: i128, verb: char) -> Result<(), Fault> {
        let c = u32::try_from(n)
            .ok()
            .and_then(char::from_u32)
            .unwrap_or(char::REPLACEMENT_CHARACTER);
        match verb {
            'c' => self.pad(c.encode_utf8(&mut [0; 4])),
            'q' => self.pad(&quoted(c.encode_utf8(&mut [0; 4]), '\'')),
            _ => {
                let n = n as u64;
                let shown = if self.flags.sharp && n < 0x110000 && super::is_printable(c) {
                    format!(" '{c}'")
                } else {
                    String::new()
                };
                self.pad(&format!("U+{n:04X}{shown}"))
            }
        }
    }

    fn float(&mut self, value: &Value, n: f64, verb: char) -> Result<(), Fault> {
        let precision = self.flags.precision;
        self.meter.make(precision.unwrap_or(0))?;
        let mut text = match verb {
            'v' => formatted(n, 'g', precision),
            'g' if self.flags.sharp => number::with_point(n, precision.unwrap_or(6)),
            'e' | 'f' | 'F' | 'g' => formatted(n, verb, precision),
            'E' | 'G' => formatted(n, verb.to_ascii_lowercase(), precision).replace('e', "E"),
            _ => return self.bad_verb(value, verb),
        };
        if self.flags.plus && !text.starts_with(['-', '+']) {
            text.insert(0, '+');
        } else if self.flags.space && !text.starts_with(['-', '+']) {
            text.insert(0, ' ');
        } else if !self.flags.plus && text.starts_with('+') && !self.flags.sharp_v {
            // Infinity has a sign of its own.
            self.flags.zero = false;
        }
        let width = self.flags.width.unwrap_or(0);
        if self.flags.zero
            && !self.flags.minus
            && text.starts_with(['-', '+', ' '])
            && width > text.len()
        {
            let zeros = "0".repeat(width - text.len());
            self.meter.make(zeros.len())?;
            text.insert_str(1, &zeros);
        }
        self.pad(&text)
    }
}
