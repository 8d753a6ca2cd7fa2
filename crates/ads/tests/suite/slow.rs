//! Clients that are slow, many, or ask for much before they are known: what each may hold, and for how long.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use h2::{RecvStream, SendStream, client};
use pilothouse_ads::Status;
use pilothouse_ads::latest::Sender;
use pilothouse_ads::server::{Door, Incident, Join, Options, Subscriber, Subscription, frame};
use prost::Message;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use xds::{Published, Resource, ResourceSet, TypeUrl};

use crate::serving::{CDS, DELTA, Deaf, Incidents, listen, serve};

const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

struct World {
    published: Sender<Arc<Published>>,
    incidents: Incidents,
}

impl Subscriber for World {
    fn subscribe(&self, _: Join) -> BoxFuture<'static, Result<Subscription, Status>> {
        let subscription = Subscription {
            published: self.published.subscribe(),
            session: Box::new(Deaf),
        };
        async move { Ok(subscription) }.boxed()
    }

    fn on_incident(&self, incident: Incident) {
        self.incidents.add(incident);
    }
}

fn revision(n: u64, size: usize) -> Arc<Published> {
    let mut published = Published::new(n);
    let resource = Arc::new(Resource::from_bytes("a", vec![n as u8; size].into()));
    published.set(TypeUrl::Cluster, ResourceSet::new([resource]));
    Arc::new(published)
}

struct Running {
    world: Arc<World>,
    address: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn start(options: Options) -> Running {
    let world = Arc::new(World {
        published: Sender::new(revision(1, 3)),
        incidents: Incidents::default(),
    });
    let (listener, address) = listen();
    let (stop, _) = serve(world.clone(), options, Door::Plaintext(listener));
    Running {
        world,
        address,
        stop,
    }
}

/// Long enough for whatever a busy machine does between, short enough for a test.
fn short() -> Options {
    Options {
        frame_timeout: Duration::from_millis(400),
        request_timeout: Duration::from_millis(800),
        ..Options::default()
    }
}

async fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

type Client = client::SendRequest<Bytes>;

async fn handshake(socket: TcpStream) -> Client {
    let (client, connection) = client::Builder::new()
        .initial_connection_window_size(64 << 20)
        .handshake(socket)
        .await
        .unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client.ready().await.unwrap()
}

struct Call {
    send: SendStream<Bytes>,
    response: client::ResponseFuture,
}

impl Call {
    fn open(client: &mut Client) -> Self {
        let request = http::Request::post(format!("http://a{DELTA}"));
        let (response, send) = client
            .send_request(request.body(()).unwrap(), false)
            .unwrap();
        Self { send, response }
    }

    fn ask(&mut self, message: &DeltaDiscoveryRequest) {
        let message = frame(&message.encode_to_vec());
        self.send.send_data(message, false).unwrap();
    }

    fn join(&mut self) {
        self.ask(&first("n"));
    }

    fn ack(&mut self, response: DeltaDiscoveryResponse) {
        self.ask(&DeltaDiscoveryRequest {
            type_url: CDS.into(),
            response_nonce: response.nonce,
            ..Default::default()
        });
    }

    async fn body(&mut self) -> RecvStream {
        let response = timeout(Duration::from_secs(10), &mut self.response);
        response.await.unwrap().unwrap().into_body()
    }
}

fn first(node: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(Node {
            id: node.into(),
            ..Default::default()
        }),
        type_url: CDS.into(),
        ..Default::default()
    }
}

async fn message(body: &mut RecvStream) -> DeltaDiscoveryResponse {
    let mut octets = Vec::new();
    loop {
        let piece = timeout(Duration::from_secs(10), body.data()).await.unwrap();
        let piece = piece.unwrap().unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        octets.extend_from_slice(&piece);
        if let Some((head, rest)) = octets.split_first_chunk::<5>()
            && rest.len() == u32::from_be_bytes(head[1..].try_into().unwrap()) as usize
        {
            return DeltaDiscoveryResponse::decode(rest).unwrap();
        }
    }
}

