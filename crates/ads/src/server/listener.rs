//! Listening for connections, and accepting them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol as IpProtocol, Type};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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

/// Accepts plaintext connections until `stop`, then drains them. Returns when every connection has ended.
pub async fn serve(listener: TcpListener, server: Arc<Server>, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    tasks.spawn(sweep(Arc::clone(&server), stop.clone()));
    let (mut refusals, mut failures) = (Repeated::default(), Repeated::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
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
        let seat = match server.peers.seat(peer.ip()) {
            Ok(seat) => seat,
            Err(reason) => {
                server.subscriber.on_incident(Incident::ConnectionRefused);
                if let Some(times) = refusals.tell() {
                    tracing::warn!(%peer, %reason, times, "Connections were refused.");
                }
                continue;
            }
        };
        let shared = Arc::clone(&server);
        server.workers.spawn(&tasks, move |thread| async move {
            // It was known to this thread, and is to be known to the other.
            match socket.into_std().and_then(Socket::new) {
                Ok(socket) => shared.connection(socket, peer, seat, thread).await,
                Err(error) => tracing::debug!(%peer, %error, "Cannot serve a connection."),
            }
        });
    }
    drop(listener);
    server.links.drain();
    tasks.close();
    tasks.wait().await;
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
