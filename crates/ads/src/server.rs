//! ADS on HTTP/2.
//!
//! Each stream is one call: it reads its requests, runs the [`Stream`](crate::Stream) and yields shared bytes, all inside
//! the connection's task, on one thread (`workers`). There is no task, channel or buffer per stream. What proxies are entitled to, who they are and what is counted is decided by the [`Subscriber`].

mod admission;
mod calls;
mod client;
mod connection;
mod descriptors;
mod discovery;
mod extra;
mod frames;
mod intake;
mod link;
mod listener;
mod mounted;
mod peers;
mod processor;
mod response;
mod secure;
mod socket;
mod subscriber;
mod workers;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub use calls::SERVICE as DISCOVERY;
pub use client::{Client, Proven};
pub use descriptors::raise_descriptor_limit;
pub use extra::{Asker, ExtraStream, ExtraTypes};
pub use frames::{Frames, frame};
pub use listener::{Door, listen, serve};
pub use mounted::{Reply, Requests};
pub use response::{end, streamed, trailers_only, unary};
pub use secure::{Current, HandshakeError, Secure, Tls, TlsError};
pub use subscriber::{Incident, Join, Session, Subscriber, Subscription, Work};

use crate::budget::Budget;
use crate::fanout::Fanout;
use crate::limits::Limits;
use admission::Admission;
use frames::HEADER;
use link::{KeepAlive, Links};
use peers::Peers;
use workers::Workers;

/// Limits and times of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Largest request, unless there are resources for the client that are larger: it may name what it is sent. A client that comes back
    /// names what it has before anything is known to be for it. Istio: `ISTIO_GPRC_MAXRECVMSGSIZE`.
    pub max_request_bytes: usize,
    /// Connections at one time. There are fewer if the process may not open so many files; some are kept for other things.
    pub max_connections: usize,
    /// Connections at one time from one address (of IPv6: one network of 64 bits). 0 is three quarters of all: a fleet may be
    /// behind one address, and others are to get in all the same.
    pub max_connections_per_address: usize,
    /// Bytes of requests that have not come to their end, over all connections. One address may have as much as is left for
    /// others. At least one request of the largest size.
    pub max_partial_bytes: usize,
    /// A client must finish what it begins within this time: the TLS handshake, the connection with its preface and settings, a
    /// frame, a block of headers.
    pub frame_timeout: Duration,
    /// A connection must have a call, a call its first request, and a request its end within this time.
    pub request_timeout: Duration,
    /// What a client may say and make its stream hold.
    pub limits: Limits,
    /// Bytes that the name lists of all streams may take, those that several ask for counted once. An address may use as
    /// much as it leaves to others.
    pub max_names_memory: usize,
    /// Streams at one time, over all connections. Istio: `ISTIO_GPRC_MAXSTREAMS`.
    pub max_streams: usize,
    /// New streams per second, of which one address gets half; `None` is no limit. Istio: `PILOT_MAX_REQUESTS_PER_SECOND`.
    pub streams_per_second: Option<f64>,
    /// New TLS handshakes per second, of which one address gets half; `None` is no limit.
    pub handshakes_per_second: Option<f64>,
    /// Streams and handshakes that come after quiet are admitted at once, as many as that rate brings in this time.
    pub admission_burst: Duration,
    /// How long a new stream or handshake may wait for its limit before it is refused.
    pub admission_wait: Duration,
    /// An idle connection is pinged this often.
    pub keepalive_interval: Duration,
    /// A ping must be answered within this time, and a quarter of it more in which the server runs.
    pub keepalive_timeout: Duration,
    /// The server asks a client to reconnect (GOAWAY) after about this time, so that clients spread over all replicas. `None`: never.
    pub max_connection_age: Option<Duration>,
    /// A client must answer a response within this time (up to a quarter more), or its connection is closed. Long: an
    /// Envoy is silent while it works through a large configuration. The dead are found by pings.
    pub answer_timeout: Duration,
    /// How long listeners and routes wait for the assignments of new clusters.
    pub patience: Duration,
    /// How long streams may take to end at shutdown.
    pub drain_timeout: Duration,
    /// Threads that serve connections; 0 is one for each processor.
    pub threads: usize,
    /// Whether each of them stays on one processor, if there is one for each.
    pub pin_threads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_request_bytes: 32 << 20,
            max_connections: 65_536,
            max_connections_per_address: 0,
            max_partial_bytes: 64 << 20,
            frame_timeout: Duration::from_secs(20),
            request_timeout: Duration::from_secs(60),
            limits: Limits::default(),
            max_names_memory: 1 << 30,
            max_streams: 100_000,
            streams_per_second: None,
            handshakes_per_second: None,
            admission_burst: Duration::from_secs(4),
            admission_wait: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(10),
            max_connection_age: None,
            answer_timeout: Duration::from_secs(300),
            patience: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(5),
            threads: 0,
            pin_threads: true,
        }
    }
}

