//! Servers that are none, that say nonsense, or nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use h2::SendStream;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::payload::{LARGEST, Payload};
use super::*;
use crate::backends::Read;

/// What a stand-in says to a request.
#[derive(Clone)]
enum Says {
    Json(Value),
    Octets(Vec<u8>),
    Nothing,
    Status(&'static str),
}

/// How a stand-in answers requests, by their kind.
type Manners = Arc<Mutex<BTreeMap<&'static str, Says>>>;

/// A stand-in for a Nacos: its address, and the streams on which it asks.
struct StandIn {
    options: Options,
    manners: Manners,
    streams: Streams,
    /// Whether it takes what is said to it on the stream.
    listens: Arc<AtomicBool>,
    /// How many octets it took.
    heard: Arc<AtomicUsize>,
}

type Streams = Arc<Mutex<Vec<SendStream<Bytes>>>>;

fn ok(more: Value) -> Says {
    let mut answer = json!({"resultCode": 200, "errorCode": 0});
    answer
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    Says::Json(answer)
}

fn service(hosts: Value) -> Value {
    json!({"name": "a", "groupName": "DEFAULT_GROUP", "hosts": hosts})
}

const HOST: &str = "a.DEFAULT-GROUP.public.nacos";

impl StandIn {
    /// A server with one service of one instance.
    async fn new() -> Self {
        let (listener, http) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            if let Some(http) = port.checked_sub(GRPC) {
                break (listener, http);
            }
        };
        let manners = BTreeMap::from([
            ("ServerCheckRequest", ok(json!({"connectionId": "1"}))),
            ("HealthCheckRequest", ok(json!({}))),
            (
                "ServiceListRequest",
                ok(json!({"count": 1, "serviceNames": ["a"]})),
            ),
            (
                "SubscribeServiceRequest",
                ok(json!({"serviceInfo": service(json!([{"ip": "1.1.1.1", "port": 1}]))})),
            ),
        ]);
        let stand_in = Self {
            options: Options {
                servers: vec![format!("127.0.0.1:{http}").into()],
                ..Options::default()
            },
            manners: Arc::new(Mutex::new(manners)),
            streams: Arc::default(),
            listens: Arc::new(true.into()),
            heard: Arc::default(),
        };
        let (manners, streams) = (stand_in.manners.clone(), stand_in.streams.clone());
        let (listens, heard) = (stand_in.listens.clone(), stand_in.heard.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(
                    socket,
                    manners.clone(),
                    streams.clone(),
                    listens.clone(),
                    heard.clone(),
                ));
            }
        });
        stand_in
    }

    fn says(&self, kind: &'static str, says: Says) {
        self.manners.lock().unwrap().insert(kind, says);
    }

    fn asks(&self, octets: Vec<u8>) {
        let mut streams = self.streams.lock().unwrap();
        let stream = streams.last_mut().unwrap();
        // A stream that was given up hears nothing.
        let _ = stream.send_data(octets.into(), false);
    }

    fn pushes(&self, hosts: Value) {
        let said = json!({"requestId": "1", "serviceInfo": service(hosts)});
        self.asks(framed(
            "NotifySubscriberRequest",
            said.to_string().as_bytes(),
        ));
    }

    fn read(&self) -> Read {
        Read::new(Box::new(Nacos::new(self.options.clone())))
    }
}

fn framed(kind: &str, json: &[u8]) -> Vec<u8> {
    Payload::new(kind, BTreeMap::new(), json.to_vec())
        .frame()
        .to_vec()
}

