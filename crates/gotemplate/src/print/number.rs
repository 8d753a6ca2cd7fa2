//! Numbers as Go prints them.

/// A float as `%v` prints it: the shortest digits that say it, with an exponent where that is below -4 or above 5.
pub fn float(value: f64) -> String {
    general(value, None, false)
}

/// A float with a verb of Go (`e`, `f`, `g`), and digits if they are given.
pub(super) fn formatted(value: f64, verb: char, precision: Option<usize>) -> String {
    if let Some(special) = special(value) {
        return special;
    }
    match verb {
        'e' | 'E' => exponential(value, precision.unwrap_or(6)),
        'f' | 'F' => format!("{value:.*}", precision.unwrap_or(6)),
        _ => general(value, precision, false),
    }
}

/// A float with all its digits and a point in any case (`%#g`).
pub(super) fn with_point(value: f64, precision: usize) -> String {
    let text = general(value, Some(precision), true);
    if text.contains('.') || !value.is_finite() {
        return text;
    }
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{digits}.e{exponent}"),
        None => format!("{text}."),
    }
}

fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        Some("NaN".to_owned())
    } else if value.is_infinite() {
        Some(if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned())
    } else {
        None
    }
}

/// With an exponent of at least two digits.
fn exponential(value: f64, precision: usize) -> String {
    with_exponent(&format!("{value:.precision$e}"))
}

fn with_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// With an exponent only where it is far from zero.
fn general(value: f64, precision: Option<usize>, keep_zeros: bool) -> String {
    if let Some(special) = special(value) {
        return special;
    }
    let precision = precision.map(|digits| digits.max(1));
    let text = match precision {
        Some(digits) => format!("{value:.*e}", digits - 1),
        None => format!("{value:e}"),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = match mantissa.contains('.') && !keep_zeros {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    let digits = trimmed.chars().filter(char::is_ascii_digit).count() as i32;
    let largest = match precision {
        None => 6,
        Some(wanted) if wanted as i32 > digits && digits > exponent => digits,
        Some(wanted) => wanted as i32,
    };
    if exponent < -4 || exponent >= largest {
        return with_exponent(&format!("{trimmed}e{exponent}"));
    }
    let decimals = (digits - 1 - exponent).max(0) as usize;
    format!("{value:.decimals$}")
}

/// A whole number in a base, with at least that many digits.
pub(super) fn digits(magnitude: u128, radix: u32, uppercase: bool, least: usize) -> String {
    let text = match (radix, uppercase) {
        (2, _) => format!("{magnitude:b}"),
        (8, _) => format!("{magnitude:o}"),
        (16, false) => format!("{magnitude:x}"),
        (16, true) => format!("{magnitude:X}"),
        _ => magnitude.to_string(),
    };
    format!("{text:0>least$}")
}
