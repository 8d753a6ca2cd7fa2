//! A wire to an API server that can be cut, stretched, and made to swallow what is sent.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Clone, Copy, Default)]
struct State {
    /// No byte gets through.
    swallows: bool,
    /// Connections with lower numbers stay open, and no byte gets through on them any more.
    dead_below: u64,
    /// Connections with lower numbers are reset.
    reset_below: u64,
    /// The number of the next connection.
    next: u64,
    /// How long each piece takes.
    delay: Duration,
}

/// A proxy for TCP. It ends when this is dropped.
pub struct Wire {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    accepting: JoinHandle<()>,
}

impl Wire {
    /// A wire to an address.
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(watch::Sender::new(State::default()));
        let accepting = tokio::spawn(accept(listener, server, state.clone()));
        Self {
            address,
            state,
            accepting,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resets every connection.
    pub fn reset(&self) {
        self.state.send_modify(|s| s.reset_below = s.next);
    }

    /// Whether it swallows everything. Connections of before and of meanwhile stay dead afterwards.
    pub fn swallow(&self, on: bool) {
        self.state.send_modify(|s| {
            s.swallows = on;
            s.dead_below = s.next;
        });
    }

    /// How long each piece takes.
    pub fn slow(&self, delay: Duration) {
        self.state.send_modify(|s| s.delay = delay);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
        self.reset();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, state: Arc<watch::Sender<State>>) {
    while let Ok((client, _)) = listener.accept().await {
        let mut number = 0;
        state.send_modify(|s| {
            number = s.next;
            s.next += 1;
        });
        tokio::spawn(join(client, server, number, state.subscribe()));
    }
}

async fn join(client: TcpStream, server: SocketAddr, number: u64, state: watch::Receiver<State>) {
    // What is left when one end goes is dropped: the other sees a reset.
    client.set_zero_linger().unwrap();
    let mut resets = state.clone();
    let through = async {
        let server = TcpStream::connect(server).await?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            ended = pass(from_client, to_server, number, state.clone()) => ended,
            ended = pass(from_server, to_client, number, state.clone()) => ended,
        }
    };
    tokio::select! {
        _ = through => {}
        _ = resets.wait_for(|s| number < s.reset_below) => {}
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: u64,
    state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut piece = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut piece).await?;
        let now = *state.borrow();
        if now.swallows || number < now.dead_below {
            return pending().await;
        }
        if !now.delay.is_zero() {
            tokio::time::sleep(now.delay).await;
        }
        if length == 0 {
            return Ok(());
        }
        to.write_all(&piece[..length]).await?;
    }
}
