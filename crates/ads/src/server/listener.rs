//! Listening for connections, and accepting them.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use socket2::{Domain, Protocol as IpProtocol, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::Client;
use super::peers::Seat;
use super::secure::{Current, Failure, HandshakeError, Secure, Threads, certificates, shake};
use super::socket::Socket;
use super::subscriber::Incident;
use super::{Server, sweep};

/// How long to wait when the system has nothing left for another connection. Accepting again at once would spin.
const PAUSE: Duration = Duration::from_millis(50);
/// What happens again and again is told this often.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Listens with a backlog that survives the reconnect of a whole fleet.
///
/// # Errors
/// Those of the socket calls: the address is in use or not ours.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(IpProtocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    TcpListener::from_std(socket.into())
}

/// Where connections come from.
pub enum Door {
    /// As they are.
    Plaintext(TcpListener),
    /// Encrypted.
    Secure(Secure),
}

/// Accepts connections at each of the doors, which may be opened later, until `stop`; then drains them. Returns when every
/// connection has ended.
pub async fn serve(doors: impl Stream<Item = Door>, server: Arc<Server>, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    tasks.spawn(sweep(Arc::clone(&server), stop.clone()));
    let mut doors = pin!(doors);
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(door) = doors.next() => open.push(stand_at(door, &server, &tasks, &stop)),
            Some(()) = open.next() => {}
            () = stop.cancelled() => break,
        }
    }
    while open.next().await.is_some() {}
    drop(open);
    server.links.drain();
    tasks.close();
    tasks.wait().await;
}

/// Accepts at one door until `stop`.
async fn stand_at(door: Door, server: &Arc<Server>, tasks: &TaskTracker, stop: &CancellationToken) {
    let Secure {
        listener,
        mut tls,
        threads,
    } = match door {
        Door::Secure(secure) => secure,
        Door::Plaintext(listener) => {
            let begin = |accepted| begin_plaintext(server, tasks, accepted);
            return accept(&listener, server, stop, begin).await;
        }
    };
    tokio::select! {
        known = tls.wait_for(Option::is_some) => if known.is_err() {
            return;
        },
        () = stop.cancelled() => return,
    }
    let judging = judge_again(server, tls.clone(), &threads, tasks);
    let begin = |accepted| begin_secure(server, tasks, &tls, &threads, accepted);
    tokio::select! {
        () = accept(&listener, server, stop, begin) => {}
        () = judging => {}
    }
}

/// A connection that has its place.
struct Accepted {
    socket: TcpStream,
    peer: SocketAddr,
    seat: Seat,
}

/// Accepts until `stop`, and has what is accepted begun.
async fn accept(
    listener: &TcpListener,
    server: &Server,
    stop: &CancellationToken,
    begin: impl Fn(Accepted),
) {
    let (mut refusals, mut failures) = (Repeated::default(), Repeated::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_client(&error) => continue,
            Err(error) => {
                server.subscriber.on_incident(Incident::AcceptFailed);
                if let Some(times) = failures.tell() {
                    tracing::warn!(%error, times, "Cannot accept connections.");
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        match server.peers.seat(peer.ip()) {
            Ok(seat) => begin(Accepted { socket, peer, seat }),
            Err(reason) => {
                server.subscriber.on_incident(Incident::ConnectionRefused);
                if let Some(times) = refusals.tell() {
                    tracing::warn!(%peer, %reason, times, "Connections were refused.");
                }
            }
        }
    }
}

fn begin_plaintext(server: &Arc<Server>, tasks: &TaskTracker, accepted: Accepted) {
    let Accepted { socket, peer, seat } = accepted;
    let shared = Arc::clone(server);
    server.workers.spawn(tasks, move |thread| async move {
        // It was known to this thread, and is to be known to the other.
        match socket.into_std().and_then(Socket::new) {
            Ok(socket) => {
                let client = Client::plaintext(peer);
                shared.connection(socket, client, seat, thread).await;
            }
            Err(error) => tracing::debug!(%peer, %error, "Cannot serve a connection."),
        }
    });
}

/// Shakes hands on a thread for that, then serves on another.
fn begin_secure(
    server: &Arc<Server>,
    tasks: &TaskTracker,
    tls: &Current,
    threads: &Threads,
    accepted: Accepted,
) {
    let Accepted { socket, peer, seat } = accepted;
    let wait = server.handshakes.reserve(peer.ip(), Instant::now());
    let (Some(wait), Some(place)) = (wait, seat.peer().shake()) else {
        server.subscriber.on_incident(Incident::HandshakeRefused);
        return;
    };
    let (shared, tracked, tls) = (Arc::clone(server), tasks.clone(), tls.clone());
    threads.spawn(tasks, move |turns| async move {
        let incident = |incident| shared.subscriber.on_incident(incident);
        incident(Incident::HandshakeBegan);
        tokio::time::sleep(wait).await;
        let shaking = async {
            let tls = tls.borrow().clone().ok_or(HandshakeError::Gone)?;
            shake(Socket::new(socket.into_std()?)?, &tls, &turns).await
        };
        let shaken = tokio::time::timeout(shared.options.frame_timeout, shaking).await;
        drop(place);
        let shaken = shaken.unwrap_or_else(|_| Err(HandshakeError::Slow.into()));
        let outcome = shaken.as_ref().map(|_| ()).map_err(|failure| failure.error);
        incident(Incident::HandshakeEnded(outcome));
        let stream = match shaken {
            Ok(stream) => stream,
            Err(Failure { error, cause }) => {
                let cause = cause.map(|cause| cause.to_string());
                tracing::debug!(%peer, %error, cause, "No handshake.");
                return;
            }
        };
        let client = Client {
            peer,
            certificates: Some(certificates(&stream)),
        };
        let Ok(stream) = stream.detach() else {
            return;
        };
        let server = Arc::clone(&shared);
        shared.workers.spawn(&tracked, move |thread| async move {
            match stream.attach() {
                Ok(stream) => server.connection(stream, client, seat, thread).await,
                Err(error) => tracing::debug!(%peer, %error, "Cannot serve a connection."),
            }
        });
    });
}

/// Whenever it changes whom clients are judged by, ends the connections of those who would not be let in any more.
async fn judge_again(
    server: &Arc<Server>,
    mut tls: Current,
    threads: &Threads,
    tasks: &TaskTracker,
) {
    while tls.changed().await.is_ok() {
        let Some(tls) = tls.borrow_and_update().clone() else {
            continue;
        };
        let server = Arc::clone(server);
        threads.spawn(tasks, move |_| async move {
            // Then once more: handshakes may have been under way.
            for wait in [Duration::ZERO, server.options.frame_timeout] {
                tokio::time::sleep(wait).await;
                for link in server.links.all() {
                    if link.certificates().is_some_and(|all| !tls.trusts(all)) {
                        link.expire();
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    // It stays as it is.
    std::future::pending().await
}

/// Whether a client is the reason: it has gone before it was accepted.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

/// Something that may happen thousands of times a second.
#[derive(Debug, Default)]
struct Repeated {
    told: Option<Instant>,
    times: u64,
}

impl Repeated {
    /// It happened. How many times since it was last told, if it is to be told.
    fn tell(&mut self) -> Option<u64> {
        self.times += 1;
        if self.told.is_some_and(|told| told.elapsed() < TELL_EVERY) {
            return None;
        }
        self.told = Some(Instant::now());
        Some(std::mem::take(&mut self.times))
    }
}
