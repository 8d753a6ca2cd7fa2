//! Servers of MCP behind an Ingress: sessions over streamable HTTP and over events, with several endpoints, each of which knows its
//! own sessions only.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use demo::check::nothing_refused;
use demo::http::{Client, Reply};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::rig::{Rig, until};

const HOST: &str = "mcp.test";

/// Bytes of a stream of events that are nothing but line breaks.
const FLOOD: usize = 1 << 20;

const SERVICE: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tools, namespace: shop}
spec:
  hosts: [tools.internal]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints:
  - {address: 127.0.20.10, ports: {http: 9101}}
  - {address: 127.0.20.10, ports: {http: 9102}}
  - {address: 127.0.20.10, ports: {http: 9103}}
";

/// An Ingress to the servers, with annotations of MCP.
fn ingress(name: &str, path: &str, annotations: &str) -> String {
    format!(
        "---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {name}
  namespace: shop
  annotations: {{higress.io/destination: 'tools.internal:80', {annotations}}}
spec:
  ingressClassName: higress
  rules:
  - host: {HOST}
    http:
      paths:
      - path: {path}
        pathType: Prefix
        backend: {{resource: {{apiGroup: networking.higress.io, kind: McpBridge, name: default}}}}
"
    )
}

fn server(upstream: &str, path: &str, more: &str) -> String {
    format!(
        "higress.io/mcp-server: 'true', higress.io/mcp-server-upstream-type: {upstream}, \
         higress.io/mcp-server-match-rule-type: prefix, higress.io/mcp-server-match-rule-value: {path}{more}"
    )
}

/// A server of MCP that keeps sessions in its memory, over streamable HTTP at `/mcp`, and over events at `/sse` and `/messages`.
#[derive(Default)]
struct Tools {
    /// Its name.
    name: String,
    /// Sessions, with where events of them go.
    sessions: Mutex<Vec<(String, Option<mpsc::UnboundedSender<String>>)>>,
    /// Headers and paths of requests.
    seen: Mutex<Vec<(String, HeaderMap)>>,
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

fn whole(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed_unsync()
}

impl Tools {
    async fn start(address: SocketAddr, name: &str) -> Arc<Self> {
        let listener = TcpListener::bind(address).await.unwrap();
        let tools = Arc::new(Self {
            name: name.to_owned(),
            ..Self::default()
        });
        let served = tools.clone();
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let tools = served.clone();
                let service = service_fn(move |request| {
                    let tools = tools.clone();
                    async move { Ok::<_, Infallible>(tools.answer(request).await) }
                });
                let http = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                connections.spawn(http);
            }
        });
        tools
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let path = head.uri.to_string();
        self.seen
            .lock()
            .unwrap()
            .push((path.clone(), head.headers.clone()));
        let body = body.collect().await.unwrap().to_bytes();
        let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
        match (head.method.as_str(), head.uri.path()) {
            ("POST", "/mcp") => self.streamable(&head.headers, &asked),
            ("GET", "/sse") => self.events(head.uri.query().unwrap_or_default()),
            ("POST", "/messages") => self.message(head.uri.query().unwrap_or_default(), &asked),
            _ => status(StatusCode::OK, &self.name),
        }
    }

    fn result(&self, asked: &Value) -> String {
        let result = match asked["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-03-26", "serverInfo": {"name": self.name}})
            }
            Some("tools/call") => json!({"content": [{"type": "text", "text": self.name}]}),
            _ => json!({}),
        };
        json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string()
    }

    fn knows(&self, session: &str) -> bool {
        let sessions = self.sessions.lock().unwrap();
        sessions.iter().any(|(known, _)| known == session)
    }

    fn open(&self, to: Option<mpsc::UnboundedSender<String>>) -> String {
        let mut sessions = self.sessions.lock().unwrap();
        let session = format!("{}-{}", self.name, sessions.len());
        sessions.push((session.clone(), to));
        session
    }

    fn streamable(&self, headers: &HeaderMap, asked: &Value) -> Response<Body> {
        let session = match asked["method"].as_str() {
            Some("initialize") => self.open(None),
            _ => match headers.get("mcp-session-id") {
                Some(session) if self.knows(session.to_str().unwrap()) => {
                    session.to_str().unwrap().to_owned()
                }
                _ => return status(StatusCode::NOT_FOUND, "no such session"),
            },
        };
        let mut response = Response::new(whole(self.result(asked)));
        let headers = response.headers_mut();
        headers.insert("mcp-session-id", session.parse().unwrap());
        headers.insert("content-type", "application/json".parse().unwrap());
        response
    }

    /// A stream, whose pieces end anywhere.
    fn events(&self, query: &str) -> Response<Body> {
        let (to, mut events) = mpsc::unbounded_channel::<String>();
        let session = self.open(Some(to));
        let address = format!("/messages?sessionId={session}");
        let first = match query {
            "absolute" => format!("event: endpoint\ndata: http://10.0.0.1:8080{address}\n\n"),
            "relative" => format!("event:endpoint\ndata:{}\n\n", &address[1..]),
            "cr" => format!("event: endpoint\rdata: {address}\r\r"),
            "late" => format!("event: ping\ndata: {{}}\n\nevent: endpoint\ndata: {address}\n\n"),
            "long" => {
                let long = "x".repeat(200_000);
                format!(": {long}\n\nevent: endpoint\ndata: {address}\n\n")
            }
            "flood" => "\n\n".repeat(FLOOD / 2),
            _ => format!(": hello\r\n\r\nevent: endpoint\r\ndata: {address}\r\n\r\n"),
        };
        let length = match query {
            "bytes" => 1,
            _ if first.len() > 100_000 => 100_000,
            _ => 37,
        };
        let (pieces, body) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
        tokio::spawn(async move {
            for piece in first.as_bytes().chunks(length) {
                let piece = Bytes::copy_from_slice(piece);
                if pieces.send(Ok(Frame::data(piece))).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            while let Some(event) = events.recv().await {
                let text = format!("event: message\ndata: {event}\n\n");
                if pieces.send(Ok(Frame::data(text.into()))).await.is_err() {
                    return;
                }
            }
        });
        let stream = futures::stream::unfold(body, async |mut body| {
            body.recv().await.map(|piece| (piece, body))
        });
        let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
        let headers = response.headers_mut();
        headers.insert("content-type", "text/event-stream".parse().unwrap());
        response
    }

    fn message(&self, query: &str, asked: &Value) -> Response<Body> {
        let session = query.strip_prefix("sessionId=").unwrap_or_default();
        let sessions = self.sessions.lock().unwrap();
        let found = sessions.iter().find(|(known, _)| known == session);
        let Some((_, Some(to))) = found else {
            return status(StatusCode::NOT_FOUND, "no such session");
        };
        to.send(self.result(asked)).unwrap();
        status(StatusCode::ACCEPTED, "")
    }
}