async fn serve(
    socket: TcpStream,
    manners: Manners,
    streams: Streams,
    listens: Arc<AtomicBool>,
    heard: Arc<AtomicUsize>,
) {
    // Many small frames are no attack here.
    let mut builder = h2::server::Builder::new();
    let opened = builder
        .initial_connection_window_size(64 << 20)
        .handshake(socket);
    let Ok(mut connection) = opened.await else {
        return;
    };
    while let Some(Ok((mut request, mut respond))) = connection.accept().await {
        let head = http::Response::new(());
        if request.uri().path().starts_with("/BiRequestStream") {
            let stream = respond.send_response(head, false).unwrap();
            streams.lock().unwrap().push(stream);
            let (listens, heard) = (listens.clone(), heard.clone());
            tokio::spawn(async move {
                while let Some(Ok(data)) = request.body_mut().data().await {
                    if listens.load(Ordering::Relaxed) {
                        let flow = request.body_mut().flow_control();
                        flow.release_capacity(data.len()).unwrap();
                        heard.fetch_add(data.len(), Ordering::Relaxed);
                    }
                }
            });
            continue;
        }
        let manners = manners.clone();
        tokio::spawn(async move {
            let mut frames = Frames::default();
            while let Some(Ok(data)) = request.body_mut().data().await {
                frames.push(data);
            }
            let asked = frames.pop().unwrap().unwrap();
            let says = manners.lock().unwrap().get(asked.kind()).cloned();
            match says.unwrap_or_else(|| panic!("no manners for {}", asked.kind())) {
                Says::Json(value) => {
                    let mut stream = respond.send_response(head, false).unwrap();
                    let _ =
                        stream.send_data(framed("X", value.to_string().as_bytes()).into(), true);
                }
                Says::Octets(octets) => {
                    let mut stream = respond.send_response(head, false).unwrap();
                    let _ = stream.send_data(octets.into(), true);
                }
                Says::Status(code) => {
                    let response = http::Response::builder().header("grpc-status", code);
                    let _ = respond.send_response(response.body(()).unwrap(), true);
                }
                Says::Nothing => std::future::pending().await,
            }
        });
    }
}

async fn whole(read: &mut Read) -> Vec<Report> {
    read.until(|r| matches!(r, Report::Whole(_))).await
}

