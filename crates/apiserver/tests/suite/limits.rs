//! Clients that are slow, or want too much, on the port of the API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::access::Access;
use apiserver::api::Api;
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::limits::Limits;
use apiserver::pki::{Files, Given, server_names};
use apiserver::store::{Author, Expect, Keep, ObjectId, Op, Store};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const ANN: &str = "ann-ann-ann-ann-1";
const BOB: &str = "bob-bob-bob-bob-1";
const USERS: &str = "users:\n- {name: ann, token: ann-ann-ann-ann-1}\n- {name: bob, token: bob-bob-bob-bob-1}\ngrants:\n- {user: ann, role: write, namespaces: ['*']}\n- {user: bob, role: read, namespaces: ['*']}\n";
const SHORT: Duration = Duration::from_millis(400);

struct Port {
    address: SocketAddr,
    connector: TlsConnector,
    api: Arc<Api>,
    _dir: tempfile::TempDir,
}

fn short() -> Limits {
    Limits {
        handshake: SHORT,
        first_request: SHORT,
        headers: SHORT,
        body: SHORT,
        idle: SHORT,
        stall: SHORT,
        ..Limits::default()
    }
}

impl Port {
    async fn start(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let store = Store::open(&data, Keep::default()).unwrap();
        let files = Files::of(&data);
        let names = server_names("127.0.0.1".parse().unwrap());
        files.prepare(&names).unwrap();
        let users = dir.path().join("users.yaml");
        std::fs::write(&users, USERS).unwrap();
        let access = Access::read(&users).unwrap();
        let api = Api::start(store, access, Audit::default(), &["default"])
            .await
            .unwrap();
        api.set_limits(limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let security = Security::Tls(files.server(&Given::default()).unwrap());
        tokio::spawn(serve(
            listener,
            security,
            api.clone(),
            CancellationToken::new(),
        ));
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(files.ca()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Self {
            address,
            connector,
            api,
            _dir: dir,
        }
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn tls(&self) -> TlsStream<TcpStream> {
        let name = "localhost".try_into().unwrap();
        self.connector
            .connect(name, self.tcp().await)
            .await
            .unwrap()
    }

    /// Sends the head of a request, and what there is of its body.
    async fn ask(&self, line: &str, token: &str, more: &str) -> TlsStream<TcpStream> {
        let mut stream = self.tls().await;
        let head = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }
}

/// The first bytes of an answer.
async fn answer(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut bytes));
    let n = read.await.expect("an answer comes").unwrap_or(0);
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

/// Reads until the other side closes, writing a byte now and then; how long that took.
async fn closes(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, dribble: &[u8]) -> Duration {
    let start = Instant::now();
    let mut bytes = vec![0; 64 << 10];
    let mut dribble = dribble.iter();
    loop {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the connection stays open"
        );
        match tokio::time::timeout(SHORT / 4, stream.read(&mut bytes)).await {
            Ok(Ok(0) | Err(_)) => return start.elapsed(),
            Ok(Ok(_)) => {}
            Err(_) => {
                if let Some(byte) = dribble.next() {
                    let _ = stream.write_all(&[*byte]).await;
                    let _ = stream.flush().await;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_given_up() {
    let port = Port::start(short()).await;
    // Nothing, or a handshake byte by byte.
    closes(port.tcp().await, &[]).await;
    closes(port.tcp().await, &[0x16; 400]).await;
    // A handshake, and then silence; the preface of HTTP/2 and the head of a request, byte by byte.
    closes(port.tls().await, &[]).await;
    closes(port.tls().await, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    closes(port.tls().await, &[b'G'; 400]).await;
    // A preface with settings, and headers that never end.
    let mut stream = port.tls().await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    stream
        .write_all(b"\0\0\x01\x01\0\0\0\0\x01\x82")
        .await
        .unwrap();
    closes(stream, &b"\0\0\x01\x09\0\0\0\0\x01\x86".repeat(40)).await;
    // A body byte by byte.
    let line = format!("POST {}", crate::MAPS);
    let mut stream = port.ask(&line, ANN, "Content-Length: 1000\r\n\r\n{").await;
    let said = answer(&mut stream).await;
    assert!(
        said.is_empty() || said.starts_with("HTTP/1.1 408"),
        "{said}"
    );
    closes(stream, &[b' '; 100]).await;
    // A connection on which nothing more is asked.
    let mut stream = port.ask("GET /version", ANN, "\r\n").await;
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    closes(stream, &[]).await;
}

/// Objects of 20 MB together, so that they do not fit into the buffers of sockets.
async fn fill(api: &Api) {
    for n in 0..20 {
        let name = format!("big{n}");
        let op = Op {
            resource: "configmaps".into(),
            id: ObjectId::new("default", &name),
            expect: Expect::Absent,
            put: Some(
                json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"pad": "x".repeat(1 << 20)}}),
            ),
        };
        api.store()
            .write(vec![op], Author::default())
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_taken_is_given_up() {
    let port = Port::start(short()).await;
    fill(&port.api).await;
    // HTTP/1.1: nothing is read for long, and then less comes than was promised.
    let mut stream = port.ask(&format!("GET {}", crate::MAPS), BOB, "\r\n").await;
    tokio::time::sleep(SHORT * 6).await;
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    assert!(
        all.starts_with(b"HTTP/1.1 200") && all.len() < 20 << 20,
        "{}",
        all.len()
    );
    // HTTP/2 with a window of zero: what is read is no more than settings and headers.
    for path in [
        crate::MAPS.to_owned(),
        format!("{}?watch=true", crate::MAPS),
    ] {
        let mut stream = port.tls().await;
        let mut sent =
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0".to_vec();
        let mut head = vec![0x82, 0x87, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend(path.as_bytes());
        head.extend(b"\x01\x09localhost\x0f\x08");
        let bearer = format!("Bearer {BOB}");
        head.push(u8::try_from(bearer.len()).unwrap());
        head.extend(bearer.as_bytes());
        sent.extend([0, 0, u8::try_from(head.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
        sent.extend(head);
        stream.write_all(&sent).await.unwrap();
        let took = closes(stream, &[]).await;
        assert!(took >= SHORT / 2, "{path}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_read_from_who_has_not_said_who_they_are() {
    let port = Port::start(Limits::default()).await;
    for (line, wanted) in [
        (format!("POST {}", crate::MAPS), "401"),
        ("POST /version".to_owned(), "200"),
    ] {
        // Nothing of the body is sent, and the answer comes all the same.
        let mut stream = port.ask(&line, "", "Content-Length: 3000000\r\n\r\n").await;
        let said = answer(&mut stream).await;
        assert!(
            said.starts_with(&format!("HTTP/1.1 {wanted}")),
            "{line}: {said}"
        );
    }
    // Whatever a bearer without a token looks like, it is nobody's.
    for header in ["Bearer ", "Bearer", "bearer  ", "Bearer \t"] {
        let mut stream = port.tls().await;
        let text = format!(
            "GET {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {header}\r\n\r\n",
            crate::MAPS
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let said = answer(&mut stream).await;
        assert!(said.starts_with("HTTP/1.1 401"), "{header:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_too_much_learns_so_when_all_is_sent() {
    let port = Port::start(Limits::default()).await;
    let line = format!("POST {}", crate::MAPS);
    let large = vec![b' '; 4 << 20];
    let mut chunked = format!("{:x}\r\n", large.len()).into_bytes();
    chunked.extend(&large);
    chunked.extend(b"\r\n0\r\n\r\n");
    let stated = format!("Content-Length: {}\r\n\r\n", large.len());
    for (head, body) in [
        (&*stated, &large),
        ("Transfer-Encoding: chunked\r\n\r\n", &chunked),
    ] {
        // As curl does, which reads nothing until it has sent everything.
        let mut stream = port.ask(&line, ANN, head).await;
        stream.write_all(body).await.unwrap();
        stream.flush().await.unwrap();
        let said = answer(&mut stream).await;
        assert!(said.starts_with("HTTP/1.1 413"), "{head}: {said}");
        let next = format!(
            "GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANN}\r\n\r\n"
        );
        stream.write_all(next.as_bytes()).await.unwrap();
        let mut all = String::new();
        while !all.contains("HTTP/1.1 200") {
            let said = answer(&mut stream).await;
            assert!(!said.is_empty(), "{head}: the connection is closed");
            all += &said;
        }
    }
    // HTTP/2: the stream ends as it should, and the connection stays.
    let stream = TokioIo::new(port.tls().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let request = http::Request::builder()
            .method("POST")
            .uri(format!("https://localhost{}", crate::MAPS))
            .header("authorization", format!("Bearer {ANN}"))
            .body(Full::new(Bytes::from(large.clone())))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 413);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(said["reason"], "RequestEntityTooLarge", "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_what_is_for_all() {
    let port = Port::start(Limits {
        connections_per_peer: 6,
        watches_per_user: 2,
        requests_per_user: 1,
        ..Limits::default()
    })
    .await;
    let watch = format!("GET {}?watch=true", crate::MAPS);
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = port.ask(&watch, BOB, "\r\n").await;
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
        held.push(stream);
    }
    let mut third = port.ask(&watch, BOB, "\r\n").await;
    let said = answer(&mut third).await;
    assert!(
        said.starts_with("HTTP/1.1 429") && said.to_lowercase().contains("retry-after: 1"),
        "{said}"
    );
    drop(third);
    let mut other = port.ask(&watch, ANN, "\r\n").await;
    assert!(
        answer(&mut other).await.starts_with("HTTP/1.1 200"),
        "others watch"
    );
    // A request that is under way.
    let line = format!("POST {}", crate::MAPS);
    let slow = port.ask(&line, ANN, "Content-Length: 1000\r\n\r\n{").await;
    let start = Instant::now();
    loop {
        let mut stream = port.ask(&format!("GET {}", crate::MAPS), ANN, "\r\n").await;
        if answer(&mut stream).await.starts_with("HTTP/1.1 429") {
            break;
        }
        assert!(
            start.elapsed().as_secs() < 20,
            "the slow request takes a place"
        );
    }
    held.extend([other, slow]);
    // Four are held; the last of the refused may not be gone yet.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut more = Vec::new();
    for _ in 0..10 {
        more.push(port.tcp().await);
    }
    let mut closed = 0;
    for mut stream in more {
        let read = tokio::time::timeout(SHORT, stream.read(&mut [0; 1])).await;
        closed += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
    }
    assert!(
        (7..=9).contains(&closed),
        "{closed} of 10 connections were refused"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_grants_change() {
    let port = Port::start(Limits::default()).await;
    let mut stream = port
        .ask(&format!("GET {}?watch=true", crate::MAPS), BOB, "\r\n")
        .await;
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    port.api.set_access(Access::default());
    let said = answer(&mut stream).await;
    assert!(said.starts_with("0\r\n"), "the body ends: {said:?}");
    let mut stream = port.ask(&format!("GET {}", crate::MAPS), BOB, "\r\n").await;
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 401"));
}
