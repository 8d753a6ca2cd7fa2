//! Honest proxies: each with a name, a namespace, a workload and an address of its own, as in a cluster. They subscribe to
//! clusters, listeners and endpoints by delta ADS, acknowledge, and note when each change reached them.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, split};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::mesh::{self, Mesh};
use crate::peer::{Messages, connect};
use crate::proto::{self, Node, Request, Response};
use crate::wire::{self, Frames};

/// A window that is never full.
const WINDOW: u32 = 1 << 30;

/// Changes that reached a proxy, and the microseconds that each took.
type Reached = Mutex<Vec<(u32, u32)>>;

#[derive(Debug)]
struct Shared {
    to: std::net::SocketAddr,
    mesh: Mesh,
    start: Instant,
    /// When each change was made, in nanoseconds since the start; 0 for not yet.
    made: Box<[AtomicU64]>,
    /// What reached each proxy.
    reached: Box<[Reached]>,
    configured: AtomicUsize,
    lost: AtomicUsize,
    why: Mutex<String>,
}

/// Running proxies; dropping it ends them.
#[derive(Debug)]
pub struct Fleet {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Fleet {
    /// Connects proxies to a server.
    pub fn start(to: std::net::SocketAddr, mesh: Mesh, proxies: usize) -> Self {
        let shared = Arc::new(Shared {
            to,
            mesh,
            start: Instant::now(),
            made: (0..1 << 16).map(|_| AtomicU64::new(0)).collect(),
            reached: (0..proxies).map(|_| Mutex::default()).collect(),
            configured: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            why: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for number in 0..proxies {
            tasks.spawn(Arc::clone(&shared).run(number));
        }
        Self {
            shared,
            _tasks: tasks,
        }
    }

    /// Waits until all have their endpoints; false if they do not in time.
    pub async fn configured(&self, limit: Duration) -> bool {
        let start = Instant::now();
        while self.shared.configured.load(Ordering::Relaxed) < self.shared.reached.len() {
            if start.elapsed() > limit {
                return false;
            }
            sleep(Duration::from_millis(10)).await;
        }
        true
    }

    /// Notes that a change is made now.
    pub fn changes(&self, round: usize) {
        let now = self.shared.start.elapsed().as_nanos() as u64;
        self.shared.made[round].store(now, Ordering::Relaxed);
    }

    /// Streams that were lost so far, and how the last one was.
    pub fn lost(&self) -> (usize, String) {
        let why = self
            .shared
            .why
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (self.shared.lost.load(Ordering::Relaxed), why.clone())
    }

    /// From a change to each proxy that it reached, over changes `from..to`.
    pub fn times(&self, from: usize, to: usize) -> Vec<Duration> {
        let mut out = Vec::new();
        for reached in &self.shared.reached {
            let reached = reached.lock().unwrap_or_else(PoisonError::into_inner);
            let inside = reached
                .iter()
                .filter(|(n, _)| (from..to).contains(&(*n as usize)));
            out.extend(inside.map(|(_, us)| Duration::from_micros(u64::from(*us))));
        }
        out
    }

    /// How many proxies there are.
    pub fn len(&self) -> usize {
        self.shared.reached.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shared.reached.is_empty()
    }
}

/// What one proxy knows.
struct Proxy {
    node: Vec<u8>,
    /// The newest change of each service of `n0` that it has.
    has: Vec<usize>,
    asked: bool,
    configured: bool,
}

impl Shared {
    async fn run(self: Arc<Self>, number: usize) {
        // Connects over a second, as they do after a rollout.
        sleep(Duration::from_micros(1_000 * number as u64)).await;
        let namespace = format!("n{}", number % self.mesh.namespaces);
        let app = format!("s{}", number / self.mesh.namespaces % self.mesh.services);
        let mut proxy = Proxy {
            node: Node::of(number, &namespace, &app).encode(),
            has: vec![0; self.mesh.services],
            asked: false,
            configured: false,
        };
        loop {
            proxy.asked = false;
            let why = match self.serve(number, &mut proxy).await {
                Ok(why) => why.to_owned(),
                Err(error) => error.to_string(),
            };
            if proxy.configured {
                self.lost.fetch_add(1, Ordering::Relaxed);
                *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
            }
            sleep(Duration::from_millis(200 + number as u64 * 37 % 300)).await;
        }
    }

    /// One connection, until it is over; tells why it was.
    async fn serve(&self, number: usize, proxy: &mut Proxy) -> std::io::Result<&'static str> {
        let [_, b, c, d] = (number as u32 + 1).to_be_bytes();
        let socket = connect(self.to, Ipv4Addr::new(127, 1 + b, c, d)).await?;
        let (read, mut write) = split(socket);
        let mut out = wire::hello(WINDOW);
        out.extend(wire::frame(
            wire::HEADERS,
            wire::END_HEADERS,
            1,
            &wire::ads(),
        ));
        for (node, ty) in [(&proxy.node[..], proto::CLUSTER), (&[], proto::LISTENER)] {
            let request = Request {
                node,
                ty,
                ..Request::default()
            };
            out.extend(wire::frame(wire::DATA, 0, 1, &request.encode()));
        }
        write.write_all(&out).await?;
        let mut frames = Frames::new(read);
        let mut messages = Messages::default();
        let mut taken = 0_u32;
        loop {
            let Ok(frame) = timeout(Duration::from_secs(120), frames.next()).await else {
                return Ok("nothing for two minutes");
            };
            let Some(frame) = frame? else {
                return Ok("the connection was closed");
            };
            let mut out = Vec::new();
            match (frame.kind, frame.flags) {
                (wire::SETTINGS, flags) if flags & 1 == 0 => {
                    out.extend(wire::frame(wire::SETTINGS, 1, 0, &[]));
                }
                (wire::PING, flags) if flags & 1 == 0 => {
                    out.extend(wire::frame(wire::PING, 1, 0, &frame.payload));
                }
                (wire::HEADERS, flags) if flags & wire::END_STREAM != 0 => {
                    return Ok("the stream was ended");
                }
                (wire::RST_STREAM, _) => return Ok("the stream was reset"),
                (wire::GOAWAY, _) => return Ok("it was told to go away"),
                (wire::DATA, _) => {
                    taken += frame.payload.len() as u32;
                    messages.push(&frame.payload);
                    while let Some(message) = messages.pop() {
                        let Some(response) = Response::read(message) else {
                            return Ok("a response was none");
                        };
                        self.answer(number, proxy, &response, &mut out);
                    }
                    if taken > WINDOW / 4 {
                        for stream in [0, 1] {
                            let more = taken.to_be_bytes();
                            out.extend(wire::frame(wire::WINDOW_UPDATE, 0, stream, &more));
                        }
                        taken = 0;
                    }
                }
                _ => {}
            }
            if !out.is_empty() {
                write.write_all(&out).await?;
            }
        }
    }

    fn answer(&self, number: usize, proxy: &mut Proxy, response: &Response, out: &mut Vec<u8>) {
        let now = self.start.elapsed().as_nanos() as u64;
        let mut put = |request: Request<'_>| {
            let body = request.encode();
            for part in body.chunks(wire::LARGEST) {
                out.extend(wire::frame(wire::DATA, 0, 1, part));
            }
        };
        let ty = std::str::from_utf8(&response.ty).unwrap_or_default();
        put(Request {
            ty,
            nonce: &response.nonce,
            ..Request::default()
        });
        if ty == proto::CLUSTER && !proxy.asked {
            proxy.asked = true;
            let names = response.resources.iter().map(|(name, _)| name);
            let names = names.filter(|name| name.starts_with(b"outbound|"));
            let names: Vec<_> = names
                .map(|n| String::from_utf8_lossy(n).into_owned())
                .collect();
            put(Request {
                ty: proto::ENDPOINT,
                subscribe: &names,
                ..Request::default()
            });
        }
        if ty != proto::ENDPOINT {
            return;
        }
        for (name, body) in &response.resources {
            let (Some(service), Some(round)) = (mesh::service_of(name), mesh::round_of(body))
            else {
                continue;
            };
            let Some(has) = proxy.has.get_mut(service) else {
                continue;
            };
            // What came meanwhile has reached it as well.
            let first = if *has == 0 {
                self.first(service)
            } else {
                *has + self.mesh.services
            };
            for round in (first..=round).step_by(self.mesh.services) {
                let made = self.made[round].load(Ordering::Relaxed);
                if made > 0 {
                    let us = (now.saturating_sub(made) / 1_000).min(u64::from(u32::MAX));
                    let mut reached = self.reached[number]
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner);
                    reached.push((round as u32, us as u32));
                }
            }
            *has = (*has).max(round);
        }
        if !proxy.configured {
            proxy.configured = true;
            self.configured.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The first change that is made to a service.
    fn first(&self, service: usize) -> usize {
        if service == 0 {
            self.mesh.services
        } else {
            service
        }
    }
}