/// A further gRPC service on the same port.
pub trait Mount: Send + Sync + 'static {
    /// Answers one call; the path begins with the service's name.
    fn call(
        &self,
        request: http::Request<Requests>,
        client: Client,
    ) -> BoxFuture<'static, http::Response<Reply>>;
}

/// How many ticks of the server clients have for what they must do.
#[derive(Clone, Copy, Debug)]
struct Deadlines {
    frame: u32,
    request: u32,
    answer: u32,
}

/// The server: all that connections share.
pub struct Server {
    subscriber: Arc<dyn Subscriber>,
    options: Options,
    fanout: Arc<Fanout>,
    budget: Arc<Budget>,
    admission: Admission,
    handshakes: Admission,
    links: Links,
    peers: Arc<Peers>,
    deadlines: Deadlines,
    streams: AtomicUsize,
    mounts: BTreeMap<String, Arc<dyn Mount>>,
    extra: Arc<[Arc<dyn ExtraTypes>]>,
    workers: Workers,
}

impl Server {
    /// A server that asks `subscriber` what to serve.
    ///
    /// # Errors
    /// The system's, when it refuses the threads.
    pub fn new(subscriber: Arc<dyn Subscriber>, options: Options) -> io::Result<Self> {
        let fanout = Fanout::new();
        let tick = tick_length(&options);
        let ticks = |time: Duration| time.div_duration_f64(tick).ceil() as u32;
        let keep_alive = KeepAlive::new(
            ticks(options.keepalive_interval),
            ticks(options.keepalive_timeout),
        );
        let oldest = options.max_connection_age.map(|age| ticks(age).max(1));
        let workers = Workers::start(&options, &fanout)?;
        let connections = options.max_connections.min(descriptors::room());
        let of_one_address = match options.max_connections_per_address {
            0 => connections.div_ceil(4) * 3,
            limit => limit,
        };
        Ok(Self {
            subscriber,
            workers,
            peers: Peers::new(peers::Limits {
                connections,
                of_one_address,
                partial: options
                    .max_partial_bytes
                    .max(options.max_request_bytes + HEADER),
                handshakes: connections.div_ceil(2),
            }),
            deadlines: Deadlines {
                frame: ticks(options.frame_timeout),
                request: ticks(options.request_timeout),
                answer: ticks(options.answer_timeout),
            },
            admission: Admission::new(
                options.streams_per_second,
                options.admission_burst,
                options.admission_wait,
            ),
            handshakes: Admission::new(
                options.handshakes_per_second,
                options.admission_burst,
                options.admission_wait,
            ),
            budget: Budget::new(options.max_names_memory),
            options,
            fanout,
            links: Links::new(keep_alive, oldest),
            streams: AtomicUsize::new(0),
            mounts: BTreeMap::new(),
            extra: Arc::default(),
        })
    }

    /// Adds a gRPC service under its full name, such as `istio.v1.auth.IstioCertificateService`.
    #[must_use]
    pub fn mount(mut self, service: impl Into<String>, mount: Arc<dyn Mount>) -> Self {
        self.mounts.insert(service.into(), mount);
        self
    }

    /// The full names of the services that it has so far.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        let mounted = self.mounts.keys().map(String::as_str);
        std::iter::once(DISCOVERY).chain(mounted)
    }

    /// Adds types beside those of a view. Of several that serve a type the first answers.
    #[must_use]
    pub fn extra(mut self, types: Arc<dyn ExtraTypes>) -> Self {
        self.extra = self.extra.iter().cloned().chain([types]).collect();
        self
    }
}

/// How long a tick is: how often the server checks whether clients are silent or late.
fn tick_length(options: &Options) -> Duration {
    let shortest = options
        .keepalive_timeout
        .min(options.frame_timeout)
        .min(options.request_timeout);
    (shortest / 4).max(Duration::from_millis(1))
}

/// Lets shared work go when it is not used, and clients that do not answer.
async fn sweep(server: Arc<Server>, stop: CancellationToken) {
    let limit = server.options.answer_timeout;
    let mut unused = tokio::time::interval(Duration::from_secs(1));
    let mut stalled = tokio::time::interval((limit / 4).max(Duration::from_millis(1)));
    let mut ticks = tokio::time::interval(tick_length(&server.options));
    // A time in which the server did not run is one look, and not many.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = unused.tick() => {
                server.workers.sweep();
                server.fanout.sweep();
            }
            _ = stalled.tick() => server.links.close_stalled(limit),
            _ = ticks.tick() => server.links.tick(),
            () = stop.cancelled() => return,
        }
    }
}
