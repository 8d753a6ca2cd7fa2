//! The adapter over loopback, met by a client made of plain HTTP/2.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use h2::{RecvStream, SendStream, client};
use http::Request;
use pilothouse_ads::latest::Sender;
use pilothouse_ads::server::{
    Client, Door, Frames, Incident, Join, Options, Proven, Session, Subscriber, Subscription, frame,
};
use pilothouse_ads::{Code, Event, Limits, Status};
use prost::Message;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use xds::{Published, Resource, ResourceSet, TypeUrl};

use crate::serving::{CDS, DELTA, Incidents, listen, serve};

pub(crate) const SOTW: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// Serves one view to everybody, refuses the node `stranger`, panics at acknowledgements of the node `bomb`.
pub(crate) struct World {
    pub(crate) published: Sender<Arc<Published>>,
    pub(crate) sessions: Arc<AtomicUsize>,
    tokens: Mutex<Vec<String>>,
    pub(crate) incidents: Incidents,
}

struct Seat {
    bomb: bool,
    sessions: Arc<AtomicUsize>,
}

impl Session for Seat {
    fn on_event(&mut self, event: &Event) {
        assert!(
            !(self.bomb && matches!(event, Event::Ack { .. })),
            "a seeded defect"
        );
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.sessions.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Subscriber for World {
    fn authenticate(
        &self,
        client: &Client,
        request: &Request<()>,
    ) -> BoxFuture<'static, Result<Proven, Status>> {
        assert!(!client.is_encrypted());
        let token = request.headers().get("authorization").unwrap();
        let token = token.to_str().unwrap();
        let proven = Proven {
            caller: Some(Arc::new(token.to_owned())),
            until: None,
        };
        async move { Ok(proven) }.boxed()
    }

    fn subscribe(&self, join: Join) -> BoxFuture<'static, Result<Subscription, Status>> {
        let caller = join.proven.caller.unwrap();
        let token = caller.downcast::<String>().unwrap();
        self.tokens.lock().unwrap().push(token.to_string());
        let refused = join.node.id == "stranger";
        self.sessions.fetch_add(1, Ordering::SeqCst);
        let seat = Seat {
            bomb: join.node.id == "bomb",
            sessions: Arc::clone(&self.sessions),
        };
        let published = self.published.subscribe();
        async move {
            tokio::task::yield_now().await;
            if refused {
                return Err(Status::new(Code::Unauthenticated, "who are you?"));
            }
            Ok(Subscription {
                published,
                session: Box::new(seat),
            })
        }
        .boxed()
    }

    fn on_incident(&self, incident: Incident) {
        self.incidents.add(incident);
    }
}

pub(crate) fn revision(n: u64, resources: &[(&str, usize)]) -> Arc<Published> {
    let mut published = Published::new(n);
    let resource = |(name, size): &(&str, usize)| {
        Arc::new(Resource::from_bytes(*name, vec![n as u8; *size].into()))
    };
    published.set(
        TypeUrl::Cluster,
        ResourceSet::new(resources.iter().map(resource)),
    );
    Arc::new(published)
}

pub(crate) struct Running {
    pub(crate) world: Arc<World>,
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// A world of two clusters.
pub(crate) fn world() -> Arc<World> {
    Arc::new(World {
        published: Sender::new(revision(1, &[("a", 3), ("b", 40_000)])),
        sessions: Arc::default(),
        tokens: Mutex::default(),
        incidents: Incidents::default(),
    })
}

pub(crate) fn start(options: Options) -> Running {
    let world = world();
    let (listener, address) = listen();
    let (stop, task) = serve(world.clone(), options, Door::Plaintext(listener));
    Running {
        world,
        address,
        stop,
        task,
    }
}

pub(crate) struct Call {
    pub(crate) send: SendStream<Bytes>,
    response: Option<client::ResponseFuture>,
    body: Option<RecvStream>,
    frames: Frames,
    release: bool,
    _connection: JoinHandle<()>,
}

impl Call {
    pub(crate) async fn open(address: SocketAddr, path: &str) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let (client, connection) = client::handshake(socket).await.unwrap();
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        let request = http::Request::post(format!("http://{address}{path}"))
            .header("content-type", "application/grpc")
            .header("authorization", "Bearer sesame");
        let (response, send) = client
            .ready()
            .await
            .unwrap()
            .send_request(request.body(()).unwrap(), false)
            .unwrap();
        Self {
            send,
            response: Some(response),
            body: None,
            frames: Frames::new(1 << 30),
            release: true,
            _connection: connection,
        }
    }

