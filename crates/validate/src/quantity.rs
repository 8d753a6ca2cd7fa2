//! Quantities as Kubernetes reads and writes them: `100m`, `1.5Gi`, `1e3`.
// Kubernetes: apimachinery/pkg/api/resource/quantity.go ParseQuantity, CanonicalizeBytes, 1.36.

use std::fmt;

/// Parts of one that are told apart.
const NANOS: i128 = 1_000_000_000;
/// The largest amount; larger ones are cut to it.
const LARGEST: i128 = i64::MAX as i128 * NANOS;

/// An amount, to a billionth, and how it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// How a quantity is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// `k`, `M`, `m`, …
    Decimal,
    /// `e3`, `E-3`, …
    Exponent,
    /// `Ki`, `Mi`, …
    Binary,
}

/// Text that is no quantity, in Kubernetes' words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QuantityError {
    /// Neither number nor suffix can be told.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Form,
    /// The number is none.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is none that is known.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            None => return Err(QuantityError::Form),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let (whole, rest) = digits(unsigned);
        let (part, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
        if !is_suffix(rest) {
            return Err(QuantityError::Form);
        }
        let scale = Scale::of(rest).ok_or(QuantityError::Suffix)?;
        if whole.is_empty() && part.is_empty() {
            return Err(QuantityError::Number);
        }
        let nanos = scale.apply(whole, part);
        let small = nanos > 0 && nanos < NANOS;
        let format = match scale.format {
            Format::Binary if small => Format::Decimal,
            format => format,
        };
        let nanos = if negative { -nanos } else { nanos };
        Ok(Self { nanos, format })
    }

    /// The amount in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Whether the text has the form of a suffix: letters, then a number where they are an exponent.
fn is_suffix(text: &str) -> bool {
    let rest = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest.bytes().all(|b| b.is_ascii_digit())
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
struct Scale {
    format: Format,
    /// A power of 1024.
    binary: u32,
    /// A power of ten.
    decimal: i64,
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        const DECIMAL: [(&str, i64); 10] = [
            ("n", -9),
            ("u", -6),
            ("m", -3),
            ("", 0),
            ("k", 3),
            ("M", 6),
            ("G", 9),
            ("T", 12),
            ("P", 15),
            ("E", 18),
        ];
        const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let scale = |format, binary, decimal| Self {
            format,
            binary,
            decimal,
        };
        if let Some((_, power)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
            return Some(scale(Format::Decimal, 0, *power));
        }
        if let Some(power) = (1..).zip(BINARY).find(|(_, s)| *s == suffix) {
            return Some(scale(Format::Binary, power.0, 0));
        }
        let power = suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?;
        Some(scale(Format::Exponent, 0, power))
    }

    /// The billionths that a number stands for, rounded up.
    fn apply(self, whole: &str, part: &str) -> i128 {
        /// Digits that fit beside the largest power of 1024 or alone.
        const FIT: [usize; 2] = [28, 19];
        let all: String = [whole, part].concat();
        let number = all.trim_start_matches('0').trim_end_matches('0');
        if number.is_empty() {
            return 0;
        }
        let behind = all.len() - all.trim_end_matches('0').len();
        let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let kept = number.len().min(FIT[usize::from(self.binary > 0)]);
        let cut = kept < number.len();
        let exponent = signed(behind) - signed(part.len()) + signed(number.len() - kept);
        let exponent = self.decimal.saturating_add(exponent).saturating_add(9);
        let Ok(mut nanos) = number[..kept].parse::<i128>() else {
            return LARGEST;
        };
        nanos = nanos.saturating_mul(1024_i128.pow(self.binary));
        if exponent >= 0 {
            let exponent = u32::try_from(exponent).unwrap_or(u32::MAX);
            nanos = nanos.saturating_mul(10_i128.saturating_pow(exponent));
            nanos = nanos.saturating_add(i128::from(cut));
        } else {
            let exponent = u32::try_from(-exponent).unwrap_or(u32::MAX);
            let divisor = 10_i128.saturating_pow(exponent);
            let rounded = nanos % divisor != 0 || cut;
            nanos = (nanos / divisor).saturating_add(i128::from(rounded));
        }
        nanos.min(LARGEST)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: the largest suffix without a fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANOS == 0;
        let large = self.nanos.abs() >= 1024 * NANOS;
        if self.format == Format::Binary && whole && large {
            const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let (mut amount, mut power) = (self.nanos / NANOS, 0);
            while amount % 1024 == 0 && power < SUFFIXES.len() - 1 {
                amount /= 1024;
                power += 1;
            }
            return write!(f, "{amount}{}", SUFFIXES[power]);
        }
        let (mut amount, mut power) = (self.nanos, -9_i32);
        while amount % 1000 == 0 {
            amount /= 1000;
            power += 3;
        }
        match (self.format, power) {
            (_, 0) => write!(f, "{amount}"),
            (Format::Exponent, _) => write!(f, "{amount}e{power}"),
            _ => {
                const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                let at = usize::try_from((power + 9) / 3).unwrap_or_default();
                write!(f, "{amount}{}", SUFFIXES.get(at).unwrap_or(&""))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Quantity, QuantityError};

    fn canonical(text: &str) -> String {
        Quantity::parse(text).unwrap().to_string()
    }

    #[test]
    fn the_canonical_form_has_the_largest_suffix_without_a_fraction() {
        for (text, wanted) in [
            ("2000m", "2"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("100000", "100k"),
            ("0", "0"),
            ("0Gi", "0"),
            ("500Ki", "500Ki"),
            ("0.5Ki", "512"),
            ("0.0005Ki", "512m"),
            ("1e3", "1e3"),
            ("12E2", "1200"),
            ("-1", "-1"),
            ("+.5", "500m"),
            ("5.", "5"),
            ("0.1Gi", "107374182400m"),
            ("1000000000000000000000", "9223372036854775807"),
            ("1e1000000000", "9223372036854775807"),
            ("0.00000000001", "1n"),
            ("12345678901.123456789", "12345678901123456789n"),
            ("9223372036854775807", "9223372036854775807"),
        ] {
            assert_eq!(canonical(text), wanted, "{text}");
        }
    }

    #[test]
    fn other_text_says_what_is_wrong_with_it() {
        for (text, wanted) in [
            ("", QuantityError::Form),
            ("1x", QuantityError::Form),
            ("1.2.3", QuantityError::Form),
            ("1 Gi", QuantityError::Form),
            ("m", QuantityError::Number),
            (".", QuantityError::Number),
            ("1ei", QuantityError::Suffix),
            ("1mi", QuantityError::Suffix),
            ("Gi1", QuantityError::Suffix),
        ] {
            assert_eq!(Quantity::parse(text), Err(wanted), "{text}");
        }
    }
}
