//! One connection: which call goes where, and how it ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http2::{Connection, Waits};
use tokio::io::{AsyncRead, AsyncWrite};

use super::calls::Calls;
use super::client::Client;
use super::link::{Link, Liveness, Order};
use super::peers::Seat;
use super::subscriber::Incident;
use super::workers::Thread;
use super::{Deadlines, Server};

/// How a connection ended that did not end by itself.
enum End {
    /// The server is shutting down, the client's identity has expired, or the connection is old.
    Drain,
    /// The client takes in nothing.
    Stalled,
    /// The client does not even answer pings.
    Silent,
    /// The client does not finish what it began.
    Slow,
    /// The client asks for nothing.
    Idle,
}

/// Whether the client is late with something. If it is not, the connection is looked at again when it would be.
fn late(waits: Waits, deadlines: &Deadlines, link: &Link) -> Option<End> {
    let now = link.now();
    let passed = |since: Option<u32>, limit: u32| {
        let Some(since) = since else {
            return false;
        };
        let passed = now.wrapping_sub(since) > limit;
        if !passed {
            link.wake_after(since, limit);
        }
        passed
    };
    if passed(waits.unfinished, deadlines.frame) {
        return Some(End::Slow);
    }
    if passed(link.claimed(), deadlines.answer) {
        return Some(End::Slow);
    }
    if passed(waits.room, deadlines.answer) {
        return Some(End::Stalled);
    }
    passed(waits.call, deadlines.request).then_some(End::Idle)
}

impl Server {
    /// Serves one connection, encrypted or not, until it ends or the server drains.
    pub(super) async fn connection<I>(
        self: Arc<Self>,
        io: I,
        client: Client,
        seat: Seat,
        thread: Thread,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.subscriber.on_incident(Incident::ConnectionOpened);
        let (peer, certificates) = (client.peer, client.certificates.clone());
        let entry = self.links.enter(Arc::clone(seat.peer()), certificates);
        let link = &entry.link;
        let calls = Calls::new(Arc::clone(&self), client, Arc::clone(link), thread);
        let mut connection = Connection::new(io, calls);
        let (mut known, mut reads, mut asked) = (None, 0, false);
        let served = poll_fn(|cx| {
            link.watch(&mut known, cx);
            match link.order() {
                Order::Serve => {}
                Order::Retire | Order::Expire | Order::Drain => {
                    return Poll::Ready(Err(End::Drain));
                }
                Order::Close => return Poll::Ready(Err(End::Stalled)),
            }
            connection.tell(link.now());
            let mut polled = Pin::new(&mut connection).poll(cx);
            if connection.reads() != reads {
                reads = connection.reads();
                asked = false;
                link.heard();
            }
            match link.liveness() {
                Liveness::Alive => {}
                Liveness::Lost => return Poll::Ready(Err(End::Silent)),
                Liveness::Ping if polled.is_pending() && !asked => {
                    asked = true;
                    connection.ping();
                    polled = Pin::new(&mut connection).poll(cx);
                }
                Liveness::Ping => {}
            }
            if polled.is_pending()
                && let Some(end) = late(connection.waits(), &self.deadlines, link)
            {
                return Poll::Ready(Err(end));
            }
            polled.map(Ok)
        });
        let result = match served.await {
            Ok(result) => result,
            Err(End::Stalled) => {
                self.subscriber.on_incident(Incident::SendTimedOut);
                Ok(())
            }
            Err(End::Silent) => {
                tracing::debug!(%peer, "A client does not answer pings.");
                Ok(())
            }
            Err(End::Slow) => {
                self.subscriber.on_incident(Incident::ReceiveTimedOut);
                tracing::debug!(%peer, "A client does not finish its request.");
                Ok(())
            }
            Err(End::Drain | End::Idle) => {
                // Streams are told the same and end themselves.
                connection.drain();
                tokio::time::timeout(self.options.drain_timeout, &mut connection)
                    .await
                    .unwrap_or(Ok(()))
            }
        };
        if let Err(error) = result {
            tracing::debug!(%peer, %error, "Connection ended.");
        }
        self.subscriber.on_incident(Incident::ConnectionClosed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::link::{KeepAlive, Links};
    use super::super::peers::{Limits, Peers};
    use super::*;

    #[test]
    fn a_place_is_not_kept_by_a_call_that_nobody_asks() {
        let peers = Peers::new(Limits {
            connections: 1,
            of_one_address: 1,
            partial: 1000,
            handshakes: 1,
        });
        let seat = peers.seat(Ipv4Addr::LOCALHOST.into()).unwrap();
        let links = Links::new(KeepAlive::new(100, 100), None);
        let entry = links.enter(Arc::clone(seat.peer()), None);
        let deadlines = Deadlines {
            frame: 1,
            request: 2,
            answer: 4,
        };
        let late = || late(Waits::default(), &deadlines, &entry.link);
        let held = entry.link.claim(1000).unwrap();
        for _ in 0..4 {
            links.tick();
            assert!(late().is_none());
        }
        links.tick();
        assert!(matches!(late(), Some(End::Slow)));
        drop(held);
        assert!(late().is_none());
        let _held = entry.link.claim(1000).unwrap();
        assert!(late().is_none(), "another one");
    }
}
