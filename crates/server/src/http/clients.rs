//! Connections of a port: how many there may be, and who goes when one comes for whom there is no room.
//!
//! Somebody who holds connections and says nothing must not keep `/ready` from being answered. So there is always room
//! for one more: an idle connection ends for it, or one that has been busy for long, of the peer that has the most.

use std::collections::HashMap;
use std::fs::File;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Connections of the port at once, where the limit on file descriptors allows: not more than a sixteenth of it.
const MOST: usize = 256;
/// So many are served in any case.
const LEAST: usize = 8;
/// After so long a connection with an unanswered request may be ended for another.
const PATIENCE: Duration = Duration::from_secs(2);
/// File descriptors that are kept for connections when all others are used up.
const SPARE: usize = 4;
/// Connections that were ended and have not yet given up their file descriptors: while there are so many, none is accepted.
const ENDING: usize = 8;

/// The connections of a port.
pub(crate) struct Clients {
    most: usize,
    all: Mutex<All>,
    /// A connection has given up its file descriptor, or waits for a request again.
    freed: Notify,
    spare: Mutex<Vec<File>>,
}

#[derive(Default)]
struct All {
    next: u64,
    /// Connections that hold a file descriptor: those that are open, and those that were ended a moment ago.
    held: usize,
    open: HashMap<u64, Client>,
}

struct Client {
    peer: IpAddr,
    busy: bool,
    since: Instant,
    end: CancellationToken,
}

impl Clients {
    pub(crate) fn new() -> Arc<Self> {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        Self::with_room(most(limit))
    }

    fn with_room(most: usize) -> Arc<Self> {
        let clients = Self {
            most,
            all: Mutex::default(),
            freed: Notify::new(),
            spare: Mutex::default(),
        };
        clients.keep_spare();
        Arc::new(clients)
    }

