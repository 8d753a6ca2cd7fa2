//! Text of durations: read as Go reads it, written as protobuf's JSON writes it.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Duration;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Text that is no duration. The user who wrote it can fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a duration: expected decimal numbers with units, as in 1.5s, 100ms or 1h30m")]
pub struct ParseDurationError;

impl Duration {
    /// A duration of whole and partial seconds; both parts carry the same sign.
    pub const fn new(seconds: i64, nanos: i32) -> Self {
        Self(prost_types::Duration { seconds, nanos })
    }

    /// The duration in nanoseconds, exact.
    pub fn as_nanos(self) -> i128 {
        i128::from(self.0.seconds) * NANOS_PER_SECOND + i128::from(self.0.nanos)
    }

    fn from_nanos(nanos: i128) -> Option<Self> {
        let seconds = i64::try_from(nanos / NANOS_PER_SECOND).ok()?;
        let rest = i32::try_from(nanos % NANOS_PER_SECOND).ok()?;
        Some(Self::new(seconds, rest))
    }
}

impl From<std::time::Duration> for Duration {
    /// Saturates at protobuf's largest duration.
    fn from(value: std::time::Duration) -> Self {
        let seconds = i64::try_from(value.as_secs()).unwrap_or(i64::MAX);
        Self::new(seconds, value.subsec_nanos().cast_signed())
    }
}

impl TryFrom<Duration> for std::time::Duration {
    type Error = prost_types::DurationError;

    /// # Errors
    /// The duration is negative.
    fn try_from(value: Duration) -> Result<Self, Self::Error> {
        value.0.try_into()
    }
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    /// Reads Go's syntax, of which protobuf's (`1.5s`) is a part.
    // Istio reads its configuration with golang/protobuf's jsonpb, which parses durations with time.ParseDuration.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text)
            .and_then(Self::from_nanos)
            .ok_or(ParseDurationError)
    }
}

fn parse(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_len = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let nanos = unit_nanos(unit)?;
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        total = total.checked_add(whole.checked_mul(nanos)?)?;
        // Digits beyond the fifteenth are below a nanosecond for every unit.
        let fraction = fraction.get(..15).unwrap_or(fraction);
        if !fraction.is_empty() {
            let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
            total = total.checked_add(fraction.parse::<i128>().ok()? * nanos / scale)?;
        }
        rest = after;
    }
    Some(if negative { -total } else { total })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    )
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

impl fmt::Display for Duration {
    /// Protobuf's form: seconds with none, three, six or nine decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        let sign = if nanos < 0 { "-" } else { "" };
        let nanos = nanos.unsigned_abs();
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        match rest {
            0 => write!(f, "{sign}{seconds}s"),
            _ if rest % 1_000_000 == 0 => write!(f, "{sign}{seconds}.{:03}s", rest / 1_000_000),
            _ if rest % 1_000 == 0 => write!(f, "{sign}{seconds}.{:06}s", rest / 1_000),
            _ => write!(f, "{sign}{seconds}.{rest:09}s"),
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as 1.5s, 100ms or 1h30m")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
                text.parse()
                    .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_reads_them() {
        for (text, seconds, nanos) in [
            ("0", 0, 0),
            ("0s", 0, 0),
            ("1.5s", 1, 500_000_000),
            ("15m", 900, 0),
            ("1h1m1s", 3661, 0),
            ("100ms", 0, 100_000_000),
            (".5s", 0, 500_000_000),
            ("1.s", 1, 0),
            ("-1.5s", -1, -500_000_000),
            ("+2s", 2, 0),
            ("10us", 0, 10_000),
            ("10\u{b5}s", 0, 10_000),
            ("3ns", 0, 3),
            ("0.0000000019s", 0, 1),
            ("2562047h", 9_223_369_200, 0),
        ] {
            assert_eq!(text.parse(), Ok(Duration::new(seconds, nanos)), "{text}");
        }
        for text in [
            "",
            "-",
            "1",
            "s",
            ".s",
            "1d",
            "1.5",
            " 1s",
            "1s ",
            "1 s",
            "99999999999999999999999999999999999999h",
        ] {
            assert_eq!(text.parse::<Duration>(), Err(ParseDurationError), "{text}");
        }
    }

    #[test]
    fn durations_print_as_protobuf_prints_them() {
        for (seconds, nanos, text) in [
            (0, 0, "0s"),
            (900, 0, "900s"),
            (1, 500_000_000, "1.500s"),
            (0, 10_000, "0.000010s"),
            (-1, -1, "-1.000000001s"),
            (0, -500_000_000, "-0.500s"),
        ] {
            let duration = Duration::new(seconds, nanos);
            assert_eq!(duration.to_string(), text);
            assert_eq!(text.parse(), Ok(duration));
        }
    }
}
