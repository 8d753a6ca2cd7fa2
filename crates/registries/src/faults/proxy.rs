//! Between us and a registry: what is said goes through, or comes late, cut off, as something else, or not at all.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// What becomes of what is said.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Mode {
    /// It goes through.
    Pass,
    /// Each piece waits, in milliseconds.
    Delay(u64),
    /// Answers come in small pieces.
    Slow,
    /// Nothing goes through until later, as on a line that drops packets.
    Silent,
    /// Connections are open at our end alone, those that there are and those that come.
    HalfOpen,
    /// Connections are reset.
    Refuse,
    /// Answers are random octets.
    Garbage,
    /// Answers end in the middle.
    Truncate,
    /// Answers have no end.
    Oversize,
    /// Requests over HTTP are answered with the status 200 and this.
    Lie(&'static str),
    /// Requests over HTTP are answered with this status.
    Status(u16),
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Delay(_) => "delay",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::HalfOpen => "half-open",
            Self::Refuse => "refuse",
            Self::Garbage => "garbage",
            Self::Truncate => "truncate",
            Self::Oversize => "oversize",
            Self::Lie(_) => "wrong answers",
            Self::Status(_) => "error status",
        }
    }
}

/// How it is just now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) mode: Mode,
    /// How often all connections were reset.
    resets: u64,
    /// How often all connections were lost at the other end.
    losses: u64,
}

/// Proxies of one server, which are all alike.
pub(super) struct Proxy {
    weather: watch::Sender<Weather>,
    _listening: Vec<AbortOnDropHandle<()>>,
}

/// What an answer without an end begins with.
#[derive(Clone, Copy)]
pub(super) enum Endless {
    Http,
    ZooKeeper,
}

impl Proxy {
    /// Listens on ports, each in front of another.
    pub(super) async fn new(ports: &[(u16, u16)], endless: Endless) -> Self {
        let (weather, watched) = watch::channel(Weather {
            mode: Mode::Pass,
            resets: 0,
            losses: 0,
        });
        let mut listening = Vec::new();
        for (port, server) in ports.iter().copied() {
            let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
            let watched = watched.clone();
            let listen = async move {
                while let Ok((client, _)) = listener.accept().await {
                    let carry = carry(client, server, watched.clone(), endless);
                    tokio::spawn(carry);
                }
            };
            listening.push(AbortOnDropHandle::new(tokio::spawn(listen)));
        }
        Self {
            weather,
            _listening: listening,
        }
    }

    pub(super) fn set(&self, mode: Mode) {
        self.weather.send_modify(|weather| {
            weather.mode = mode;
            weather.losses += u64::from(mode == Mode::HalfOpen);
        });
    }

    pub(super) fn reset(&self) {
        self.weather.send_modify(|weather| weather.resets += 1);
    }
}

/// Carries what one client and the server say, until either ends or `weather` does.
async fn carry(
    client: TcpStream,
    server: u16,
    weather: watch::Receiver<Weather>,
    endless: Endless,
) {
    let client = exchange(client, server, weather, endless).await;
    if let Some(client) = client {
        // The other side sees a reset.
        let _ = client.set_zero_linger();
    }
}

/// Returns a client whose connection is to be reset.
async fn exchange(
    mut client: TcpStream,
    server: u16,
    mut weather: watch::Receiver<Weather>,
    endless: Endless,
) -> Option<TcpStream> {
    let born = *weather.borrow();
    if born.mode == Mode::Refuse {
        return Some(client);
    }
    if born.mode == Mode::HalfOpen {
        return lost(client, weather).await;
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else {
        return Some(client);
    };
    let (mut up, mut down) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    let mut random = 0x9e37_79b9_u32;
    loop {
        let now = *weather.borrow_and_update();
        if now.resets > born.resets || now.mode == Mode::Refuse {
            return Some(client);
        }
        if now.losses > born.losses {
            return lost(client, weather).await;
        }
        if now.mode == Mode::Silent {
            weather.changed().await.ok()?;
            continue;
        }
        tokio::select! {
            changed = weather.changed() => changed.ok()?,
            read = client.read(&mut up) => {
                let n = read.ok().filter(|n| *n > 0)?;
                if let Some(answer) = said_instead(now.mode) {
                    client.write_all(answer.as_bytes()).await.ok()?;
                    continue;
                }
                late(now.mode).await;
                server.write_all(&up[..n]).await.ok()?;
            }
            read = server.read(&mut down) => {
                let n = read.ok().filter(|n| *n > 0)?;
                late(now.mode).await;
                let said = &mut down[..n];
                match now.mode {
                    Mode::Garbage => {
                        for octet in &mut *said {
                            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                            *octet = (random >> 24) as u8;
                        }
                        client.write_all(said).await.ok()?;
                    }
                    Mode::Truncate => {
                        client.write_all(&said[..n / 2]).await.ok()?;
                        return None;
                    }
                    Mode::Oversize => {
                        say_without_end(&mut client, &weather, endless).await;
                        return Some(client);
                    }
                    Mode::Slow => for piece in said.chunks(200) {
                        client.write_all(piece).await.ok()?;
                        sleep(Duration::from_millis(5)).await;
                    },
                    _ => client.write_all(said).await.ok()?,
                }
            }
        }
    }
}

async fn late(mode: Mode) {
    if let Mode::Delay(ms) = mode {
        sleep(Duration::from_millis(ms)).await;
    }
}

fn said_instead(mode: Mode) -> Option<String> {
    let (status, body) = match mode {
        Mode::Lie(body) => (200, body),
        Mode::Status(status) => (status, "no"),
        _ => return None,
    };
    Some(format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// Takes what a client says, and says nothing, until it gives up.
async fn lost(mut client: TcpStream, mut weather: watch::Receiver<Weather>) -> Option<TcpStream> {
    let mut said = vec![0; 4096];
    loop {
        tokio::select! {
            read = client.read(&mut said) => { read.ok().filter(|n| *n > 0)?; }
            changed = weather.changed() => changed.ok()?,
        }
    }
}

async fn say_without_end(
    client: &mut TcpStream,
    weather: &watch::Receiver<Weather>,
    endless: Endless,
) {
    let head: &[u8] = match endless {
        Endless::Http => b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n[",
        Endless::ZooKeeper => &[0, 255, 255, 255],
    };
    if client.write_all(head).await.is_err() {
        return;
    }
    let piece = vec![b' '; 64 << 10];
    while weather.borrow().mode == Mode::Oversize {
        let written = timeout(Duration::from_secs(1), client.write_all(&piece)).await;
        if matches!(written, Ok(Err(_))) {
            return;
        }
    }
}
