//! Who is connected: how many connections there are, in all and from one address, how many of them are shaking hands, and how
//! much of unfinished requests is kept for them.
//!
//! An address has a share of each, so that one alone cannot take everything. It is a large share, for behind one address
//! there may be a fleet (a NAT, a node that many proxies run on, a load test).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use model::peer::network_of;

/// Limits on what all clients have, and what those of one address have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) connections: usize,
    pub(super) of_one_address: usize,
    /// Bytes of unfinished requests.
    pub(super) partial: usize,
    /// Handshakes that are under way.
    pub(super) handshakes: usize,
}

/// Why a connection is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Full {
    #[error("there are {0} connections, which is the limit")]
    All(usize),
    #[error("there are {0} connections from its address, which is the limit")]
    Address(usize),
}

/// All clients.
#[derive(Debug)]
pub(super) struct Peers {
    limits: Limits,
    /// Bytes of unfinished requests, of all.
    partial: AtomicUsize,
    /// Handshakes, of all.
    handshakes: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    connections: usize,
    // Clients choose their addresses: with the keyed hasher.
    peers: HashMap<IpAddr, (usize, Arc<Peer>)>,
}

/// The clients of one address; of IPv6, of one network of 64 bits, since whoever has one of its addresses has all.
#[derive(Debug)]
pub(super) struct Peer {
    network: IpAddr,
    partial: AtomicUsize,
    handshakes: AtomicUsize,
    peers: Arc<Peers>,
}

/// A connection's place, for as long as it lives.
#[derive(Debug)]
pub(super) struct Seat(Arc<Peer>);

/// A place for a handshake.
#[derive(Debug)]
pub(super) struct Shaking(Arc<Peer>);

impl Drop for Shaking {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
        self.0.peers.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place for an unfinished request.
#[derive(Debug)]
pub(super) struct Claim {
    peer: Arc<Peer>,
    bytes: usize,
}

impl Peers {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            partial: AtomicUsize::new(0),
            handshakes: AtomicUsize::new(0),
            table: Mutex::default(),
        })
    }

    fn table<R>(&self, act: impl FnOnce(&mut Table) -> R) -> R {
        act(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A place for one connection more.
    ///
    /// # Errors
    /// All are taken.
    pub(super) fn seat(self: &Arc<Self>, address: IpAddr) -> Result<Seat, Full> {
        let network = network_of(address);
        let Limits {
            connections: all,
            of_one_address: share,
            ..
        } = self.limits;
        self.table(|table| {
            if table.connections >= all {
                return Err(Full::All(all));
            }
            let (count, peer) = table.peers.entry(network).or_insert_with(|| {
                let peer = Peer {
                    network,
                    partial: AtomicUsize::new(0),
                    handshakes: AtomicUsize::new(0),
                    peers: Arc::clone(self),
                };
                (0, Arc::new(peer))
            });
            if *count >= share {
                return Err(Full::Address(share));
            }
            *count += 1;
            table.connections += 1;
            Ok(Seat(Arc::clone(peer)))
        })
    }
}

impl Seat {
    /// Whose it is.
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.peers.table(|table| {
            table.connections -= 1;
            if let Some((count, _)) = table.peers.get_mut(&self.0.network) {
                *count -= 1;
                if *count == 0 {
                    table.peers.remove(&self.0.network);
                }
            }
        });
    }
}

impl Peer {
    /// A place for a handshake, if there is one: an address may have as many as are left for others.
    pub(super) fn shake(self: &Arc<Self>) -> Option<Shaking> {
        let (all, limit) = (&self.peers.handshakes, self.peers.limits.handshakes);
        let ours = self.handshakes.load(Ordering::Relaxed);
        let fits = |taken: usize| {
            let after = taken + 1;
            (after <= limit && (ours == 0 || ours < limit - after)).then_some(after)
        };
        all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        self.handshakes.fetch_add(1, Ordering::Relaxed);
        Some(Shaking(Arc::clone(self)))
    }

