//! When to write again after writing failed.

use std::time::{Duration, Instant};

/// The wait after the second failure in a row; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(10);

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(300);

/// Failures in a row, and when to try again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retry {
    failures: u32,
    not_before: Option<Instant>,
}

impl Retry {
    /// Whether it is time for another attempt.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| now >= at)
    }

    /// Counts a failure. After the first one the next attempt may follow at once.
    pub(crate) fn failed(&mut self, now: Instant) {
        if self.failures > 0 {
            let doubled = FIRST.saturating_mul(1 << (self.failures - 1).min(16));
            self.not_before = Some(now + doubled.min(LONGEST));
        }
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let start = Instant::now();
        let mut retry = Retry::default();
        assert!(retry.is_due(start));
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                retry.failed(start);
                let at = retry.not_before.unwrap_or(start);
                (at - start).as_secs()
            })
            .collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert!(!retry.is_due(start + Duration::from_secs(299)));
        assert!(retry.is_due(start + Duration::from_secs(300)));
    }
}
