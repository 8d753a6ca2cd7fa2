//! When a certificate is renewed.

use std::time::{Duration, SystemTime};

use xxhash_rust::xxh3::xxh3_64;

use crate::chain::Chain;

/// The part of its life that a certificate has left at least when it is not renewed yet: nobody wants one of six days to be
/// renewed thirty days before its end.
const SHARE: u32 = 3;
/// How far renewals are spread, as a part of the time before the end.
const SPREAD: f64 = 0.1;

/// When a certificate is to be renewed: so long before it expires, and a bit earlier, by another bit for each. The same
/// certificate has the same time after each restart.
pub(crate) fn renewal(chain: &Chain, before: Duration) -> SystemTime {
    let life = chain.not_after.duration_since(chain.not_before);
    let life = life.unwrap_or_default();
    let before = before.min(life / SHARE);
    let drawn = xxh3_64(chain.serial.as_bytes()) as f64 / u64::MAX as f64;
    let early = before.mul_f64(SPREAD * drawn);
    chain
        .not_after
        .checked_sub(before + early)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn chain(days: u32, serial: &str) -> Chain {
        Chain {
            not_before: SystemTime::UNIX_EPOCH,
            not_after: SystemTime::UNIX_EPOCH + DAY * days,
            serial: serial.to_owned(),
        }
    }

    #[test]
    fn renewals_are_spread_before_the_stated_time() {
        let at = |serial: &str| renewal(&chain(90, serial), 30 * DAY);
        let day = |n| SystemTime::UNIX_EPOCH + DAY * n;
        let all: Vec<SystemTime> = (0..100).map(|n| at(&n.to_string())).collect();
        assert!(all.iter().all(|at| (day(57)..=day(60)).contains(at)));
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert!(distinct.len() > 90);
        assert_eq!(at("1"), at("1"));
    }

    #[test]
    fn a_short_life_is_used_for_the_most_part() {
        let at = renewal(&chain(6, "1"), 30 * DAY);
        assert!(at > SystemTime::UNIX_EPOCH + DAY * 3, "{at:?}");
        assert!(at <= SystemTime::UNIX_EPOCH + DAY * 4, "{at:?}");
    }
}
