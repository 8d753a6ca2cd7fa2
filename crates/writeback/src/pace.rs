//! How often something may be done.

use std::time::Duration;

use tokio::time::Instant;

/// So many a second, and some more after a quiet time.
pub(crate) struct Pace {
    per_second: f64,
    burst: f64,
    left: f64,
    at: Instant,
}

impl Pace {
    /// From here on.
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            per_second: per_second.max(0.001),
            burst,
            left: burst,
            at: Instant::now(),
        }
    }

    /// Whether one may be done now, which it then is.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.burst);
        self.at = now;
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }

    /// When the next may be taken.
    pub(crate) fn next(&self) -> Instant {
        let missing = (1.0 - self.left).max(0.0);
        // A millisecond more, so that rounding does not make it come too early.
        let wait = match missing > 0.0 {
            true => Duration::from_secs_f64(missing / self.per_second) + Duration::from_millis(1),
            false => Duration::ZERO,
        };
        self.at + wait
    }
}