fn status(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(whole(text.to_owned()));
    *response.status_mut() = status;
    response
}

fn asked(method: &str) -> String {
    let params = json!({"name": "who", "arguments": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

/// A request over a connection of its own.
async fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], method: &str) -> Reply {
    let mut client = Client::new(address, HOST);
    let sent = client.send_body(Method::POST, path, headers, asked(method));
    sent.await.unwrap()
}

/// A stream of events, as a client reads it.
struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    async fn open(address: SocketAddr, path: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", HOST)
            .header("accept", "text/event-stream")
            .header("accept-encoding", "gzip")
            .body(Full::<Bytes>::default())
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("x-pilothouse-endpoint"));
        // The connection lives as long as what asks over it.
        tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        Self {
            body: response.into_body(),
            text: String::new(),
        }
    }

    /// The data of the next event of a type.
    async fn next(&mut self, event: &str) -> String {
        let wanted = format!("event: {event}\n");
        loop {
            let text = self.text.replace("\r\n", "\n").replace('\r', "\n");
            let text = text.replace("event:endpoint\ndata:", "event: endpoint\ndata: ");
            if let Some(at) = text.find(&wanted)
                && let Some(end) = text[at..].find("\n\n")
            {
                let data = text[at + wanted.len()..at + end].to_owned();
                self.text = text[at + end + 2..].to_owned();
                return data.strip_prefix("data: ").unwrap().to_owned();
            }
            let frame = timeout(Duration::from_secs(20), self.body.frame()).await;
            let frame = frame
                .expect("an event comes")
                .expect("a stream goes on")
                .unwrap();
            if let Ok(data) = frame.into_data() {
                self.text.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
    }
}

/// The session of each client stays with the endpoint that made it; the endpoints.
async fn over_streamable(address: SocketAddr, path: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for _ in 0..9 {
        let opened = post(address, path, &[], "initialize").await;
        assert_eq!(opened.status, 200);
        let name = opened.json().unwrap()["result"]["serverInfo"]["name"].clone();
        let session = opened.headers["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(!opened.headers.contains_key("x-pilothouse-endpoint"));
        for _ in 0..5 {
            let headers = [("mcp-session-id", &*session)];
            let called = post(address, path, &headers, "tools/call").await;
            assert_eq!(called.status, 200, "{}", called.text());
            assert_eq!(called.json().unwrap()["result"]["content"][0]["text"], name);
            // A session is called the same in every answer.
            assert_eq!(called.headers["mcp-session-id"], *session);
        }
        names.insert(name.as_str().unwrap().to_owned());
    }
    names
}

/// The same over events; clients are told addresses that begin so.
async fn over_events(address: SocketAddr, path: &str, begins: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = Vec::new();
    for _ in 0..9 {
        let mut events = Events::open(address, path).await;
        let endpoint = events.next("endpoint").await;
        assert!(endpoint.starts_with(begins), "{endpoint}");
        let mut of_one = BTreeSet::new();
        for _ in 0..5 {
            let sent = post(address, &endpoint, &[], "tools/call").await;
            assert_eq!(sent.status, 202, "{endpoint}: {}", sent.text());
            let answer: Value = serde_json::from_str(&events.next("message").await).unwrap();
            of_one.insert(
                answer["result"]["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
        assert_eq!(of_one.len(), 1);
        names.extend(of_one);
        open.push(events);
    }
    names
}

pub(crate) async fn a_session_of_mcp_stays_with_the_endpoint_that_made_it(mut rig: Rig) {
    let [plain, _] = rig.serve_ingresses("higress");
    let mut all = Vec::new();
    for (port, name) in [(9101, "one"), (9102, "two"), (9103, "three")] {
        let address = rig.address(&format!("127.0.20.10:{port}"));
        all.push(Tools::start(address, name).await);
    }
    let rewrite = ", higress.io/mcp-server-enable-path-rewrite: 'true', higress.io/mcp-server-path-rewrite-prefix: /";
    let text = [
        SERVICE.to_owned(),
        ingress("streamable", "/mcp", &server("streamable", "/mcp", "")),
        ingress("events", "/tools", &server("sse", "/tools", rewrite)),
        ingress("moved", "/s", &server("streamable", "/s", rewrite)),
        ingress("sessions", "/", "higress.io/load-balance: mcp-sse"),
        ingress("rest", "/rest", &server("rest", "/rest", "")),
        ingress("rpc", "/rpc", "higress.io/rpc-destination-name: demo"),
    ];
    rig.write("mcp.yaml", &text.concat());
    let mesh = rig.gateway().await;
    let address = (rig.block.gateway().ip(), plain).into();
    until("the servers are reached", async || {
        let reply = Client::new(address, HOST).get("/other").await;
        reply.is_ok_and(|reply| reply.status == 200)
    })
    .await;
    assert!(over_streamable(address, "/mcp").await.len() > 1);
    assert!(over_streamable(address, "/s/mcp").await.len() > 1);
    assert!(
        over_events(address, "/sse", "/messages?sessionId=")
            .await
            .len()
            > 1
    );
    assert!(
        over_events(address, "/tools/sse", "/tools/messages?sessionId=")
            .await
            .len()
            > 1
    );
    // Clients do not talk to where a server says that it is.
    over_events(address, "/tools/sse?absolute", "/tools/messages?sessionId=").await;
    for (how, begins, is_bound) in [
        ("relative", "messages?sessionId=", true),
        ("cr", "/tools/messages?sessionId=", true),
        ("late", "/tools/messages?sessionId=", true),
        ("bytes", "/tools/messages?sessionId=", true),
        // What is too long is passed on as it is, and so is what follows.
        ("long", "/messages?sessionId=", false),
    ] {
        let mut events = Events::open(address, &format!("/tools/sse?{how}")).await;
        let endpoint = events.next("endpoint").await;
        assert!(endpoint.starts_with(begins), "{how}: {endpoint}");
        assert_eq!(
            endpoint.contains("&pilothouse-endpoint="),
            is_bound,
            "{how}: {endpoint}"
        );
    }
    // Events without end keep no worker busy, however short they are: looking at all of them took minutes.
    let mut flood = Events::open(address, "/tools/sse?flood").await;
    let passed = timeout(Duration::from_secs(20), async {
        let mut passed = 0;
        while passed < FLOOD {
            let frame = flood.body.frame().await.unwrap().unwrap();
            passed += frame.into_data().map_or(0, |data| data.len());
        }
        passed
    });
    assert_eq!(passed.await.expect("all events pass in time"), FLOOD);
    // What goes between the filters is not seen by servers, whoever sent it, nor is what the address says beside the server's.
    let lie = [
        ("x-pilothouse-endpoint", "MTI3LjAuMC4xOjE="),
        ("mcp-session-id", "nobody~MTI3"),
    ];
    assert_eq!(post(address, "/mcp", &lie, "tools/call").await.status, 404);
    for tools in &all {
        for (path, headers) in tools.seen.lock().unwrap().iter() {
            assert!(!path.contains("pilothouse"), "{path}");
            assert!(!headers.contains_key("x-pilothouse-endpoint"), "{path}");
            let session = headers.get("mcp-session-id");
            assert!(
                session.is_none_or(|id| !id.to_str().unwrap().contains('~')),
                "{session:?}"
            );
        }
    }
    what_a_section_wants_is_closed(&rig, address).await;
    // What only Higress's Envoy can do is closed.
    for (path, lacking) in [("/rest", "golang"), ("/rpc", "http_dubbo_transcoder")] {
        let reply = Client::new(address, HOST).get(path).await.unwrap();
        assert_eq!(reply.status, 503);
        assert!(reply.text().contains(lacking), "{}", reply.text());
    }
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

/// What the gateway has no filter for is closed while the options state it, whatever route has the path; other requests are not.
async fn what_a_section_wants_is_closed(rig: &Rig, address: SocketAddr) {
    let long = "x".repeat(200);
    let section = |what: &str| {
        let sections = format!(
            "mcpServer: {{{what}, sse_path_suffix: /sse, redis: {{address: 'redis:6379', password: hunter2}}, \
             match_list: [\
             {{match_rule_domain: '*', match_rule_path: /mcp, match_rule_type: prefix, upstream_type: streamable}}, \
             {{match_rule_domain: '*.test', match_rule_path: {long}.json, match_rule_type: suffix}}, \
             {{match_rule_domain: '{HOST}', match_rule_path: '^/z\\d+/(a|b)$', match_rule_type: regex}}, \
             {{match_rule_path: /exact, match_rule_type: exact, upstream_type: rest}}, \
             {{match_rule_domain: other.test, match_rule_path: /, match_rule_type: prefix}}], \
             servers: [{{name: a, type: rag, path: /inside, domain_list: ['{HOST}', b.test]}}]}}"
        );
        let data = json!({"higress": sections});
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: higress-config, namespace: shop}}\ndata: {data}\n"
        );
        rig.write("options.yaml", &map);
    };
    let status = async |path: &str| {
        let reply = Client::new(address, HOST).get(path).await;
        reply.map_or(0, |reply| reply.status)
    };
    section("enable: true");
    until("a server inside of the gateway is closed", async || {
        status("/inside").await == 503
    })
    .await;
    let suffix = format!("/a/{long}.json");
    for path in ["/inside/b", "/insider", "/z12/a", "/exact", &suffix] {
        let reply = Client::new(address, HOST).get(path).await.unwrap();
        assert_eq!(reply.status, 503, "{path}");
        assert!(reply.text().contains("golang"), "{}", reply.text());
    }
    let posted = post(address, "/inside", &[], "tools/call").await;
    assert_eq!(posted.status, 503);
    for path in ["/other", "/outside/inside", "/z12/c", "/exact/b", "/a.json"] {
        assert_eq!(status(path).await, 200, "{path}");
    }
    assert!(over_streamable(address, "/mcp").await.len() > 1);
    // Who counts requests of users, and knows what is theirs, is not there.
    section("enable: true, enable_user_level_server: true");
    until("servers of users are closed", async || {
        status("/mcp").await == 503
    })
    .await;
    section("enable: false, enable_user_level_server: true");
    until("what is off is open", async || {
        status("/inside").await == 200
    })
    .await;
    assert_eq!(status("/exact").await, 200);
}