    pub(crate) async fn delta(address: SocketAddr, node: &str) -> Self {
        let mut call = Self::open(address, DELTA).await;
        call.ask(&DeltaDiscoveryRequest {
            node: named(node),
            type_url: CDS.into(),
            ..Default::default()
        });
        call
    }

    pub(crate) fn ask(&mut self, message: &impl Message) {
        self.send
            .send_data(frame(&message.encode_to_vec()), false)
            .unwrap();
    }

    fn ack(&mut self, response: &DeltaDiscoveryResponse) {
        let nonce = response.nonce.clone();
        self.ask(&DeltaDiscoveryRequest {
            type_url: CDS.into(),
            response_nonce: nonce,
            ..Default::default()
        });
    }

    /// A message, or the gRPC status at the end.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> Result<M, u16> {
        let code = |h: &http::HeaderMap| {
            h.get("grpc-status")
                .map(|v| v.to_str().unwrap().parse::<u16>().unwrap())
        };
        timeout(Duration::from_secs(10), async {
            if let Some(response) = self.response.take() {
                let response = response.await.map_err(|_| 999u16)?;
                if let Some(code) = code(response.headers()) {
                    return Err(code);
                }
                self.body = Some(response.into_body());
            }
            let body = self.body.as_mut().unwrap();
            loop {
                if let Some(message) = self.frames.pop().unwrap() {
                    return Ok(M::decode(message).unwrap());
                }
                match body.data().await {
                    Some(data) => {
                        let data = data.map_err(|_| 999u16)?;
                        if self.release {
                            body.flow_control().release_capacity(data.len()).unwrap();
                        }
                        self.frames.push(data);
                    }
                    None => {
                        return Err(body
                            .trailers()
                            .await
                            .ok()
                            .flatten()
                            .as_ref()
                            .and_then(code)
                            .unwrap_or(999));
                    }
                }
            }
        })
        .await
        .expect("an answer in time")
    }

    pub(crate) async fn response(&mut self) -> DeltaDiscoveryResponse {
        self.next().await.unwrap()
    }

    pub(crate) async fn status(&mut self) -> u16 {
        match self.next::<DeltaDiscoveryResponse>().await {
            Ok(response) => panic!(
                "a response instead of an end: {} resources",
                response.resources.len()
            ),
            Err(code) => code,
        }
    }
}

pub(crate) fn named(id: &str) -> Option<Node> {
    Some(Node {
        id: id.into(),
        ..Default::default()
    })
}

#[tokio::test]
async fn delta_client_gets_resources_and_changes() {
    let running = start(Options::default());
    let mut call = Call::delta(running.address, "n").await;
    let first = call.response().await;
    assert_eq!(first.type_url, CDS);
    let sizes: Vec<_> = first
        .resources
        .iter()
        .map(|r| (&*r.name, r.resource.as_ref().unwrap().value.len()))
        .collect();
    assert_eq!(sizes, [("a", 3), ("b", 40_000)]);
    call.ack(&first);
    running.world.published.send(revision(2, &[("a", 3)]));
    let second = call.response().await;
    assert_eq!(
        (second.resources.len(), &second.removed_resources[..]),
        (1, &["b".to_owned()][..])
    );
    assert_ne!(second.nonce, first.nonce);
    assert_eq!(*running.world.tokens.lock().unwrap(), ["Bearer sesame"]);
}

#[tokio::test]
async fn state_of_the_world_client_gets_resources_and_changes() {
    let running = start(Options::default());
    let mut call = Call::open(running.address, SOTW).await;
    call.ask(&DiscoveryRequest {
        node: named("n"),
        type_url: CDS.into(),
        ..Default::default()
    });
    let first: DiscoveryResponse = call.next().await.unwrap();
    assert_eq!(first.resources.len(), 2);
    let (version_info, response_nonce) = (first.version_info, first.nonce);
    call.ask(&DiscoveryRequest {
        type_url: CDS.into(),
        version_info,
        response_nonce,
        ..Default::default()
    });
    running.world.published.send(revision(2, &[("a", 3)]));
    let second: DiscoveryResponse = call.next().await.unwrap();
    assert_eq!(second.resources.len(), 1);
}

