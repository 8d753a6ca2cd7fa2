//! The control plane's own pod, and its ports.

use std::net::SocketAddr;
use std::time::Duration;

use apiserver::forward::OwnPod;
use apiserver::forward::spdy::{self, Decoder, Encoder, Frame};
use apiserver::http::{Security, serve};
use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::{MERGE, World};

const POD: &str = "/api/v1/namespaces/default/pods/pilothouse-0";

/// An API of a pod with a port that says `hello`, and its address.
async fn start(world: &World) -> SocketAddr {
    let greeter = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = greeter.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = greeter.accept().await {
            let _ = socket.write_all(b"hello").await;
        }
    });
    world.api.set_own_pod(OwnPod {
        namespace: "default".to_owned(),
        name: "pilothouse-0".to_owned(),
        labels: [("app".to_owned(), "istiod".to_owned())].into(),
        annotations: Default::default(),
        ports: vec![(15014, port)],
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (api, stop) = (world.api.clone(), CancellationToken::new());
    tokio::spawn(serve(listener, Security::InsecureLocal, api, stop));
    address
}

/// A connection after the answer to a request, with the head of that.
async fn asked(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
) -> (TcpStream, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    (socket, String::from_utf8(head).unwrap())
}

const SPDY: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n\
    Content-Length: 0\r\n";
const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n";

/// What a client sends to hear what a port says.
fn opening() -> Vec<Bytes> {
    let mut encoder = Encoder::default();
    let headers = |kind| [("streamtype", kind), ("port", "15014"), ("requestid", "0")];
    vec![
        encoder.open(1, &headers("error"), true),
        encoder.open(3, &headers("data"), false),
        spdy::data(3, b"", true),
    ]
}

/// What stream 3 says to its end, of pieces as they come.
struct Said {
    decoder: Decoder,
    text: Vec<u8>,
}

impl Said {
    fn new() -> Self {
        let decoder = Decoder::default();
        let text = Vec::new();
        Self { decoder, text }
    }

    /// Whether that was the end.
    fn take(&mut self, piece: &[u8]) -> bool {
        self.decoder.push(piece);
        while let Some(frame) = self.decoder.pop().unwrap() {
            if let Frame::Data {
                stream: 3,
                data,
                last,
            } = frame
            {
                self.text.extend_from_slice(&data);
                if last {
                    return true;
                }
            }
        }
        false
    }
}

#[tokio::test]
async fn a_port_of_the_pod_is_reached_by_spdy() {
    let world = World::new().await;
    let address = start(&world).await;
    let path = format!("{POD}/portforward");
    let (mut socket, head) = asked(address, "POST", &path, SPDY).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    socket.write_all(&opening().concat()).await.unwrap();
    let (mut said, mut buffer) = (Said::new(), vec![0; 4096]);
    loop {
        let reading = socket.read(&mut buffer);
        let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
        let read = read.expect("an answer comes").unwrap();
        assert!(read > 0, "{:?}", said.text);
        if said.take(&buffer[..read]) {
            break;
        }
    }
    assert_eq!(said.text, b"hello");
}

#[tokio::test]
async fn a_port_of_the_pod_is_reached_inside_of_a_web_socket() {
    let world = World::new().await;
    let address = start(&world).await;
    let path = format!("{POD}/portforward");
    let (mut socket, head) = asked(address, "GET", &path, WEBSOCKET).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let head = head.to_ascii_lowercase();
    let accept = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
    assert!(head.contains(accept), "{head}");
    for frame in opening() {
        // A mask of zeros leaves it as it is.
        let len = u8::try_from(frame.len()).unwrap();
        assert!(len < 126);
        let head = [0x82, 0x80 | len, 0, 0, 0, 0];
        socket
            .write_all(&[&head, &frame[..]].concat())
            .await
            .unwrap();
    }
    let mut said = Said::new();
    loop {
        let reading = async {
            let (kind, len) = (
                socket.read_u8().await.unwrap(),
                socket.read_u8().await.unwrap(),
            );
            assert!(kind == 0x82 && len < 126, "{kind} {len}");
            let mut content = vec![0; usize::from(len)];
            socket.read_exact(&mut content).await.unwrap();
            content
        };
        let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
        if said.take(&read.expect("an answer comes")) {
            break;
        }
    }
    assert_eq!(said.text, b"hello");
}

#[tokio::test]
async fn the_pod_is_found_and_not_changed() {
    let world = World::new().await;
    let address = start(&world).await;
    let query = "labelSelector=app%3Distiod&fieldSelector=status.phase%3DRunning";
    let (_, found) = world.get(&format!("/api/v1/pods?{query}")).await;
    assert_eq!(found["items"][0]["metadata"]["name"], "pilothouse-0");
    assert_eq!(world.get(POD).await.1["status"]["phase"], "Running");
    let labels = json!({"metadata": {"labels": {"app": "other"}}});
    assert_eq!(world.patch(MERGE, POD, labels).await.0, 404);
    assert_eq!(world.delete(POD).await.0, 403);

    let status = async |path: &str, headers: &str| {
        let (_, head) = asked(address, "GET", path, headers).await;
        head.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status(&format!("{POD}/portforward"), "").await, "400");
    let nobody = "/api/v1/namespaces/default/pods/nobody/portforward";
    assert_eq!(status(nobody, WEBSOCKET).await, "404");
    let pod =
        json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let (made, _) = world.post("/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(made, 201);
    let other = "/api/v1/namespaces/default/pods/web/portforward";
    assert_eq!(status(other, WEBSOCKET).await, "400");
}