#[tokio::test]
async fn a_server_that_cannot_be_read_is_lost_with_a_reason() {
    let error =
        |code| Says::Json(json!({"resultCode": 500, "errorCode": code, "message": "no\nway"}));
    for (kind, says, reason) in [
        (
            "ServerCheckRequest",
            Says::Octets(framed("X", b"<html>")),
            "JSON that cannot be read",
        ),
        (
            "ServerCheckRequest",
            Says::Octets(vec![1, 0, 0, 0, 0]),
            "compresses",
        ),
        (
            "ServerCheckRequest",
            Says::Octets(Vec::new()),
            "without a message",
        ),
        ("ServerCheckRequest", Says::Status("12"), "gRPC status 12"),
        ("ServerCheckRequest", Says::Nothing, "does not answer"),
        (
            "HealthCheckRequest",
            error(301),
            "does not know the connection",
        ),
        (
            "ServiceListRequest",
            error(403),
            "refuses the credentials: noway",
        ),
        ("ServiceListRequest", error(500), "answers 500"),
        (
            "ServiceListRequest",
            Says::Octets(framed("X", b"7")),
            "JSON that cannot be read",
        ),
        ("ServiceListRequest", Says::Nothing, "does not answer"),
        (
            "SubscribeServiceRequest",
            error(301),
            "does not know the connection",
        ),
        ("SubscribeServiceRequest", Says::Nothing, "does not answer"),
    ] {
        let stand_in = StandIn::new().await;
        stand_in.says(kind, says);
        let mut read = stand_in.read();
        let first = read.next().await;
        let Report::Lost(why) = first else {
            panic!("{kind}, {reason}: {first:?}");
        };
        assert!(why.contains(reason), "{kind}: {why}");
        (&mut read.ended).await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn nobody_and_strangers_are_lost_with_a_reason() {
    for (says, reason) in [
        (None, "does not answer"),
        (Some("HTTP/1.1 400 Bad Request\r\n\r\n"), ""),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port() - GRPC;
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                let _ = socket.read(&mut [0; 64]).await;
                let _ = socket.write_all(says.unwrap_or("").as_bytes()).await;
                kept.push(socket);
            }
        });
        let servers = vec![format!("127.0.0.1:{port}").into()];
        let start = Instant::now();
        let mut read = Read::new(Box::new(Nacos::new(Options {
            servers,
            ..Options::default()
        })));
        let Report::Lost(why) = read.next().await else {
            panic!("something is reported");
        };
        assert!(why.contains(reason), "{why}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_service_that_is_not_told_of_is_never_empty() {
    for says in [
        Says::Json(json!({"resultCode": 500, "errorCode": 500})),
        Says::Status("13"),
        Says::Octets(framed(
            "X",
            br#"{"resultCode":200,"serviceInfo":{"hosts":7}}"#,
        )),
        ok(json!({"serviceInfo": null})),
        Says::Octets([&[0][..], &(LARGEST as u32 + 1).to_be_bytes()].concat()),
    ] {
        let stand_in = StandIn::new().await;
        stand_in.says("SubscribeServiceRequest", says);
        let mut read = stand_in.read();
        assert_eq!(
            whole(&mut read).await,
            [Report::Whole([HOST.into()].into())]
        );
        // A push tells of it after all.
        stand_in.pushes(json!([{"ip": "2.2.2.2", "port": 1}]));
        read.service(HOST, |i| i.len() == 1).await;
        read.stop().await;
    }
}

#[tokio::test]
async fn nonsense_in_between_costs_nothing() {
    let stand_in = StandIn::new().await;
    let mut read = stand_in.read();
    assert_eq!(whole(&mut read).await.len(), 2);
    for nonsense in [
        &b"7"[..],
        b"{",
        br#"{"serviceInfo":{"name":7,"hosts":[{}]}}"#,
        br#"{"serviceInfo":{"name":"b","groupName":"DEFAULT_GROUP","hosts":[]}}"#,
    ] {
        stand_in.asks(framed("NotifySubscriberRequest", nonsense));
        stand_in.asks(framed("NobodyKnowsRequest", nonsense));
    }
    let too_large = [
        &[0][..],
        &(LARGEST as u32 + 1).to_be_bytes(),
        &vec![7; LARGEST + 1],
    ]
    .concat();
    stand_in.asks(too_large);
    stand_in.pushes(json!([]));
    let next = read.next().await;
    assert_eq!(next, Report::Service(HOST.into(), Vec::new()));
    // What is no message at all ends the connection.
    stand_in.asks(vec![0, 0, 0, 0, 1, 255]);
    assert!(matches!(read.next().await, Report::Lost(_)));
}

#[tokio::test]
async fn what_a_server_does_not_listen_to_is_bounded() {
    for listens in [true, false] {
        let stand_in = StandIn::new().await;
        let mut read = stand_in.read();
        assert_eq!(whole(&mut read).await.len(), 2);
        stand_in.listens.store(listens, Ordering::Relaxed);
        let ask = framed("ClientDetectionRequest", br#"{"requestId":"1"}"#);
        for round in 1..=150 {
            stand_in.asks(ask.repeat(100));
            tokio::time::sleep(Duration::from_millis(2)).await;
            // Each answer has more than 80 octets.
            while listens && stand_in.heard.load(Ordering::Relaxed) < round * 100 * 80 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        stand_in.pushes(json!([]));
        match read.next().await {
            Report::Service(_, instances) => assert!(listens && instances.is_empty()),
            Report::Lost(why) => assert!(
                !listens && why.contains("does not listen"),
                "{listens}: {why}"
            ),
            Report::Whole(_) => panic!("nothing came or went"),
        }
    }
}

#[tokio::test]
async fn a_server_that_sends_elsewhere_is_left_without_a_loss() {
    let stand_in = StandIn::new().await;
    let mut read = stand_in.read();
    assert_eq!(whole(&mut read).await.len(), 2);
    stand_in.asks(framed(
        "ConnectResetRequest",
        br#"{"requestId":"1","serverIp":"127.0.0.1"}"#,
    ));
    // All of it again, over another connection.
    let again = whole(&mut read).await;
    assert!(
        matches!(&again[..], [Report::Service(..), Report::Whole(_)]),
        "{again:?}"
    );
    read.stop().await;
}

#[test]
fn what_a_stream_says_is_reported() {
    let list = framed("ServiceListResponse", br#"{"serviceNames":["a"]}"#);
    let push = service(json!([{"ip": "1.1.1.1", "port": 1}]));
    let push = framed(
        "NotifySubscriberRequest",
        json!({"serviceInfo": push}).to_string().as_bytes(),
    );
    let octets = [list.clone(), push, list].concat();
    let reports = replay(&octets);
    assert!(
        matches!(&reports[..], [Report::Service(..), Report::Whole(_)]),
        "{reports:?}"
    );
    for end in 0..octets.len() {
        replay(&octets[..end]);
    }
}