#[tokio::test]
async fn a_session_ends_with_its_stream() {
    let running = start(Options::default());
    let mut call = Call::delta(running.address, "n").await;
    call.response().await;
    assert_eq!(running.world.sessions.load(Ordering::SeqCst), 1);
    drop(call.send);
    call._connection.abort();
    for _ in 0..200 {
        if running.world.sessions.load(Ordering::SeqCst) == 0 {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("the session outlived its stream");
}

#[tokio::test]
async fn bad_calls_are_told_what_is_wrong() {
    let running = start(Options {
        max_request_bytes: 1000,
        ..Options::default()
    });
    let unknown = Call::open(running.address, "/some.Service/Method")
        .await
        .status()
        .await;
    assert_eq!(unknown, 12);
    let mut call = Call::open(running.address, DELTA).await;
    call.send.send_data(frame(&[0xff; 20]), false).unwrap();
    assert_eq!(call.status().await, 3, "not a message");
    let mut call = Call::open(running.address, DELTA).await;
    call.send.send_data(frame(&[0; 2000]), false).unwrap();
    assert_eq!(call.status().await, 8, "too large");
    let mut call = Call::open(running.address, DELTA).await;
    call.ask(&DeltaDiscoveryRequest {
        type_url: CDS.into(),
        ..Default::default()
    });
    assert_eq!(call.status().await, 3, "no node");
    assert_eq!(
        Call::delta(running.address, "stranger")
            .await
            .status()
            .await,
        16
    );
}

#[tokio::test]
async fn streams_above_the_limits_are_refused() {
    let running = start(Options {
        max_streams: 1,
        ..Options::default()
    });
    let mut first = Call::delta(running.address, "n").await;
    first.response().await;
    assert_eq!(Call::delta(running.address, "n").await.status().await, 8);

    let slow = Options {
        streams_per_second: Some(0.5),
        admission_burst: Duration::ZERO,
        admission_wait: Duration::from_millis(1),
        ..Options::default()
    };
    let running = start(slow);
    Call::delta(running.address, "n").await.response().await;
    assert_eq!(Call::delta(running.address, "n").await.status().await, 8);
}

#[tokio::test]
async fn a_defect_in_one_stream_ends_only_that_stream() {
    let running = start(Options::default());
    let mut calm = Call::delta(running.address, "n").await;
    let first = calm.response().await;
    let mut bomb = Call::delta(running.address, "bomb").await;
    let response = bomb.response().await;
    bomb.ack(&response);
    assert_eq!(bomb.status().await, 13);
    assert!(running.world.incidents.count(&Incident::Panicked) > 0);
    calm.ack(&first);
    running.world.published.send(revision(2, &[("a", 3)]));
    assert_eq!(calm.response().await.resources.len(), 1);
}

#[tokio::test]
async fn shutdown_ends_streams_and_returns() {
    let running = start(Options::default());
    let mut call = Call::delta(running.address, "n").await;
    call.response().await;
    running.stop.cancel();
    assert_eq!(call.status().await, 14);
    timeout(Duration::from_secs(5), running.task)
        .await
        .expect("drained in time")
        .unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn a_connection_that_is_old_ends_and_the_client_connects_again() {
    let running = start(Options {
        // How long a tick is.
        keepalive_timeout: Duration::from_millis(40),
        max_connection_age: Some(Duration::from_secs(1)),
        ..Options::default()
    });
    let mut call = Call::delta(running.address, "n").await;
    let first = call.response().await;
    call.ack(&first);
    assert_eq!(call.status().await, 14);
    Call::delta(running.address, "n").await.response().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_delays_nobody_and_is_dropped() {
    let running = start(Options {
        answer_timeout: Duration::from_millis(300),
        ..Options::default()
    });
    running
        .world
        .published
        .send(revision(2, &[("big", 1 << 20)]));
    let mut stuck = Call::delta(running.address, "n").await;
    stuck.release = false;
    let mut quick = Call::delta(running.address, "n").await;
    let first = quick.response().await;
    quick.ack(&first);
    for n in 3..10 {
        running
            .world
            .published
            .send(revision(n, &[("big", 1 << 20)]));
        let response = quick.response().await;
        quick.ack(&response);
    }
    assert_eq!(
        stuck.next::<DeltaDiscoveryResponse>().await.unwrap_err(),
        999
    );
    assert!(running.world.incidents.count(&Incident::SendTimedOut) > 0);
}

#[tokio::test]
async fn a_process_that_stands_still_loses_no_connection() {
    let running = start(Options {
        keepalive_interval: Duration::from_millis(10),
        keepalive_timeout: Duration::from_millis(20),
        ..Options::default()
    });
    let mut call = Call::delta(running.address, "n").await;
    let first = call.response().await;
    call.ack(&first);
    for _ in 0..60 {
        tokio::task::yield_now().await;
        // Both ends stand still for longer than an answer may take, with whatever is under way.
        std::thread::sleep(Duration::from_millis(40));
    }
    running.world.published.send(revision(2, &[("a", 3)]));
    assert_eq!(call.response().await.resources.len(), 1);
}

#[tokio::test]
async fn a_client_that_does_not_answer_pings_is_given_up_and_others_are_not() {
    let running = start(Options {
        keepalive_interval: Duration::from_millis(20),
        keepalive_timeout: Duration::from_millis(40),
        ..Options::default()
    });
    let mut answers = Call::delta(running.address, "n").await;
    let first = answers.response().await;
    answers.ack(&first);
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    silent
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut told = Vec::new();
    // The end is the end of the connection, in whatever way.
    let _ = timeout(Duration::from_secs(5), silent.read_to_end(&mut told))
        .await
        .unwrap();
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0];
    assert_eq!(told.windows(9).filter(|w| *w == ping).count(), 1);
    sleep(Duration::from_millis(300)).await;
    running.world.published.send(revision(2, &[("a", 3)]));
    assert_eq!(answers.response().await.resources.len(), 1);
}

#[tokio::test]
async fn a_client_that_passes_a_limit_is_told_and_counted_and_others_are_served() {
    let limits = Limits {
        names_per_type: 100,
        node_bytes: 1000,
        ..Limits::default()
    };
    let running = start(Options {
        limits,
        ..Options::default()
    });
    let mut other = Call::delta(running.address, "other").await;
    let response = other.response().await;
    other.ack(&response);
    // From here on there is little for a client, which it could name.
    running.world.published.send(revision(2, &[("a", 3)]));
    let response = other.response().await;
    other.ack(&response);

    let mut node = named("n").unwrap();
    node.cluster = "x".repeat(1000);
    let mut call = Call::open(running.address, DELTA).await;
    call.ask(&DeltaDiscoveryRequest {
        node: Some(node),
        type_url: CDS.into(),
        ..Default::default()
    });
    assert_eq!(call.status().await, 8);

    let mut call = Call::delta(running.address, "n").await;
    call.response().await;
    call.ask(&DeltaDiscoveryRequest {
        type_url: CDS.into(),
        resource_names_subscribe: (0..101).map(|n| format!("n{n}")).collect(),
        ..Default::default()
    });
    assert_eq!(call.status().await, 8);

    let ended = |words: &str| {
        let incidents = running.world.incidents.all();
        incidents
            .iter()
            .any(|i| matches!(i, Incident::Ended(status) if status.message.contains(words)))
    };
    assert!(ended("1000 bytes of a node"));
    assert!(ended("100 resource names of a type"));
    running.world.published.send(revision(3, &[("a", 4)]));
    other.response().await;
}

#[tokio::test]
async fn what_the_streams_of_an_address_hold_is_bounded_and_given_back() {
    let running = start(Options {
        max_names_memory: 80_000,
        ..Options::default()
    });
    let asks = async |first: usize| {
        let mut call = Call::delta(running.address, "n").await;
        let response = call.response().await;
        call.ask(&DeltaDiscoveryRequest {
            type_url: CDS.into(),
            response_nonce: response.nonce,
            resource_names_subscribe: (first..first + 300).map(|n| format!("n{n}")).collect(),
            ..Default::default()
        });
        call
    };
    // An address has half: one list of 300 names. The same list costs nothing more.
    let mut first = asks(0).await;
    let mut same = asks(0).await;
    for call in [&mut first, &mut same] {
        assert_eq!(call.response().await.removed_resources.len(), 300);
    }
    let mut second = asks(1000).await;
    assert_eq!(second.status().await, 8);
    drop(second);
    drop((first, same));
    let given_back = async {
        while running.world.sessions.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), given_back).await.unwrap();
    let mut again = asks(1000).await;
    assert_eq!(again.response().await.removed_resources.len(), 300);
}
