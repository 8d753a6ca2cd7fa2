//! The rate of new streams, over all clients and for each address.
//!
//! A fleet that reconnects is a burst, and is let in at once; who keeps opening streams is held to the rate. One address
//! gets half of it, so that it leaves as much for all others.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use model::peer::network_of;
use tokio::time::Instant;

/// Addresses above which those that wait for nothing are forgotten.
const ADDRESSES: usize = 4096;

/// Lets streams in at a rate, a burst of them at once, and refuses those that would wait too long.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Between two streams; `None` is no limit.
    gap: Option<Duration>,
    /// What of the rate may be used ahead of time.
    burst: Duration,
    max_wait: Duration,
    used: Mutex<Used>,
}

/// Up to when the rate is used up: by all, and by each address.
#[derive(Debug, Default)]
struct Used {
    all: Option<Instant>,
    by: HashMap<IpAddr, Instant>,
    /// Addresses at which the idle ones are looked for.
    limit: usize,
}

impl Admission {
    /// So many a second, and as many at once as come in the time `burst`. A rate of zero or less means no limit.
    pub(crate) fn new(per_second: Option<f64>, burst: Duration, max_wait: Duration) -> Self {
        let gap = per_second
            .filter(|r| *r > 0.0)
            .map(|r| Duration::from_secs_f64(1.0 / r));
        Self {
            gap,
            burst,
            max_wait,
            used: Mutex::default(),
        }
    }

    /// Takes the next place for a client at this address: how long to wait for it, or `None` if that is too long (the place
    /// stays free).
    pub(crate) fn reserve(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let Some(gap) = self.gap else {
            return Some(Duration::ZERO);
        };
        let address = network_of(address);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let all = used.all.map_or(now, |at| at.max(now));
        let own = used.by.get(&address).map_or(now, |at| (*at).max(now));
        let wait = all.max(own).duration_since(now).saturating_sub(self.burst);
        if wait > self.max_wait {
            return None;
        }
        used.all = Some(all + gap);
        if used.by.len() >= used.limit.max(ADDRESSES) {
            used.by.retain(|_, at| *at > now);
            used.limit = 2 * used.by.len();
        }
        used.by.insert(address, own + 2 * gap);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn streams_are_spaced_and_the_late_refused() {
        let admission = Admission::new(Some(10.0), ZERO, Duration::from_millis(250));
        let now = Instant::now();
        let waits: Vec<_> = (0..4)
            .map(|n| admission.reserve(address(n), now).map(|w| w.as_millis()))
            .collect();
        assert_eq!(waits, [Some(0), Some(100), Some(200), None]);
        let later = now + Duration::from_millis(400);
        assert_eq!(admission.reserve(address(9), later), Some(ZERO));
        let unlimited = Admission::new(None, ZERO, ZERO);
        assert_eq!(unlimited.reserve(address(1), now), Some(ZERO));
    }

    #[test]
    fn one_address_uses_half_of_the_rate_and_a_fleet_comes_at_once() {
        let burst = Duration::from_secs(4);
        let admission = Admission::new(Some(5_000.0), burst, ZERO);
        let now = Instant::now();
        let let_in = |address, now| {
            let tries = (0..30_000).map(|_| admission.reserve(address, now));
            tries.filter(|wait| *wait == Some(ZERO)).count()
        };
        let fleet = let_in(address(1), now);
        assert!((10_000..10_002).contains(&fleet), "{fleet}");
        // Others are served while it is not, and it gets half of what a second brings.
        let others = let_in(address(2), now);
        assert!((9_999..10_002).contains(&others), "{others}");
        let later = now + Duration::from_secs(1);
        let again = let_in(address(1), later);
        assert!((2_499..2_502).contains(&again), "{again}");
    }

    #[test]
    fn an_address_of_ipv6_is_its_network_and_idle_addresses_are_forgotten() {
        let admission = Admission::new(Some(1e6), ZERO, Duration::from_secs(1));
        let now = Instant::now();
        for last in 0..20_000u128 {
            let v6 = std::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | last);
            admission.reserve(v6.into(), now);
        }
        assert_eq!(admission.used.lock().unwrap().by.len(), 1);
        for n in 0..50_000u32 {
            let at = now + Duration::from_millis(n.into());
            admission.reserve(IpAddr::V4(n.into()), at);
        }
        let known = admission.used.lock().unwrap().by.len();
        assert!(known <= ADDRESSES, "{known}");
    }
}
