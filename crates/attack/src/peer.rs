//! An attacker's connection: sends what it is told to, keeps to the server's windows where asked, and counts what
//! comes back.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::wire::{self, Frame, Frames};

/// Where attackers connect from: one client, and another than the honest proxies, which have an address each.
pub const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 66, 6, 6);

/// How long a server may take nothing in until the attacker gives the connection up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Anything that octets go over.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

/// Connects from a loopback address of one's own.
///
/// # Errors
/// Those of connecting, and a timeout of five seconds.
pub async fn connect(to: SocketAddr, from: Ipv4Addr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = timeout(PATIENCE, socket.connect(to)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What the server told.
#[derive(Debug, Default)]
pub struct Told {
    /// Whether the connection is over.
    pub closed: AtomicBool,
    /// Whether it was told to go away.
    pub goaway: AtomicBool,
    /// Streams that were reset.
    pub resets: AtomicU64,
    /// Streams that ended with trailers.
    pub ended: AtomicU64,
    /// Answers to pings and settings.
    pub answers: AtomicU64,
    /// Octets of bodies.
    pub octets: AtomicU64,
    windows: Mutex<Windows>,
    wake: Notify,
}

#[derive(Debug)]
struct Windows {
    connection: i64,
    initial: i64,
    streams: HashMap<u32, i64>,
    /// Streams that may be open at once.
    at_once: u32,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            connection: 65_535,
            initial: 65_535,
            streams: HashMap::new(),
            at_once: 100,
        }
    }
}

impl Told {
    fn windows<R>(&self, act: impl FnOnce(&mut Windows) -> R) -> R {
        act(&mut self.windows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the server turned anything away.
    pub fn refused(&self) -> bool {
        self.is_over() || self.turned_away() > 0
    }

    /// Streams that were ended by the server.
    pub fn turned_away(&self) -> u64 {
        self.resets.load(Ordering::Relaxed) + self.ended.load(Ordering::Relaxed)
    }

    /// Whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.goaway.load(Ordering::Relaxed) || self.closed.load(Ordering::Relaxed)
    }

    fn take_in(&self, frame: &Frame) {
        let number = |at: usize| {
            let four = frame.payload.get(at..at + 4);
            four.map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
        };
        match frame.kind {
            wire::DATA => {
                let _ = self
                    .octets
                    .fetch_add(frame.payload.len() as u64, Ordering::Relaxed);
            }
            wire::HEADERS if frame.flags & wire::END_STREAM != 0 => {
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
            wire::RST_STREAM => {
                self.resets.fetch_add(1, Ordering::Relaxed);
                self.windows(|w| w.streams.remove(&frame.stream));
            }
            wire::PING | wire::SETTINGS if frame.flags & 1 != 0 => {
                self.answers.fetch_add(1, Ordering::Relaxed);
            }
            wire::GOAWAY => self.goaway.store(true, Ordering::Relaxed),
            wire::WINDOW_UPDATE => {
                let more = i64::from(number(0));
                self.windows(|w| match frame.stream {
                    0 => w.connection += more,
                    stream => *w.streams.entry(stream).or_insert(w.initial) += more,
                });
            }
            wire::SETTINGS if frame.flags & 1 == 0 => {
                for at in (0..frame.payload.len() / 6).map(|n| n * 6) {
                    let value = number(at + 2);
                    self.windows(|w| match frame.payload[at + 1] {
                        3 => w.at_once = value,
                        4 => {
                            let more = i64::from(value) - w.initial;
                            w.initial += more;
                            w.streams.values_mut().for_each(|s| *s += more);
                        }
                        _ => {}
                    });
                }
            }
            _ => {}
        }
        self.wake.notify_waiters();
    }
}

/// A connection.
pub struct Peer {
    write: WriteHalf<Box<dyn Socket>>,
    /// What came back.
    pub told: Arc<Told>,
    /// Bodies and their streams, where they were asked for.
    pub bodies: mpsc::UnboundedReceiver<Frame>,
    reader: JoinHandle<()>,
    next: u32,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// What is read of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// Everything; bodies are counted.
    All,
    /// Everything, and bodies are handed on.
    Bodies,
    /// Nothing: the socket fills up.
    Nothing,
}

impl Peer {
    /// Connects and says hello with an initial window.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn open(to: SocketAddr, window: u32, reads: Reads) -> io::Result<Self> {
        let socket = connect(to, ATTACKER).await?;
        let mut peer = Self::over(Box::new(socket), reads);
        peer.send(&wire::hello(window)).await?;
        Ok(peer)
    }

    /// Over a socket that is open; says nothing.
    pub fn over(socket: Box<dyn Socket>, reads: Reads) -> Self {
        let (read, write) = split(socket);
        let told = Arc::<Told>::default();
        let (hand_on, bodies) = mpsc::unbounded_channel();
        Self {
            write,
            told: Arc::clone(&told),
            bodies,
            reader: tokio::spawn(listen(read, told, hand_on, reads)),
            next: 1,
        }
    }

    /// Sends octets as they are.
    ///
    /// # Errors
    /// Those of the socket; a timeout when the server takes nothing in for five seconds.
    pub async fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        timeout(PATIENCE, self.write.write_all(octets)).await??;
        Ok(())
    }

