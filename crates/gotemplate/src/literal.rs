//! Constants of Go: numbers, strings and characters.

use crate::ast::Number;
use crate::print::quote;

/// A number as it is written, or a character in single quotes.
pub(crate) fn number(written: &str) -> Result<Number, String> {
    let number = |int, uint, float| Number {
        written: written.into(),
        int,
        uint,
        float,
    };
    if written.starts_with('\'') {
        let text = unquote(written)?;
        let mut chars = text.chars();
        return match (chars.next(), chars.next()) {
            (Some(c), None) => {
                let code = u32::from(c);
                Ok(number(
                    Some(i64::from(code)),
                    Some(u64::from(code)),
                    Some(f64::from(code)),
                ))
            }
            _ => Err(format!("malformed character constant: {written}")),
        };
    }
    if let Some(magnitude) = integer(written.trim_start_matches(['+', '-'])) {
        let negative = written.starts_with('-');
        let signed = i128::from(magnitude) * if negative { -1 } else { 1 };
        let int = i64::try_from(signed).ok();
        let uint = u64::try_from(signed).ok();
        if int.is_none() && uint.is_none() {
            return Err(format!("integer overflow: {}", quote(written)));
        }
        return Ok(number(int, uint, Some(signed as f64)));
    }
    let fractional = written.contains(['.', 'e', 'E', 'p', 'P']);
    let float = match written.trim_start_matches(['+', '-']).get(..2) {
        Some("0x" | "0X") if fractional => {
            return Err(format!(
                "hexadecimal floats are not supported: {}",
                quote(written)
            ));
        }
        _ if written.ends_with('_') || written.contains("__") => None,
        _ => written
            .replace('_', "")
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite()),
    };
    match float {
        Some(_) if !fractional => Err(format!("integer overflow: {}", quote(written))),
        Some(value) => {
            let int = (value as i64 as f64 == value).then_some(value as i64);
            let uint = (value >= 0.0 && value as u64 as f64 == value).then_some(value as u64);
            Ok(number(int, uint, Some(value)))
        }
        None => Err(format!("illegal number syntax: {}", quote(written))),
    }
}

/// A whole number without sign, with the prefixes and underscores that Go allows.
pub(crate) fn integer(written: &str) -> Option<u64> {
    let (digits, radix, prefixed) = match written.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&written[2..], 16, true),
        [b'0', b'b' | b'B', ..] => (&written[2..], 2, true),
        [b'0', b'o' | b'O', ..] => (&written[2..], 8, true),
        [b'0', _, ..] => (&written[1..], 8, true),
        _ => (written, 10, false),
    };
    let bare = if prefixed {
        digits.strip_prefix('_').unwrap_or(digits)
    } else {
        digits
    };
    if bare.is_empty()
        || bare.starts_with(['_', '+', '-'])
        || bare.ends_with('_')
        || bare.contains("__")
    {
        return None;
    }
    u64::from_str_radix(&bare.replace('_', ""), radix).ok()
}

/// The text of a string or character with its quotes of any kind.
pub(crate) fn unquote(written: &str) -> Result<String, String> {
    let quote = written.chars().next().unwrap_or('"');
    let inner = written
        .get(1..written.len().saturating_sub(1))
        .unwrap_or_default();
    if quote == '`' {
        // Go drops carriage returns from raw strings.
        return Ok(inner.replace('\r', ""));
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '\\' {
            rest = escape(rest, quote, &mut out).ok_or("invalid syntax")?;
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// What stands after a backslash; returns what follows it.
fn escape<'t>(rest: &'t str, quote: char, out: &mut Vec<u8>) -> Option<&'t str> {
    let c = rest.chars().next()?;
    let digits = |from: usize, count: usize, radix: u32| {
        let digits = rest.get(from..from + count)?;
        let plain = digits.chars().all(|c| c.is_digit(radix));
        plain
            .then(|| u32::from_str_radix(digits, radix).ok())
            .flatten()
    };
    let byte = match c {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        '\'' | '"' if c == quote => c as u8,
        'x' => {
            out.push(u8::try_from(digits(1, 2, 16)?).ok()?);
            return rest.get(3..);
        }
        'u' | 'U' => {
            let count = if c == 'u' { 4 } else { 8 };
            let c = char::from_u32(digits(1, count, 16)?)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return rest.get(1 + count..);
        }
        '0'..='7' => {
            out.push(u8::try_from(digits(0, 3, 8)?).ok()?);
            return rest.get(3..);
        }
        _ => return None,
    };
    out.push(byte);
    rest.get(1..)
}
