//! How many refusals are written: a hundred at once, and then one each second, so that a flood of them fills no disk. Those
//! that are left out are counted, and the next line that is written says how many they were.

use std::time::{Duration, Instant};

/// How many are written at once.
const BURST: u64 = 100;
/// How long until one more may be.
const EACH: Duration = Duration::from_secs(1);

/// What may be written still.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u64,
    /// Up to when time was turned into lines.
    since: Instant,
    left_out: u64,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            since: now,
            left_out: 0,
        }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_secs() / EACH.as_secs();
        self.left = self.left.saturating_add(passed).min(BURST);
        self.since += EACH * u32::try_from(passed).unwrap_or(u32::MAX);
    }

    /// Takes a line; how many were left out before it, or `None` where it is left out as well.
    pub(super) fn take(&mut self, now: Instant) -> Option<u64> {
        self.refill(now);
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }

    /// Takes a line if some were left out that nothing said yet.
    pub(super) fn owed(&mut self, now: Instant) -> Option<u64> {
        if self.left_out == 0 {
            return None;
        }
        self.refill(now);
        self.left = self.left.checked_sub(1)?;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_line_each_second_and_its_number() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let written = (0..1000).filter(|_| allowance.take(start).is_some());
        assert_eq!(written.count(), 100);
        assert_eq!(allowance.owed(start), None);
        let later = start + Duration::from_millis(1500);
        assert_eq!(allowance.take(later), Some(900));
        assert_eq!(allowance.take(later), None);
        // The half second that was left counts.
        let later = start + Duration::from_millis(2100);
        assert_eq!(allowance.owed(later), Some(1));
        assert_eq!(allowance.owed(later + Duration::from_secs(9)), None);
        // An hour without refusals allows no more than the first moment did.
        let hour = start + Duration::from_secs(3600);
        let written = (0..1000).filter(|_| allowance.take(hour).is_some());
        assert_eq!(written.count(), 100);
    }
}
