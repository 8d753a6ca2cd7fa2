//! Fetching from servers and registries of our own, kind and hostile ones.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use model::object::ObjectName;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::unbox::tests::{archive, gzip};
use super::*;
use source_api::Delivery;
use source_api::SourceEvent;

const PATIENCE: Duration = Duration::from_secs(60);
const A: &[u8] = b"\0asm\x01\0\0\0 a";
const B: &[u8] = b"\0asm\x01\0\0\0 b";
const LARGEST: usize = 4096;

/// What is answered at a path.
#[derive(Clone)]
enum Reply {
    Body(Bytes),
    Status(u16),
    Elsewhere(String),
    /// Zeros without end.
    Endless,
    /// A body that is begun and goes on no further.
    Stuck,
}

/// A path, and the header that says who asks.
type Seen = (String, Option<String>);

/// A server whose answers a test sets, by path. It may want to know who asks.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<BTreeMap<String, Reply>>>,
    /// The header without which a path below `/v2/` answers with 401, and what it says then.
    wants: Arc<Mutex<Option<(String, String)>>>,
    /// What `/token` wants in turn.
    token_wants: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    fn answer(&self, path: impl Into<String>, reply: Reply) {
        self.answers.lock().unwrap().insert(path.into(), reply);
    }

    fn body(&self, path: impl Into<String>, body: impl Into<Bytes>) {
        self.answer(path, Reply::Body(body.into()));
    }

    /// An image of one layer under a tag; returns the digests of its manifest and its layer.
    fn image(&self, repository: &str, tag: &str, layer: &[u8]) -> (String, String) {
        let blob = sha(layer);
        let manifest = serde_json::json!({"layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": format!("sha256:{blob}"), "size": layer.len()}]})
        .to_string();
        let digest = sha(manifest.as_bytes());
        let at = |rest: String| format!("/v2/{repository}/{rest}");
        self.body(at(format!("blobs/sha256:{blob}")), layer.to_vec());
        self.body(at(format!("manifests/sha256:{digest}")), manifest.clone());
        self.body(at(format!("manifests/{tag}")), manifest);
        (digest, blob)
    }

    async fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let reply = server.reply(request.uri().path(), request.headers());
                    async move { Ok::<_, Infallible>(reply) }
                });
                tokio::spawn(async move {
                    // A client that goes away is no failure of the test.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        address
    }

    fn reply(&self, path: &str, headers: &HeaderMap) -> Response<BoxBody<Bytes, Infallible>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let header = headers.get("authorization");
        let header = header.map(|value| value.to_str().unwrap().to_owned());
        self.seen
            .lock()
            .unwrap()
            .push((path.to_owned(), header.clone()));
        let full = |body: Bytes| Full::new(body).boxed();
        let status = |status: u16| Response::builder().status(status);
        if let Some((wanted, challenge)) = self.wants.lock().unwrap().clone()
            && path.starts_with("/v2/")
            && header.as_ref() != Some(&wanted)
        {
            let response = status(401).header("www-authenticate", challenge);
            return response.body(full(Bytes::new())).unwrap();
        }
        if path == "/token"
            && let Some(wanted) = self.token_wants.lock().unwrap().clone()
            && header.as_ref() != Some(&wanted)
        {
            return status(401).body(full(Bytes::new())).unwrap();
        }
        let reply = self.answers.lock().unwrap().get(path).cloned();
        match reply.unwrap_or(Reply::Status(404)) {
            Reply::Body(body) => status(200).body(full(body)).unwrap(),
            Reply::Status(code) => status(code).body(full(Bytes::new())).unwrap(),
            Reply::Elsewhere(to) => {
                let response = status(307).header("location", to);
                response.body(full(Bytes::new())).unwrap()
            }
            Reply::Endless => {
                let zeros = Bytes::from_static(&[0; 1024]);
                let frames = futures::stream::repeat_with(move || Ok(Frame::data(zeros.clone())));
                status(200)
                    .body(BodyExt::boxed(StreamBody::new(frames)))
                    .unwrap()
            }
            Reply::Stuck => {
                let first = futures::stream::iter([Ok(Frame::data(Bytes::from_static(A)))]);
                let frames = futures::StreamExt::chain(first, futures::stream::pending());
                status(200)
                    .body(BodyExt::boxed(StreamBody::new(frames)))
                    .unwrap()
            }
        }
    }
}

fn sha(bytes: &[u8]) -> String {
    Module::new(bytes.to_vec()).sha256()
}

