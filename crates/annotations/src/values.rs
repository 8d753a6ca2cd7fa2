//! Values of annotations: each function reads one, or says what is wrong with it.

mod address;
mod header;
mod link;

pub(crate) use address::*;
pub(crate) use header::*;
pub(crate) use link::*;

use std::sync::Arc;
use std::time::Duration;

use validate::text::re2;

use crate::Reference;
use crate::reader::Fault;

/// The longest regular expression, in bytes: Istio sends no longer ones.
const LONGEST_REGEX: usize = 1024;

/// The longest duration: a year.
const LONGEST_TIME: u64 = 365 * 24 * 3600;

/// A boolean as Go reads it.
pub(crate) fn boolean(text: &str) -> Result<bool, Fault> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("is not true or false".into()),
    }
}

/// `on` or `off`.
pub(crate) fn switch(text: &str) -> Result<bool, Fault> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("is not on or off".into()),
    }
}

/// A decimal number; large ones become the largest.
pub(crate) fn number(text: &str) -> Result<i64, Fault> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("is not a number".into());
    }
    Ok(text.parse().unwrap_or(match text.starts_with('-') {
        true => i64::MIN,
        false => i64::MAX,
    }))
}

/// A number from 0; negative ones are 0, large ones the largest.
pub(crate) fn count(text: &str) -> Result<u32, Fault> {
    let number = number(text)?.max(0);
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Seconds, or a number with a unit of nginx (`60s`, `500ms`, `2m`); a year at most.
pub(crate) fn duration(text: &str) -> Result<Duration, Fault> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (amount, unit) = text.split_at(digits);
    let amount = u64::from(count(amount).map_err(|_| "is not a time")?);
    let time = match unit {
        "ms" => Duration::from_millis(amount),
        "" | "s" => Duration::from_secs(amount),
        "m" => Duration::from_secs(amount * 60),
        "h" => Duration::from_secs(amount * 3600),
        "d" => Duration::from_secs(amount * 86_400),
        _ => return Err("is not a time".into()),
    };
    Ok(time.min(Duration::from_secs(LONGEST_TIME)))
}

/// Seconds; what is not over zero is none.
pub(crate) fn seconds(text: &str) -> Result<Duration, Fault> {
    let seconds = u64::from(count(text)?);
    Ok(Duration::from_secs(seconds.min(LONGEST_TIME)))
}

/// A size of nginx in bytes (`8k`, `1m`); 0 is no limit, and what does not fit is the largest.
pub(crate) fn size(text: &str) -> Result<u64, Fault> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, unit)) if !unit.is_ascii_digit() => (&text[..at], unit.to_ascii_lowercase()),
        _ => (text, 'b'),
    };
    let shift = match unit {
        'b' => 0,
        'k' => 10,
        'm' => 20,
        'g' => 30,
        _ => return Err("is not a size".into()),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("is not a size".into());
    }
    Ok(digits
        .parse::<u64>()
        .unwrap_or(u64::MAX)
        .saturating_mul(1 << shift))
}

/// The items of a list with commas; empty ones do not count. More than `most` are a fault.
pub(crate) fn list(text: &str, most: usize) -> Result<Vec<&str>, Fault> {
    let items = text.split([',', '\n']).map(str::trim);
    let items: Vec<&str> = items.filter(|item| !item.is_empty()).collect();
    match items.len() {
        0 => Err("is empty".into()),
        many if many > most => Err("has too many items".into()),
        _ => Ok(items),
    }
}

/// A name that may have a namespace before it.
pub(crate) fn reference(text: &str) -> Result<Reference, Fault> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) if !namespace.contains('.') => {
            (Some(object_name(namespace)?), name)
        }
        Some(_) => return Err(NO_NAME.into()),
        None => (None, text),
    };
    let name = object_name(name)?;
    Ok(Reference { namespace, name })
}

const NO_NAME: &str = "is not a name, or a namespace, `/` and a name";

fn object_name(text: &str) -> Result<Arc<str>, Fault> {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !begins || text.len() > 253 || !text.bytes().all(valid) {
        return Err(NO_NAME.into());
    }
    Ok(text.into())
}

/// A text on one line, as it is.
pub(crate) fn text(value: &str) -> Result<Arc<str>, Fault> {
    match value.chars().any(char::is_control) {
        true => Err("has control characters".into()),
        false => Ok(value.into()),
    }
}

/// A regular expression that is no longer than Envoy takes, without look-around and back-references.
pub(crate) fn regex(value: &str) -> Result<Arc<str>, Fault> {
    if value.len() > LONGEST_REGEX {
        return Err("is too long a regular expression".into());
    }
    let text = text(value)?;
    match re2(value) {
        Ok(()) => Ok(text),
        Err(_) => Err("is no regular expression that RE2 takes".into()),
    }
}

/// A path from `/`, with a query or without.
pub(crate) fn path(value: &str) -> Result<Arc<str>, Fault> {
    if !value.starts_with('/') {
        return Err("does not begin with /".into());
    }
    match value.bytes().all(is_of_url) {
        true => Ok(value.into()),
        false => Err("has characters that no path has".into()),
    }
}

/// Whether a byte may stand in a URL; `$` may not, because of nginx's variables.
pub(crate) fn is_of_url(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"<>\\^`{|}$".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::regex;

    #[test]
    fn expressions_are_those_of_re2() {
        for (text, is_one) in [
            ("a|b", true),
            (r"a\Cb", true),
            (r"\Qa(\E", true),
            ("(?P<n>a)", true),
            (r"\x{100}", false),
            ("a(?=b)", false),
            (r"(a)\1", false),
            ("a{1001}", false),
            ("[a", false),
        ] {
            assert_eq!(regex(text).is_ok(), is_one, "{text}");
        }
    }
}