    /// A place for a request of so many bytes, if there is one: an address may have as much as is left for others. So one has
    /// at most half, and whoever comes next still has half of the rest.
    pub(super) fn claim(self: &Arc<Self>, bytes: usize) -> Option<Claim> {
        let (all, limit) = (&self.peers.partial, self.peers.limits.partial);
        let ours = self.partial.load(Ordering::Relaxed);
        let fits = |taken: usize| {
            let after = taken.checked_add(bytes).filter(|after| *after <= limit)?;
            // One request is served whatever its share is.
            (ours == 0 || ours + bytes <= limit - after).then_some(after)
        };
        all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        self.partial.fetch_add(bytes, Ordering::Relaxed);
        Some(Claim {
            peer: Arc::clone(self),
            bytes,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.peer.partial.fetch_sub(self.bytes, Ordering::Relaxed);
        let all = &self.peer.peers.partial;
        all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(connections: usize, of_one_address: usize) -> Arc<Peers> {
        Peers::new(Limits {
            connections,
            of_one_address,
            partial: 1000,
            handshakes: 20,
        })
    }

    fn at(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_share_and_no_more() {
        let peers = peers(4, 2);
        let first = peers.seat(at("10.0.0.1")).unwrap();
        let _second = peers.seat(at("::ffff:10.0.0.1")).unwrap();
        assert_eq!(
            peers.seat(at("10.0.0.1")).unwrap_err(),
            Full::Address(2),
            "the same address, written otherwise"
        );
        let _third = peers.seat(at("2001:db8::1")).unwrap();
        let _fourth = peers.seat(at("2001:db8::2:0:0:1")).unwrap();
        assert_eq!(peers.seat(at("10.0.0.2")).unwrap_err(), Full::All(4));
        drop(first);
        assert_eq!(
            peers.seat(at("2001:db8::3")).unwrap_err(),
            Full::Address(2),
            "one network of 64 bits"
        );
        let _again = peers.seat(at("10.0.0.1")).unwrap();
    }

    #[test]
    fn one_address_leaves_handshakes_to_others() {
        let peers = peers(100, 100);
        let seats = ["10.0.0.1", "10.0.0.2"].map(|a| peers.seat(at(a)).unwrap());
        let [first, second] = seats.each_ref().map(Seat::peer);
        let all = |peer: &Arc<Peer>| -> Vec<Shaking> {
            std::iter::from_fn(|| peer.shake()).take(100).collect()
        };
        let of_first = all(first);
        let of_second = all(second);
        assert_eq!((of_first.len(), of_second.len()), (10, 5));
        drop((of_first, of_second));
        assert_eq!(peers.handshakes.load(Ordering::Relaxed), 0);
        assert_eq!(all(second).len(), 10);
    }

    #[test]
    fn nothing_is_left_of_those_who_went() {
        let peers = peers(10_000, 10_000);
        for n in 0..1000u32 {
            drop(peers.seat(IpAddr::from(n.to_be_bytes())).unwrap());
        }
        assert!(peers.table(|t| t.peers.is_empty() && t.connections == 0));
    }

    #[test]
    fn no_address_claims_what_the_next_one_needs() {
        let peers = peers(100, 100);
        let seats = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|a| peers.seat(at(a)).unwrap());
        let [first, second, third] = seats.each_ref().map(Seat::peer);
        let all = |peer: &Arc<Peer>| -> Vec<Claim> {
            std::iter::from_fn(|| peer.claim(50)).take(100).collect()
        };
        let of_first = all(first);
        let of_second = all(second);
        let of_third = all(third);
        let lens = [&of_first, &of_second, &of_third].map(Vec::len);
        assert_eq!(lens, [10, 5, 2]);
        assert!(first.claim(1001).is_none());
        drop((of_first, of_second, of_third));
        assert_eq!(peers.partial.load(Ordering::Relaxed), 0);
        let _whole = first.claim(1000).unwrap();
        assert!(second.claim(1).is_none());
    }
}