fn options() -> Options {
    Options {
        refresh: Duration::from_millis(30),
        blocked: Vec::new(),
        allowed: vec!["127.0.0.0/8".parse().unwrap()],
        plain_registries: vec!["*".to_owned()],
        longest: Duration::from_secs(20),
        late: Duration::from_secs(20),
        largest: LARGEST,
        total: 3 * LARGEST,
        extra_roots: None,
        dir: None,
        attempted: Arc::new(|_| ()),
    }
}

fn source(url: impl Into<String>) -> ModuleSource {
    ModuleSource {
        url: url.into().into(),
        sha256: "".into(),
        pull: Pull::Once,
        secret: None,
    }
}

async fn fetch(source: &ModuleSource, credentials: Option<&str>) -> Result<String, String> {
    let fetcher = ModuleFetcher::new(&options()).unwrap();
    let credentials = credentials.map(PullCredentials::new);
    let fetch = fetcher.fetch(source, credentials.as_ref(), None);
    let came = tokio::time::timeout(PATIENCE, fetch).await.unwrap();
    came.map(|came| came.module.sha256())
        .map_err(|e| e.to_string())
}

#[tokio::test]
async fn a_module_comes_from_a_file_of_a_server() {
    let server = Server::default();
    let address = server.start().await;
    server.body("/a.wasm", A);
    server.body("/a.tar.gz", gzip(&archive(&[("plugin.wasm", A)])));
    server.body("/page", "<html>");
    server.body("/large", vec![0; LARGEST + 1]);
    server.body("/bomb", gzip(&vec![0; 1 << 20]));
    server.answer("/endless", Reply::Endless);
    server.answer("/loop", Reply::Elsewhere("/loop".to_owned()));
    server.answer(
        "/away",
        Reply::Elsewhere("http://169.254.169.254/x".to_owned()),
    );
    server.answer("/here", Reply::Elsewhere("/a.wasm".to_owned()));
    let at = |path: &str| source(format!("http://{address}{path}"));
    let get = async |path: &str| fetch(&at(path), None).await;
    let there = Ok(sha(A));
    assert_eq!(get("/a.wasm").await, there);
    assert_eq!(get("/a.tar.gz").await, there);
    assert_eq!(get("/here").await, there);
    let checked = |digest: String| ModuleSource {
        sha256: digest.into(),
        ..at("/a.wasm")
    };
    assert_eq!(fetch(&checked(sha(A)), None).await, there);
    let other = fetch(&checked(sha(B)), None).await.unwrap_err();
    assert_eq!(other, format!("its SHA-256 is {}", sha(A)));
    for (path, part) in [
        ("/page", "is no Wasm module"),
        ("/large", "larger than 4096"),
        ("/bomb", "larger than 4096"),
        ("/endless", "larger than 4096"),
        ("/loop", "too many redirects"),
        ("/away", "blocked address"),
        ("/none", "answered 404"),
    ] {
        let error = get(path).await.unwrap_err();
        assert!(error.contains(part), "{path}: {error}");
    }
    let guarded = Options {
        allowed: Vec::new(),
        ..options()
    };
    let guarded = ModuleFetcher::new(&guarded).unwrap();
    let refused = guarded.fetch(&at("/a.wasm"), None, None).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("--wasm-allowed-cidrs"), "{error}");
}