    /// The next connection, with a place; `None` once `stop` says so.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        listener: &TcpListener,
        stop: &CancellationToken,
    ) -> Option<(TcpStream, IpAddr, Connection)> {
        loop {
            let accepted = tokio::select! {
                accepted = async { self.vacancy().await; listener.accept().await } => accepted,
                () = stop.cancelled() => return None,
            };
            let Ok((stream, peer)) = accepted else {
                // Out of file descriptors: accepting again at once would spin.
                if !self.make_room() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                // A connection that was told to end is given the time to.
                tokio::task::yield_now().await;
                continue;
            };
            if let Some(connection) = self.admit(peer.ip()) {
                return Some((stream, peer.ip(), connection));
            }
        }
    }

    /// Resolves while not too many connections are ending and one of those that are open may end. There is one waiter: the
    /// task that accepts; others wait in the system's queue.
    async fn vacancy(&self) {
        loop {
            let wait = {
                let all = self.lock();
                match all.held < self.most + ENDING {
                    true => all.room_in(self.most, Instant::now()),
                    false => PATIENCE,
                }
            };
            if wait.is_zero() {
                return;
            }
            // The time is up, or there is a reason to look.
            let _ = tokio::time::timeout(wait, self.freed.notified()).await;
        }
    }

    /// A place for a connection; where there was none, another connection ends. `None` where none can be ended.
    fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Connection> {
        let mut all = self.lock();
        let now = Instant::now();
        if all.open.len() >= self.most && !all.end_one(now) {
            return None;
        }
        let number = all.next;
        all.next += 1;
        let end = CancellationToken::new();
        let client = Client {
            peer,
            busy: false,
            since: now,
            end: end.clone(),
        };
        all.open.insert(number, client);
        all.held += 1;
        Some(Connection {
            clients: self.clone(),
            number,
            end,
        })
    }

    /// Makes room when there are no file descriptors left; whether one is free now.
    fn make_room(&self) -> bool {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let freed = { spare }.pop().is_some();
        freed || self.lock().end_one(Instant::now())
    }

    fn keep_spare(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        while spare.len() < SPARE {
            let Ok(file) = File::open("/dev/null") else {
                return;
            };
            spare.push(file);
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        // What is changed under the lock is changed at once.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    /// How long it takes until there is room for one more, or one of the connections may end for it.
    fn room_in(&self, most: usize, now: Instant) -> Duration {
        if self.open.len() < most {
            return Duration::ZERO;
        }
        let until_it_may_end = |client: &Client| match client.busy {
            true => PATIENCE.saturating_sub(now.duration_since(client.since)),
            false => Duration::ZERO,
        };
        let all = self.open.values().map(until_it_may_end);
        all.min().unwrap_or(PATIENCE)
    }

    /// Ends the connection that is missed least; whether there is one.
    fn end_one(&mut self, now: Instant) -> bool {
        let mut peers: HashMap<IpAddr, usize> = HashMap::new();
        for client in self.open.values() {
            *peers.entry(client.peer).or_default() += 1;
        }
        let may_end = |c: &Client| !c.busy || now.duration_since(c.since) >= PATIENCE;
        let candidates = self.open.iter().filter(|(_, c)| may_end(c));
        let chosen = candidates.max_by_key(|(number, c)| {
            let share = peers.get(&c.peer).copied().unwrap_or_default();
            (
                !c.busy,
                share,
                now.duration_since(c.since),
                u64::MAX - *number,
            )
        });
        let Some(number) = chosen.map(|(number, _)| *number) else {
            return false;
        };
        if let Some(client) = self.open.remove(&number) {
            client.end.cancel();
        }
        true
    }
}

fn most(descriptors: usize) -> usize {
    (descriptors / 16).clamp(LEAST, MOST)
}

/// A connection among the others, until it is dropped.
pub(crate) struct Connection {
    clients: Arc<Clients>,
    number: u64,
    end: CancellationToken,
}

impl Connection {
    /// Resolves when another connection needs the place.
    pub(crate) async fn ended(&self) {
        self.end.cancelled().await;
    }

    /// A request has come, or its answer has gone.
    pub(crate) fn set_busy(&self, busy: bool) {
        if let Some(client) = self.clients.lock().open.get_mut(&self.number) {
            client.busy = busy;
            client.since = Instant::now();
        }
        if !busy {
            self.clients.freed.notify_one();
        }
    }

    /// How long it has been idle.
    pub(crate) fn idle_for(&self) -> Duration {
        let all = self.clients.lock();
        let client = all.open.get(&self.number).filter(|c| !c.busy);
        client.map_or(Duration::ZERO, |c| c.since.elapsed())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        {
            let mut all = self.clients.lock();
            all.open.remove(&self.number);
            all.held -= 1;
        }
        self.clients.freed.notify_one();
        self.clients.keep_spare();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn is_ended(place: &Connection) -> bool {
        place.end.is_cancelled()
    }

    #[test]
    fn the_oldest_idle_connection_of_the_largest_peer_goes_first() {
        let clients = Clients::with_room(4);
        let admit = |last| clients.admit(peer(last)).unwrap();
        let (other, first, second, third) = (admit(1), admit(2), admit(2), admit(2));
        first.set_busy(true);
        let fifth = admit(3);
        assert!(is_ended(&second));
        let sixth = admit(4);
        assert!(is_ended(&third));
        for place in [&other, &first, &fifth, &sixth] {
            assert!(!is_ended(place));
        }
        drop(other);
        let seventh = admit(5);
        assert!(![&first, &fifth, &sixth, &seventh].into_iter().any(is_ended));
    }

    #[test]
    fn a_busy_connection_is_left_alone_for_a_while() {
        let clients = Clients::with_room(1);
        let first = clients.admit(peer(1)).unwrap();
        first.set_busy(true);
        assert!(clients.admit(peer(2)).is_none());
        if let Some(client) = clients.lock().open.get_mut(&first.number) {
            client.since -= PATIENCE;
        }
        assert!(clients.admit(peer(2)).is_some());
        assert!(is_ended(&first));
    }

    #[tokio::test]
    async fn connections_that_are_ending_are_bounded() {
        let clients = Clients::with_room(2);
        let mut held: Vec<_> = (0..2 + ENDING)
            .filter_map(|_| clients.admit(peer(1)))
            .collect();
        let moment = Duration::from_millis(20);
        let vacancy = || tokio::time::timeout(moment, clients.vacancy());
        assert!(vacancy().await.is_err());
        held.pop();
        assert!(vacancy().await.is_ok());
    }

    #[tokio::test]
    async fn the_next_connection_waits_while_all_are_busy() {
        let clients = Clients::with_room(1);
        let first = clients.admit(peer(1)).unwrap();
        first.set_busy(true);
        let vacancy = |most| tokio::time::timeout(most, clients.vacancy());
        assert!(vacancy(Duration::from_millis(20)).await.is_err());
        assert!(
            vacancy(2 * PATIENCE).await.is_ok(),
            "it has been busy for long"
        );
        first.set_busy(true);
        first.set_busy(false);
        assert!(vacancy(Duration::from_millis(20)).await.is_ok());
    }

    #[test]
    fn there_is_less_room_with_few_descriptors() {
        assert_eq!([64, 128, 1024, 1 << 20].map(most), [8, 8, 64, 256]);
    }

    #[test]
    fn spare_descriptors_are_given_and_kept_again() {
        let clients = Clients::with_room(8);
        for _ in 0..SPARE {
            assert!(clients.make_room());
        }
        assert!(!clients.make_room(), "nothing is left to end");
        drop(clients.admit(peer(1)));
        assert!(clients.make_room());
    }
}
