//! The rate of new streams.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Spaces new streams evenly and refuses those that would wait too long.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Between two streams; `None` is no limit.
    gap: Option<Duration>,
    max_wait: Duration,
    next: Mutex<Option<Instant>>,
}

impl Admission {
    /// A rate of zero or less means no limit.
    pub(crate) fn new(per_second: Option<f64>, max_wait: Duration) -> Self {
        let gap = per_second
            .filter(|r| *r > 0.0)
            .map(|r| Duration::from_secs_f64(1.0 / r));
        Self {
            gap,
            max_wait,
            next: Mutex::new(None),
        }
    }

    /// Takes the next place: how long to wait for it, or `None` if that is too long (the place stays free).
    pub(crate) fn reserve(&self, now: Instant) -> Option<Duration> {
        let Some(gap) = self.gap else {
            return Some(Duration::ZERO);
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let at = next.map_or(now, |n| n.max(now));
        let wait = at - now;
        if wait > self.max_wait {
            return None;
        }
        *next = Some(at + gap);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_spaced_and_the_late_refused() {
        let admission = Admission::new(Some(10.0), Duration::from_millis(250));
        let now = Instant::now();
        let waits: Vec<_> = (0..4)
            .map(|_| admission.reserve(now).map(|w| w.as_millis()))
            .collect();
        assert_eq!(waits, [Some(0), Some(100), Some(200), None]);
        assert_eq!(
            admission.reserve(now + Duration::from_millis(400)),
            Some(Duration::ZERO)
        );
        assert_eq!(
            Admission::new(None, Duration::ZERO).reserve(now),
            Some(Duration::ZERO)
        );
    }
}
