//! What a scalar of YAML means: YAML 1.1, as Kubernetes reads its manifests.
//!
//! sigs.k8s.io/yaml (goyaml.v2 resolve.go): `yes`, `no`, `on`, `off` are booleans, a leading zero means octal, and
//! digits may be grouped with `_`. Dates stay text.

use std::borrow::Cow;

use super::node::Value;

/// The meaning of a scalar without quotes.
pub(super) fn resolve(text: Cow<'_, str>) -> Value<'_> {
    match text.as_bytes().first() {
        None | Some(b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'y' | b'Y' | b'o' | b'O') => {
            word(&text).unwrap_or(Value::String(text))
        }
        Some(b'+' | b'-' | b'.' | b'0'..=b'9') => number(&text).unwrap_or(Value::String(text)),
        Some(_) => Value::String(text),
    }
}

fn word(text: &str) -> Option<Value<'static>> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        _ => return None,
    })
}

fn number(text: &str) -> Option<Value<'static>> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Some(Value::Float(f64::INFINITY));
        }
        "-.inf" | "-.Inf" | "-.INF" => return Some(Value::Float(f64::NEG_INFINITY)),
        ".nan" | ".NaN" | ".NAN" => return Some(Value::Float(f64::NAN)),
        _ => {}
    }
    let plain: Cow<'_, str> = if text.contains('_') {
        text.replace('_', "").into()
    } else {
        text.into()
    };
    integer(&plain).or_else(|| float(&plain))
}

fn integer(text: &str) -> Option<Value<'static>> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // `from_str_radix` would take a second sign.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let value = if negative { -magnitude } else { magnitude };
    if let Ok(value) = i64::try_from(value) {
        Some(Value::Int(value))
    } else {
        u64::try_from(value).ok().map(Value::UInt)
    }
}

fn float(text: &str) -> Option<Value<'static>> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mantissa = digits.split(['e', 'E']).next()?;
    let plausible = mantissa.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && mantissa.bytes().any(|b| b.is_ascii_digit());
    if !plausible {
        return None;
    }
    text.parse().ok().map(from_f64)
}

/// A number as JSON would write it: `1e3` and `5.0` are whole.
pub(super) fn from_f64(value: f64) -> Value<'static> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        // Whole and within the range in which every whole number has its own float.
        Value::Int(value as i64)
    } else {
        Value::Float(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Value<'_> {
        resolve(Cow::Borrowed(text))
    }

    #[test]
    fn words_are_booleans_as_in_yaml_1_1() {
        for text in ["yes", "on", "y", "TRUE"] {
            assert_eq!(of(text), Value::Bool(true), "{text}");
        }
        for text in ["no", "Off", "n", "false"] {
            assert_eq!(of(text), Value::Bool(false), "{text}");
        }
        assert_eq!(of("oN"), Value::String("oN".into()));
        assert_eq!(of(""), Value::Null);
        assert_eq!(of("NULL"), Value::Null);
    }

    #[test]
    fn numbers_have_all_the_notations_of_go() {
        assert_eq!(of("010"), Value::Int(8));
        assert_eq!(of("0o10"), Value::Int(8));
        assert_eq!(of("0x1F"), Value::Int(31));
        assert_eq!(of("-0b11"), Value::Int(-3));
        assert_eq!(of("1_000"), Value::Int(1000));
        assert_eq!(of("08"), Value::Int(8));
        assert_eq!(of("1e3"), Value::Int(1000));
        assert_eq!(of("5.0"), Value::Int(5));
        assert_eq!(of(".5"), Value::Float(0.5));
        assert_eq!(of("18446744073709551615"), Value::UInt(u64::MAX));
    }

    #[test]
    fn what_only_looks_like_a_number_is_text() {
        for text in [
            "1.2.3",
            "1s",
            "--1",
            "0x",
            "10.0.0.0/8",
            "2001-01-01",
            "-",
            "1e",
            "::1",
            "+.",
            "1:30",
        ] {
            assert_eq!(of(text), Value::String(text.into()), "{text}");
        }
    }
}