    /// The number of the next stream.
    pub fn stream(&mut self) -> u32 {
        let stream = self.next;
        self.next += 2;
        stream
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// Those of [`Peer::send`].
    pub async fn call(&mut self, head: &[u8]) -> io::Result<u32> {
        let stream = self.stream();
        let octets = wire::frame(wire::HEADERS, wire::END_HEADERS, stream, head);
        self.send(&octets).await?;
        Ok(stream)
    }

    /// Streams that the server lets a connection have at once, at most `n`.
    pub fn at_once(&self, n: usize) -> usize {
        self.told.windows(|w| w.at_once as usize).min(n)
    }

    /// Sends a body as far as the windows allow.
    ///
    /// # Errors
    /// Those of [`Peer::send`]; a timeout when the server opens no window for five seconds.
    pub async fn data(&mut self, stream: u32, mut body: &[u8]) -> io::Result<()> {
        let told = Arc::clone(&self.told);
        let mut since = Instant::now();
        while !body.is_empty() {
            if told.is_over() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let wake = told.wake.notified();
            let room = told.windows(|w| {
                let initial = w.initial;
                let stream = w.streams.entry(stream).or_insert(initial);
                let room = (*stream).min(w.connection).clamp(0, wire::LARGEST as i64) as usize;
                let room = room.min(body.len());
                *stream -= room as i64;
                w.connection -= room as i64;
                room
            });
            if room == 0 {
                if since.elapsed() > PATIENCE || told.resets.load(Ordering::Relaxed) > 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let _ = timeout(Duration::from_millis(100), wake).await;
                continue;
            }
            since = Instant::now();
            let (now, rest) = body.split_at(room);
            self.send(&wire::frame(wire::DATA, 0, stream, now)).await?;
            body = rest;
        }
        Ok(())
    }
}

async fn listen(
    read: ReadHalf<Box<dyn Socket>>,
    told: Arc<Told>,
    hand_on: mpsc::UnboundedSender<Frame>,
    reads: Reads,
) {
    if reads == Reads::Nothing {
        // Keeps the socket open.
        let _read = read;
        return std::future::pending().await;
    }
    let mut frames = Frames::new(read);
    while let Ok(Some(frame)) = frames.next().await {
        told.take_in(&frame);
        if reads == Reads::Bodies && frame.kind == wire::DATA {
            // Nobody may be interested any more.
            let _ = hand_on.send(frame);
        }
    }
    told.closed.store(true, Ordering::Relaxed);
    told.wake.notify_waiters();
}

/// Puts gRPC messages together from frames of one stream.
#[derive(Debug, Default)]
pub struct Messages(Vec<u8>);

impl Messages {
    /// Takes in a part of a body.
    pub fn push(&mut self, part: &[u8]) {
        self.0.extend_from_slice(part);
    }

    /// The next whole message.
    pub fn pop(&mut self) -> Option<Bytes> {
        let head = self.0.get(1..5)?;
        let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if self.0.len() < 5 + len {
            return None;
        }
        let rest = self.0.split_off(5 + len);
        let whole = std::mem::replace(&mut self.0, rest);
        Some(Bytes::from(whole).slice(5..))
    }
}
