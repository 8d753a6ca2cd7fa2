//! How long whatever failed waits before it is tried again.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

/// Waits that double with each further failure, up to a limit.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Backoff {
    /// The wait after so many failures before this one: 75 to 125 percent of it, so that those that failed together do not
    /// start together.
    pub fn wait(&self, who: &impl Hash, failures: u32) -> Duration {
        let doubled = self
            .first
            .saturating_mul(2_u32.saturating_pow(failures.min(16)));
        let random = RandomState::new().hash_one(who) % 1024;
        let wait = doubled.min(self.longest);
        wait.mul_f64(0.75 + 0.5 * random as f64 / 1024.0)
    }
}

/// A wait of 90 to 110 percent, so that what began together does not stay together.
pub fn spread(wait: Duration, random: u64) -> Duration {
    wait.mul_f64(0.9 + 0.2 * (random % 1024) as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        let backoff = Backoff {
            first: Duration::from_millis(500),
            longest: Duration::from_secs(60),
        };
        for (failures, wanted) in [
            (0, 0.5),
            (1, 1.0),
            (2, 2.0),
            (6, 32.0),
            (7, 60.0),
            (1000, 60.0),
        ] {
            let waits = backoff.wait(&"a", failures).as_secs_f64();
            assert!(
                (wanted * 0.74..wanted * 1.26).contains(&waits),
                "{failures}: {waits}"
            );
        }
    }
}