#[tokio::test]
async fn a_module_comes_from_an_image() {
    let server = Server::default();
    let address = server.start().await;
    let layer = gzip(&archive(&[("plugin.wasm", A)]));
    let (manifest, blob) = server.image("p/a", "v1", &layer);
    let index = serde_json::json!({"manifests": [{"digest": format!("sha256:{manifest}")}]});
    server.body("/v2/p/a/manifests/all", index.to_string());
    let of = |rest: &str| source(format!("oci://{address}/{rest}"));
    for name in ["p/a:v1", "p/a:all", &format!("p/a@sha256:{manifest}")] {
        assert_eq!(fetch(&of(name), None).await, Ok(sha(A)), "{name}");
    }
    for digest in [&manifest, &sha(A), &sha(index.to_string().as_bytes())] {
        let checked = ModuleSource {
            sha256: digest.as_str().into(),
            ..of("p/a:all")
        };
        assert_eq!(fetch(&checked, None).await, Ok(sha(A)), "{digest}");
    }
    // Neither a manifest nor a layer is taken for another.
    server.body(format!("/v2/p/a/manifests/sha256:{manifest}"), "{}");
    let error = fetch(&of("p/a:all"), None).await.unwrap_err();
    assert!(error.contains("answered something else"), "{error}");
    server.body(format!("/v2/p/a/blobs/sha256:{blob}"), B);
    let error = fetch(&of("p/a:v1"), None).await.unwrap_err();
    assert!(error.contains("answered something else"), "{error}");
    // Layers may be kept elsewhere.
    server.body("/kept", layer);
    server.answer(
        format!("/v2/p/a/blobs/sha256:{blob}"),
        Reply::Elsewhere("/kept".to_owned()),
    );
    assert_eq!(fetch(&of("p/a:v1"), None).await, Ok(sha(A)));

    let large =
        serde_json::json!({"layers": [{"digest": format!("sha256:{blob}"), "size": 1_u64 << 40}]});
    server.body("/v2/p/large/manifests/v1", large.to_string());
    let nested = serde_json::json!({"manifests": [{"digest": format!("sha256:{}", sha(index.to_string().as_bytes()))}]});
    server.body("/v2/p/nested/manifests/v1", nested.to_string());
    server.body(
        format!(
            "/v2/p/nested/manifests/sha256:{}",
            sha(index.to_string().as_bytes())
        ),
        index.to_string(),
    );
    server.body("/v2/p/odd/manifests/v1", "[]");
    server.answer("/v2/p/endless/manifests/v1", Reply::Endless);
    for (name, part) in [
        ("p/large:v1", "larger than 4096"),
        ("p/nested:v1", "its manifest is not one"),
        ("p/odd:v1", "its manifest is not one"),
        ("p/endless:v1", "larger than 1048576"),
        ("p/none:v1", "answered 404"),
    ] {
        let error = fetch(&of(name), None).await.unwrap_err();
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_registry_learns_who_asks_and_nobody_else_does() {
    let (server, store) = (Server::default(), Server::default());
    let (address, store_at) = (server.start().await, store.start().await);
    let layer = A.to_vec();
    let (_, blob) = server.image("p/a", "v1", &layer);
    let image = source(format!("oci://{address}/p/a:v1"));
    let config = |host: &str| format!(r#"{{"auths": {{"{host}": {{"auth": "bWU6aXQ="}}}}}}"#);
    let own = config(&address.to_string());
    let basic = "Basic bWU6aXQ=".to_owned();
    *server.wants.lock().unwrap() = Some((basic.clone(), "Basic realm=\"r\"".to_owned()));
    assert_eq!(fetch(&image, Some(&own)).await, Ok(sha(A)));
    for other in [None, Some(config("other.example")), Some("no".to_owned())] {
        let error = fetch(&image, other.as_deref()).await.unwrap_err();
        assert!(error.contains("lets nobody in"), "{error}");
    }
    // By a token, which is had for the name and the password.
    let challenge = format!("Bearer realm=\"http://{address}/token\",service=\"r\"");
    *server.wants.lock().unwrap() = Some(("Bearer t".to_owned(), challenge));
    *server.token_wants.lock().unwrap() = Some(basic.clone());
    server.body("/token", r#"{"token": "t"}"#);
    assert_eq!(fetch(&image, Some(&own)).await, Ok(sha(A)));
    let error = fetch(&image, None).await.unwrap_err();
    assert!(error.contains("lets nobody in"), "{error}");
    server.body("/token", r#"{"access_token": "old"}"#);
    let error = fetch(&image, Some(&own)).await.unwrap_err();
    assert!(error.contains("lets nobody in"), "{error}");
    server.body("/token", r#"{"access_token": "t"}"#);
    // Where layers are kept nobody is told.
    let path = format!("/v2/p/a/blobs/sha256:{blob}");
    server.answer(&path, Reply::Elsewhere(format!("http://{store_at}/blob")));
    store.body("/blob", layer);
    assert_eq!(fetch(&image, Some(&own)).await, Ok(sha(A)));
    assert_eq!(*store.seen.lock().unwrap(), [("/blob".to_owned(), None)]);
    // Nor is a password sent on from where tokens are had.
    server.answer(
        "/token",
        Reply::Elsewhere(format!("http://{store_at}/token")),
    );
    let error = fetch(&image, Some(&own)).await.unwrap_err();
    assert!(error.contains("answered 307"), "{error}");
    assert_eq!(store.seen.lock().unwrap().len(), 1);
}

/// The task under test, and what it has said.
struct Running {
    want: watch::Sender<Wanted>,
    said: mpsc::UnboundedReceiver<Delivery>,
    stop: CancellationToken,
}

fn demand(source: &ModuleSource, version: &str) -> ModuleDemand {
    ModuleDemand {
        source: source.clone(),
        credentials: None,
        object: ObjectName::new("shop", "plugin"),
        version: version.into(),
    }
}

impl Running {
    fn start(options: Options, demands: impl IntoIterator<Item = ModuleDemand>) -> Self {
        let (want, wanted) = watch::channel(Arc::new(demands.into_iter().collect()));
        let (out, said) = Sink::channel(Owner::new(0, "wasm"), 8);
        let stop = CancellationToken::new();
        tokio::spawn(run(wanted, options, out, stop.clone()));
        Self { want, said, stop }
    }

    fn want(&self, demands: impl IntoIterator<Item = ModuleDemand>) {
        self.want
            .send_replace(Arc::new(demands.into_iter().collect()));
    }

    /// The digest of the module and the trouble that are told next of a source, or that it is forgotten.
    async fn next(&mut self) -> (String, Option<(Option<String>, Option<String>)>) {
        let said = tokio::time::timeout(PATIENCE, self.said.recv()).await;
        match said.expect("something is said").expect("it runs").event {
            SourceEvent::Changes(changes) => match changes.into_iter().next() {
                Some(Change::Module(source, fetched)) => {
                    let fetched = fetched.map(|f| {
                        let module = f.module.as_ref().map(Module::sha256);
                        (module, f.trouble.as_ref().map(ToString::to_string))
                    });
                    (source.url.to_string(), fetched)
                }
                other => panic!("{other:?}"),
            },
            SourceEvent::Read { .. }
            | SourceEvent::Findings(..)
            | SourceEvent::Waits(_)
            | SourceEvent::Stands(_) => {
                panic!("not said of modules")
            }
        }
    }

    async fn outcome(&mut self) -> (Option<String>, Option<String>) {
        self.next().await.1.expect("an outcome")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test]
async fn a_module_that_may_change_is_fetched_anew_and_the_last_good_one_is_kept() {
    let server = Server::default();
    let address = server.start().await;
    server.answer("/a", Reply::Status(500));
    let source = ModuleSource {
        pull: Pull::Always,
        ..source(format!("http://{address}/a"))
    };
    let mut running = Running::start(options(), [demand(&source, "1")]);
    let (module, trouble) = running.outcome().await;
    assert_eq!(module, None);
    assert_eq!(trouble.as_deref(), Some("127.0.0.1 answered 500"));
    server.body("/a", A);
    // An edit does not wait.
    running.want([demand(&source, "2")]);
    assert_eq!(running.outcome().await, (Some(sha(A)), None));
    server.body("/a", B);
    assert_eq!(running.outcome().await, (Some(sha(B)), None));
    server.answer("/a", Reply::Status(404));
    let (module, trouble) = running.outcome().await;
    assert_eq!(module, Some(sha(B)));
    assert_eq!(trouble.as_deref(), Some("127.0.0.1 answered 404"));
    running.want([]);
    assert_eq!(running.next().await, (source.url.to_string(), None));
}

#[tokio::test]
async fn a_module_that_does_not_change_is_fetched_once() {
    let server = Server::default();
    let address = server.start().await;
    server.body("/a", A);
    let source = source(format!("http://{address}/a"));
    let mut running = Running::start(options(), [demand(&source, "1")]);
    assert_eq!(running.outcome().await, (Some(sha(A)), None));
    running.want([demand(&source, "2")]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_image_that_is_still_the_same_is_not_fetched_whole() {
    let server = Server::default();
    let address = server.start().await;
    let (_, blob) = server.image("p/a", "latest", A);
    let source = ModuleSource {
        pull: Pull::Always,
        ..source(format!("oci://{address}/p/a"))
    };
    let mut running = Running::start(options(), [demand(&source, "1")]);
    assert_eq!(running.outcome().await, (Some(sha(A)), None));
    let counted = |part: &str| {
        let seen = server.seen.lock().unwrap();
        seen.iter().filter(|(path, _)| path.contains(part)).count()
    };
    while counted("/manifests/") < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(counted(&blob), 1);
}

#[tokio::test]
async fn of_a_module_that_is_slow_it_is_said_and_others_do_not_wait_for_it() {
    let server = Server::default();
    let address = server.start().await;
    server.answer("/slow", Reply::Stuck);
    server.body("/a", A);
    let slow = source(format!("http://{address}/slow"));
    let brief = Options {
        late: Duration::from_millis(100),
        longest: Duration::from_millis(400),
        ..options()
    };
    let mut running = Running::start(brief, [demand(&slow, "1")]);
    let late = Some("it is still being fetched".to_owned());
    assert_eq!(running.outcome().await, (None, late));
    let other = source(format!("http://{address}/a"));
    running.want([demand(&slow, "1"), demand(&other, "1")]);
    assert_eq!(running.outcome().await, (Some(sha(A)), None));
    let (module, trouble) = running.outcome().await;
    assert_eq!(module, None);
    assert_eq!(trouble.as_deref(), Some("it did not come within 400ms"));
}

#[tokio::test]
async fn a_namespace_whose_module_failed_pauses_and_others_do_not() {
    let server = Server::default();
    let address = server.start().await;
    server.answer("/slow", Reply::Stuck);
    server.body("/a", A);
    server.body("/b", B);
    let of = |namespace: &str, path: &str| ModuleDemand {
        object: ObjectName::new(namespace, "plugin"),
        ..demand(&source(format!("http://{address}{path}")), "1")
    };
    let brief = Options {
        longest: Duration::from_millis(400),
        ..options()
    };
    let mut running = Running::start(brief, [of("shop", "/slow")]);
    assert_eq!(running.outcome().await.0, None);
    running.want([of("shop", "/slow"), of("shop", "/a"), of("cart", "/b")]);
    assert_eq!(running.outcome().await, (Some(sha(B)), None));
    assert_eq!(running.outcome().await, (Some(sha(A)), None));
}

#[tokio::test]
async fn a_restarted_source_has_what_it_had_before_anybody_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let kept = Options {
        dir: Some(dir.path().to_owned()),
        refresh: PATIENCE,
        ..options()
    };
    let server = Server::default();
    let address = server.start().await;
    server.image("p/a", "v1", A);
    let image = source(format!("oci://{address}/p/a:v1"));
    let mut running = Running::start(kept.clone(), [demand(&image, "1")]);
    assert_eq!(running.outcome().await, (Some(sha(A)), None));
    // It was written before it was told.
    let modules = dir.path().join("modules").join(sha(A));
    drop(running);
    let asked = server.asked.load(Ordering::SeqCst);
    server.answer("/v2/p/a/manifests/v1", Reply::Status(500));
    let mut again = Running::start(kept.clone(), [demand(&image, "1")]);
    assert_eq!(again.outcome().await, (Some(sha(A)), None));
    assert_eq!(server.asked.load(Ordering::SeqCst), asked);
    drop(again);
    // What is damaged is fetched.
    std::fs::write(&modules, "damaged").unwrap();
    let mut damaged = Running::start(kept, [demand(&image, "1")]);
    let (module, trouble) = damaged.outcome().await;
    assert_eq!(module, None);
    assert_eq!(trouble.as_deref(), Some("127.0.0.1 answered 500"));
}

#[tokio::test]
async fn modules_in_use_have_a_limit_together() {
    let server = Server::default();
    let address = server.start().await;
    let module = |n: u8| [A, &vec![n; 3000]].concat();
    for n in 0..7 {
        server.body(format!("/{n}"), module(n));
    }
    for path in ["/same", "/again"] {
        server.body(path, module(0));
    }
    let of = |namespace: &str, path: &str| ModuleDemand {
        object: ObjectName::new(namespace, "plugin"),
        ..demand(&source(format!("http://{address}/{path}")), "1")
    };
    let limited = Options {
        total: 20_000,
        ..options()
    };
    // A module that two URLs name counts once.
    let mut wanted: Vec<ModuleDemand> = ["0", "1", "2", "same"].map(|p| of("shop", p)).into();
    let mut running = Running::start(limited, wanted.clone());
    for _ in 0..4 {
        assert_eq!(running.outcome().await.1, None);
    }
    let no_room = |told: (Option<String>, Option<String>)| {
        told.0.is_none() && told.1.is_some_and(|why| why.contains("--wasm-max-total"))
    };
    // A namespace has half of all.
    wanted.push(of("shop", "3"));
    running.want(wanted.clone());
    assert!(no_room(running.outcome().await));
    wanted.extend(["4", "5"].map(|p| of("cart", p)));
    running.want(wanted.clone());
    for _ in 0..2 {
        assert_eq!(running.outcome().await.1, None);
    }
    // And all have a limit.
    wanted.extend(["6", "again"].map(|p| of("till", p)));
    running.want(wanted.clone());
    let told = [running.outcome().await, running.outcome().await];
    assert_eq!(told.into_iter().filter(|t| no_room(t.clone())).count(), 0);
    server.body("/7", [A, &vec![7; 3000]].concat());
    wanted.push(of("till", "7"));
    running.want(wanted);
    assert!(no_room(running.outcome().await));
}
