//! Log lines that clients can cause: a few of each a second, in a bounded length, so that no client fills a disk. Those left
//! out are counted, and the next line that is written says how many they were.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines written at once after quiet.
const BURST: u32 = 20;

/// How long until one more may be written.
const EACH: Duration = Duration::from_millis(200);

/// Characters of what a client said that a line shows.
const SHOWN: usize = 500;

/// How many lines of one kind may be written.
#[derive(Debug)]
pub struct Quiet(Mutex<Written>);

#[derive(Debug)]
struct Written {
    left: u32,
    /// Up to when time was turned into lines.
    since: Option<Instant>,
    left_out: u64,
}

impl Quiet {
    /// Nothing was written yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Written {
            left: BURST,
            since: None,
            left_out: 0,
        }))
    }

    /// Takes a line: how many were left out before it, or `None` where it is left out as well.
    pub fn take(&self, now: Instant) -> Option<u64> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *written.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since).as_millis() / EACH.as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        written.left = written.left.saturating_add(passed).min(BURST);
        // After long quiet the rest of a span does not matter.
        written.since = Some(EACH.checked_mul(passed).map_or(now, |span| since + span));
        if written.left == 0 {
            written.left_out += 1;
            return None;
        }
        written.left -= 1;
        Some(std::mem::take(&mut written.left_out))
    }
}

impl Default for Quiet {
    fn default() -> Self {
        Self::new()
    }
}

/// How many lines were left out, as a field of the next one: none has no field.
pub fn shown(left_out: u64) -> Option<u64> {
    (left_out > 0).then_some(left_out)
}

/// The first 500 characters of what a client said.
pub fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN);
    end.map_or(text, |(at, _)| &text[..at])
}

/// Names one after another, up to 500 characters, and how many there are.
pub fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let mut list = String::new();
    for (at, name) in names.enumerate() {
        if list.len() + name.len() > SHOWN {
            let rest = count - at;
            return match at {
                0 => format!("{}... ({count} in all)", beginning(name)),
                _ => format!("{list} and {rest} more"),
            };
        }
        if at > 0 {
            list.push_str(", ");
        }
        list.push_str(name);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_a_second_and_its_number() {
        let (quiet, start) = (Quiet::new(), Instant::now());
        let written = |now| (0..1000).filter(|_| quiet.take(now).is_some()).count();
        assert_eq!(written(start), 20);
        let later = start + Duration::from_millis(1100);
        assert_eq!(quiet.take(later), Some(980));
        assert_eq!((shown(980), shown(0)), (Some(980), None));
        assert_eq!(written(later), 4);
        assert_eq!(written(start + Duration::from_millis(1200)), 1);
        let year = start + Duration::from_secs(365 * 86_400);
        assert_eq!(written(year), 20);
        assert_eq!(written(year + Duration::from_secs(1)), 5);
    }

    #[test]
    fn what_clients_say_is_shown_in_part() {
        assert_eq!(beginning("short"), "short");
        assert_eq!(beginning(&"é".repeat(501)).chars().count(), 500);
        assert_eq!(listed(["a", "b"].into_iter()), "a, b");
        let many = vec!["outbound|80||s.shop"; 3000];
        let shown = listed(many.iter().copied());
        assert!(shown.len() < 540 && shown.ends_with("more"), "{shown}");
        let long = "x".repeat(5000);
        assert!(listed([&*long].into_iter()).len() < 540);
    }
}
