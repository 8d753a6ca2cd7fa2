//! Decimal numbers, in which Sprig computes with floats.

use crate::functions::Fault;

/// How many digits after the point a quotient has.
const DIVISION_DIGITS: u32 = 16;

/// A decimal, or a float where that takes more digits than there are.
#[derive(Clone, Copy)]
pub(super) enum Decimal {
    /// A whole number and how many of its digits stand after the point.
    Exact(i128, u32),
    Float(f64),
}

impl Decimal {
    pub(super) fn new(value: f64) -> Self {
        let text = value.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        match format!("{whole}{fraction}").parse() {
            Ok(digits) if fraction.len() <= 30 => Self::Exact(digits, fraction.len() as u32),
            _ => Self::Float(value),
        }
    }

    pub(super) fn float(self) -> f64 {
        match self {
            Self::Exact(digits, 0) => digits as f64,
            Self::Exact(digits, scale) => format!("{digits}e-{scale}").parse().unwrap_or_default(),
            Self::Float(value) => value,
        }
    }

    /// Both with as many digits after the point.
    fn aligned(self, other: Self) -> Option<(i128, i128, u32)> {
        let (Self::Exact(a, scale), Self::Exact(b, other)) = (self, other) else {
            return None;
        };
        let most = scale.max(other);
        let grown = |digits: i128, by: u32| digits.checked_mul(10_i128.checked_pow(by)?);
        Some((grown(a, most - scale)?, grown(b, most - other)?, most))
    }

    pub(super) fn add(self, other: Self) -> Result<Self, Fault> {
        let exact = self
            .aligned(other)
            .and_then(|(a, b, scale)| Some(Self::Exact(a.checked_add(b)?, scale)));
        Ok(exact.unwrap_or_else(|| Self::Float(self.float() + other.float())))
    }

    pub(super) fn sub(self, other: Self) -> Result<Self, Fault> {
        let exact = self
            .aligned(other)
            .and_then(|(a, b, scale)| Some(Self::Exact(a.checked_sub(b)?, scale)));
        Ok(exact.unwrap_or_else(|| Self::Float(self.float() - other.float())))
    }

    pub(super) fn mul(self, other: Self) -> Result<Self, Fault> {
        let exact = match (self, other) {
            (Self::Exact(a, scale), Self::Exact(b, other)) => a
                .checked_mul(b)
                .map(|digits| Self::Exact(digits, scale + other)),
            _ => None,
        };
        Ok(exact.unwrap_or_else(|| Self::Float(self.float() * other.float())))
    }

    pub(super) fn div(self, other: Self) -> Result<Self, Fault> {
        if other.float() == 0.0 {
            return Err("decimal division by 0".into());
        }
        let exact = self.aligned(other).and_then(|(a, b, _)| {
            let (quotient, rest) = {
                let grown = a.checked_mul(10_i128.pow(DIVISION_DIGITS))?;
                (grown / b, grown % b)
            };
            let half = rest.unsigned_abs().checked_mul(2)? >= b.unsigned_abs();
            let away = if (a < 0) == (b < 0) { 1 } else { -1 };
            Some(Self::Exact(
                if half { quotient + away } else { quotient },
                DIVISION_DIGITS,
            ))
        });
        Ok(exact.unwrap_or_else(|| Self::Float(self.float() / other.float())))
    }
}
