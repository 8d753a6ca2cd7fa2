//! Times of day, as annotations of WorkloadEntries state them.

use std::fmt;
use std::time::{Duration, SystemTime};

use model::civil;

const SECOND: i128 = 1_000_000_000;

/// Nanoseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Wall(pub i128);

impl Wall {
    /// What the clock of the system says.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self(since.unwrap_or_default().as_nanos() as i128)
    }

    /// The time a nanosecond later.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The time so much later.
    pub fn after(self, span: Duration) -> Self {
        Self(self.0 + span.as_nanos() as i128)
    }

    /// Reads RFC 3339, with any offset and any number of digits behind the second.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once(['T', 't'])?;
        let mut parts = date.splitn(3, '-').map(number);
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let at = time.find(['Z', 'z', '+', '-'])?;
        let (clock, offset) = time.split_at(at);
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
        let mut parts = clock.splitn(3, ':').map(number);
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let in_range = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60;
        if !in_range || fraction.len() > 9 {
            return None;
        }
        let nanos = match fraction {
            "" => 0,
            digits => number(digits)? * 10_i64.pow(9 - digits.len() as u32),
        };
        let offset = match offset {
            "Z" | "z" => 0,
            stated => {
                let (hours, minutes) = stated[1..].split_once(':')?;
                let seconds = number(hours)? * 3600 + number(minutes)? * 60;
                if stated.starts_with('-') {
                    -seconds
                } else {
                    seconds
                }
            }
        };
        let days = civil::days(year, month, day);
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
        Some(Self(i128::from(seconds) * SECOND + i128::from(nanos)))
    }
}

/// A number of digits only, short enough to be part of a time.
fn number(text: &str) -> Option<i64> {
    let digits = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

impl fmt::Display for Wall {
    /// RFC 3339 in UTC, without zeros at the end of the fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(SECOND) as i64;
        let whole = civil::timestamp(seconds);
        let whole = whole.trim_end_matches('Z');
        match self.0.rem_euclid(SECOND) {
            0 => write!(f, "{whole}Z"),
            nanos => {
                let fraction = format!("{nanos:09}");
                write!(f, "{whole}.{}Z", fraction.trim_end_matches('0'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, written) in [
            ("2026-11-23T04:33:58Z", "2026-11-23T04:33:58Z"),
            (
                "2026-11-23T04:33:58.120000001Z",
                "2026-11-23T04:33:58.120000001Z",
            ),
            ("2026-11-23T04:33:58.5+02:00", "2026-11-23T02:33:58.5Z"),
            ("2026-11-22T23:33:58-05:30", "2026-11-23T05:03:58Z"),
        ] {
            let read = Wall::parse(text).map(|t| t.to_string());
            assert_eq!(read.as_deref(), Some(written));
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "now",
            "2026-11-23",
            "2026-11-23T04:33:58",
            "2026-13-23T04:33:58Z",
            "2026-11-23T04:33:58.1234567890Z",
            "2026-11-23T04:33:58+",
            "99999999999-11-23T04:33:58Z",
            "2026-11-23T04:33:-8Z",
            "é026-11-23T04:33:58Z",
        ] {
            assert_eq!(Wall::parse(text), None, "{text}");
        }
    }
}