/// The status at the end of a call.
async fn status(body: &mut RecvStream) -> Option<u16> {
    let ended = timeout(Duration::from_secs(10), async {
        while let Some(Ok(_)) = body.data().await {}
        body.trailers().await.ok().flatten()
    });
    let trailers = ended.await.expect("an end in time")?;
    trailers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

/// How long a client lives that says this at once, and then an octet of the rest now and then.
async fn life(to: SocketAddr, at_once: &[u8], rest: &[u8]) -> Duration {
    let mut socket = TcpStream::connect(to).await.unwrap();
    let began = Instant::now();
    socket.write_all(at_once).await.unwrap();
    let (mut read, mut write) = socket.split();
    let mut told = vec![0; 4096];
    let mut rest = rest.iter().cycle();
    loop {
        tokio::select! {
            count = read.read(&mut told) => if matches!(count, Ok(0) | Err(_)) {
                return began.elapsed();
            },
            () = sleep(Duration::from_millis(100)) => {
                // If it is closed, reading says so.
                let _ = write.write_all(&[*rest.next().unwrap()]).await;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(15), "it lives on");
    }
}

fn said(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[tokio::test]
async fn who_dribbles_is_closed_whatever_it_dribbles() {
    let running = start(short());
    let mut good = handshake(TcpStream::connect(running.address).await.unwrap()).await;
    let mut call = Call::open(&mut good);
    call.join();
    let mut body = call.body().await;
    call.ack(message(&mut body).await);

    let to = running.address;
    let cases: [(&str, Vec<u8>, &[u8]); 6] = [
        ("nothing", vec![], HELLO),
        ("half a preface", HELLO[..12].to_vec(), &HELLO[12..]),
        ("no settings", HELLO[..24].to_vec(), &[0]),
        ("half a head of a frame", said(&[HELLO, &[0, 0]]), &[0]),
        (
            "half a frame",
            said(&[HELLO, b"\0\x3e\x80\xbb\0\0\0\0\0"]),
            b"x",
        ),
        (
            "a block of headers",
            said(&[HELLO, b"\0\0\x02\x01\0\0\0\0\x01\x83\x86\0\0"]),
            &[0],
        ),
    ];
    let lives = cases.iter().map(|(what, at_once, rest)| async move {
        let life = life(to, at_once, rest).await;
        assert!(life >= Duration::from_millis(300), "{what}: {life:?}");
        assert!(life < Duration::from_secs(5), "{what}: {life:?}");
    });
    join_all(lives).await;
    assert!(running.world.incidents.count(&Incident::ReceiveTimedOut) >= 3);
    // Who asks for nothing is told to go.
    let life = life(to, HELLO, b"\0\0\0\xbb\0\0\0\0\0").await;
    assert!(life < Duration::from_secs(5), "{life:?}");

    running.world.published.send(revision(2, 3));
    message(&mut body).await;
}

#[tokio::test]
async fn a_call_without_a_request_and_a_request_without_an_end_are_ended() {
    let running = start(short());
    let mut client = handshake(TcpStream::connect(running.address).await.unwrap()).await;
    let mut good = Call::open(&mut client);
    good.join();
    let mut served = good.body().await;
    good.ack(message(&mut served).await);

    let mut silent = Call::open(&mut client);
    let mut slow = Call::open(&mut client);
    slow.send
        .send_data(Bytes::from_static(&[0, 0, 1, 0, 0]), false)
        .unwrap();
    let mut late = Call::open(&mut client);
    late.join();
    let mut answered = late.body().await;
    message(&mut answered).await;
    // Not the first request of its stream, and less than its head.
    late.send
        .send_data(Bytes::from_static(&[0, 0]), false)
        .unwrap();
    let octets = tokio::spawn(async move {
        for _ in 0..30 {
            sleep(Duration::from_millis(100)).await;
            if slow
                .send
                .send_data(Bytes::from_static(&[0]), false)
                .is_err()
            {
                break;
            }
        }
        slow
    });
    let mut body = silent.body().await;
    assert_eq!(status(&mut body).await, Some(4), "no request");
    assert_eq!(status(&mut answered).await, Some(4), "half a head");
    let mut slow = octets.await.unwrap();
    let mut body = slow.body().await;
    assert_eq!(status(&mut body).await, Some(4), "a request that dribbles");

    running.world.published.send(revision(2, 3));
    message(&mut served).await;
}

#[tokio::test]
async fn unfinished_requests_have_one_budget_and_others_get_through() {
    const BUDGET: usize = (4 << 20) + 64;
    let running = start(Options {
        max_request_bytes: 1 << 20,
        max_partial_bytes: BUDGET,
        request_timeout: Duration::from_secs(7),
        ..Options::default()
    });
    let mut streams = Vec::new();
    for _ in 0..4 {
        let mut client = handshake(connect_from("127.0.0.1", running.address).await).await;
        streams.extend((0..15).map(|_| {
            let mut call = Call::open(&mut client);
            // All of a request but its last octet.
            let mut request = frame(&vec![0; 1 << 20]).to_vec();
            request.pop();
            call.send.reserve_capacity(request.len());
            (call, request, client.clone())
        }));
    }
    let mut taken = 0;
    let quiet = Instant::now();
    while quiet.elapsed() < Duration::from_secs(1) {
        for (call, request, _) in &mut streams {
            let room = call.send.capacity().min(request.len());
            if room > 0 {
                let piece: Vec<u8> = request.drain(..room).collect();
                call.send.send_data(piece.into(), false).unwrap();
                call.send.reserve_capacity(request.len());
                taken += room;
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
    // Half of the budget, and what fits in the windows of four connections.
    assert!(taken <= BUDGET / 2 + 4 * (128 << 10), "{taken}");

    let mut other = handshake(connect_from("127.0.0.2", running.address).await).await;
    let mut call = Call::open(&mut other);
    let mut large = first("n");
    let version = ("a".repeat(1000), "b".repeat(100_000));
    large.initial_resource_versions = [version].into();
    call.ask(&large);
    let mut body = call.body().await;
    message(&mut body).await;

    let mut codes = Vec::new();
    for (mut call, ..) in streams {
        let mut body = call.body().await;
        codes.extend(status(&mut body).await);
    }
    assert_eq!(codes.len(), 60);
    assert!(codes.contains(&4), "not finished in time: {codes:?}");
    assert!(codes.contains(&8), "no room in time: {codes:?}");

    // What they held is given back.
    let mut client = handshake(connect_from("127.0.0.1", running.address).await).await;
    let mut call = Call::open(&mut client);
    call.ask(&large);
    let mut body = call.body().await;
    message(&mut body).await;
}

#[tokio::test]
async fn requests_wait_for_room_when_many_come_at_once() {
    let running = start(Options {
        max_request_bytes: 1 << 20,
        max_partial_bytes: 1 << 20,
        ..Options::default()
    });
    let mut large = first("n");
    let version = ("a".repeat(1000), "b".repeat(300_000));
    large.initial_resource_versions = [version].into();
    let calls = (0..40).map(|_| async {
        let mut client = handshake(TcpStream::connect(running.address).await.unwrap()).await;
        let mut call = Call::open(&mut client);
        call.ask(&large);
        let mut body = call.body().await;
        message(&mut body).await;
    });
    join_all(calls).await;
}

#[tokio::test]
async fn a_stream_without_room_is_given_up_while_another_answers() {
    let running = start(Options {
        answer_timeout: Duration::from_secs(1),
        keepalive_timeout: Duration::from_millis(400),
        ..Options::default()
    });
    running.world.published.send(revision(2, 200_000));
    let mut client = handshake(TcpStream::connect(running.address).await.unwrap()).await;
    // It takes nothing in of its stream, and leaves the connection's window alone.
    let mut stuck = Call::open(&mut client);
    stuck.join();
    let mut body = stuck.body().await;
    body.data().await.unwrap().unwrap();
    let mut good = Call::open(&mut client);
    good.join();
    let mut served = good.body().await;
    let began = Instant::now();
    for n in 3u64.. {
        let Ok(response) = timeout(Duration::from_secs(5), next(&mut served)).await else {
            panic!("neither an answer nor an end");
        };
        let Some(response) = response else {
            break;
        };
        good.ack(response);
        sleep(Duration::from_millis(50)).await;
        running.world.published.send(revision(n, 200_000));
        assert!(began.elapsed() < Duration::from_secs(8), "it lives on");
    }
    assert!(began.elapsed() >= Duration::from_millis(800));
    assert_eq!(running.world.incidents.count(&Incident::SendTimedOut), 1);
}

/// A response, or `None` at the end of the connection.
async fn next(body: &mut RecvStream) -> Option<DeltaDiscoveryResponse> {
    let mut octets = Vec::new();
    while let Some(Ok(piece)) = body.data().await {
        body.flow_control().release_capacity(piece.len()).ok()?;
        octets.extend_from_slice(&piece);
        if let Some((head, rest)) = octets.split_first_chunk::<5>()
            && rest.len() == u32::from_be_bytes(head[1..].try_into().ok()?) as usize
        {
            return DeltaDiscoveryResponse::decode(rest).ok();
        }
    }
    None
}

#[tokio::test]
async fn connections_above_the_limits_are_closed_and_others_served() {
    let running = start(Options {
        max_connections: 8,
        max_connections_per_address: 5,
        ..Options::default()
    });
    let to = running.address;
    let mut held = Vec::new();
    for _ in 0..5 {
        let mut client = handshake(connect_from("127.0.0.1", to).await).await;
        let mut call = Call::open(&mut client);
        call.join();
        message(&mut call.body().await).await;
        held.push((client, call));
    }
    let mut told = Vec::new();
    let mut refused = connect_from("127.0.0.1", to).await;
    let end = timeout(Duration::from_secs(5), refused.read_to_end(&mut told));
    assert!(end.await.is_ok() && told.is_empty());
    // Another address has what is left, and no more.
    for n in 0..4 {
        let mut socket = connect_from("127.0.0.2", to).await;
        if n == 3 {
            let end = timeout(Duration::from_secs(5), socket.read_to_end(&mut told));
            assert!(end.await.is_ok() && told.is_empty());
            break;
        }
        let mut client = handshake(socket).await;
        let mut call = Call::open(&mut client);
        call.join();
        message(&mut call.body().await).await;
        held.push((client, call));
    }
    assert_eq!(
        running.world.incidents.count(&Incident::ConnectionRefused),
        2
    );
    // A place that is left is free.
    held.clear();
    let again = async {
        loop {
            let mut client = match client::handshake(connect_from("127.0.0.1", to).await).await {
                Ok((client, connection)) => {
                    tokio::spawn(async move {
                        let _ = connection.await;
                    });
                    client
                }
                Err(_) => continue,
            };
            if let Ok(ready) = client.clone().ready().await {
                client = ready;
                let mut call = Call::open(&mut client);
                call.join();
                if let Ok(response) = (&mut call.response).await {
                    message(&mut response.into_body()).await;
                    return;
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), again).await.unwrap();
}
