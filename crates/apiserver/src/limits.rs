//! What clients of the API may hold at once, and how long they may take.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Limits of the API port. The defaults leave room for every use that [`crate`] is made for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one address at once; of IPv6 the first 64 bits are an address.
    pub connections_per_peer: usize,
    /// Requests of one user at once that are no watches; more get 429. Members of `system:masters` are exempt, as with the
    /// watches of one user.
    pub requests_per_user: usize,
    /// Watches at once; more get 429.
    pub watches: usize,
    /// Watches of one user at once; more get 429.
    pub watches_per_user: usize,
    /// Bytes of all bodies that are read or worked on at once; more get 429.
    pub body_bytes: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a connection may take to its first request.
    pub first_request: Duration,
    /// How long the head of a request of HTTP/1 may take, from the end of the answer before.
    pub headers: Duration,
    /// How long a body may take.
    pub body: Duration,
    /// How long a connection is kept on which nothing is asked.
    pub idle: Duration,
    /// How long a client may take none of its answer.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_peer: 2_500,
            requests_per_user: 400,
            watches: 10_000,
            watches_per_user: 2_500,
            body_bytes: 256 << 20,
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(10),
            headers: Duration::from_secs(30),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(180),
            stall: Duration::from_secs(60),
        }
    }
}

/// Counts what each of many holds, and all together.
#[derive(Debug)]
pub(crate) struct Shares<K: Eq + Hash>(Arc<Counts<K>>);

#[derive(Debug)]
struct Counts<K> {
    all: usize,
    each: usize,
    held: Mutex<(usize, HashMap<K, usize>)>,
}

/// One of what is counted; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Eq + Hash> {
    of: Arc<Counts<K>>,
    key: K,
    amount: usize,
}

impl<K: Eq + Hash + Clone> Shares<K> {
    /// At most `all`, and `each` for one.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self(Arc::new(Counts {
            all,
            each,
            held: Mutex::default(),
        }))
    }

    /// Takes one, if there is one left for `key`.
    pub(crate) fn take(&self, key: K) -> Option<Share<K>> {
        self.take_many(key, 1)
    }

    /// Takes one, if there is one left at all.
    pub(crate) fn take_exempt(&self, key: K) -> Option<Share<K>> {
        self.take_up_to(key, 1, usize::MAX)
    }

    /// Takes many, if there are as many left for `key`.
    pub(crate) fn take_many(&self, key: K, amount: usize) -> Option<Share<K>> {
        self.take_up_to(key, amount, self.0.each)
    }

    fn take_up_to(&self, key: K, amount: usize, each: usize) -> Option<Share<K>> {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_key) = &mut *held;
        let own = by_key.get(&key).copied().unwrap_or(0);
        if *all + amount > self.0.all || own + amount > each {
            return None;
        }
        *all += amount;
        by_key.insert(key.clone(), own + amount);
        let of = self.0.clone();
        Some(Share { of, key, amount })
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = self.of.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.0 = held.0.saturating_sub(self.amount);
        if let Some(own) = held.1.get_mut(&self.key) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                held.1.remove(&self.key);
            }
        }
    }
}

/// Whose connections are counted together.
pub(crate) fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            // Whoever has one address of a network has all of them.
            let network = v6.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_more_than_their_share() {
        let shares = Shares::new(5, 3);
        let mut held: Vec<_> = (0..3).map(|_| shares.take("a").unwrap()).collect();
        assert!(shares.take("a").is_none());
        let other = [shares.take("b").unwrap(), shares.take("b").unwrap()];
        assert!(shares.take("b").is_none(), "all are taken");
        held.pop();
        assert!(shares.take_many("b", 2).is_none());
        assert!(shares.take("c").is_some());
        drop((held, other));
        let counts = shares.0.held.lock().unwrap();
        assert!(counts.0 == 0 && counts.1.is_empty(), "nothing is kept");
    }

    #[test]
    fn a_network_is_one_peer() {
        let of = |text: &str| peer(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
