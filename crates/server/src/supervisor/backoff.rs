//! How long a source that failed waits.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use model::Owner;

/// The first wait; it doubles with each further failure.
const FIRST: Duration = Duration::from_millis(500);

/// The longest wait. A run that lasted as long makes a new start of the count.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// The wait after so many failures before this one: 75 to 125 percent of it, so that sources that failed together do not
/// start together.
pub(super) fn wait(owner: &Owner, failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(2_u32.saturating_pow(failures.min(16)));
    let random = RandomState::new().hash_one(owner) % 1024;
    let wait = doubled.min(LONGEST);
    wait.mul_f64(0.75 + 0.5 * random as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        let owner = Owner::new(0, "a");
        for (failures, wanted) in [
            (0, 0.5),
            (1, 1.0),
            (2, 2.0),
            (6, 32.0),
            (7, 60.0),
            (1000, 60.0),
        ] {
            let waits = wait(&owner, failures).as_secs_f64();
            assert!(
                (wanted * 0.74..wanted * 1.26).contains(&waits),
                "{failures}: {waits}"
            );
        }
    }
}
