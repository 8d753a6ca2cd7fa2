//! Fetching from a server of our own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use model::jwks::BadKeys;

use super::*;
use fetch::web::WebError;
use source_api::Delivery;
use source_api::SourceEvent;

const PATIENCE: Duration = Duration::from_secs(60);
const A: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}"#;
const B: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"b"}]}"#;

type Answering = Arc<Mutex<BTreeMap<&'static str, (StatusCode, String)>>>;

/// A server of keys whose answers a test sets, by path.
#[derive(Clone, Default)]
struct Server {
    answers: Answering,
}

impl Server {
    fn answer(&self, path: &'static str, status: u16, body: impl Into<String>) {
        let status = StatusCode::from_u16(status).unwrap();
        let mut answers = self.answers.lock().unwrap();
        answers.insert(path, (status, body.into()));
    }

    async fn plain(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream));
            }
        });
        address
    }

    /// Also returns the certificate of the authority that signed the server's.
    async fn tls(&self) -> (SocketAddr, String) {
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let cert = own.signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![cert.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, acceptor) = (server.clone(), acceptor.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        server.serve(stream).await;
                    }
                });
            }
        });
        (address, ca_cert.pem())
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request: Request<Incoming>| {
            let answers = self.answers.lock().unwrap();
            let found = answers.get(request.uri().path()).cloned();
            let (status, body) = found.unwrap_or((StatusCode::NOT_FOUND, String::new()));
            let mut response = Response::builder().status(status);
            if status.is_redirection() {
                response = response.header("location", body.clone());
            }
            let response = response.body(Full::new(Bytes::from(body))).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        // A client that goes away is no failure of the test.
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }
}

fn options() -> Options {
    Options {
        refresh: Duration::from_millis(20),
        blocked: Vec::new(),
        allowed: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
        longest: LONGEST_FETCH,
        extra_roots: None,
        insecure: false,
        attempted: Arc::new(|_| ()),
    }
}

async fn fetch(options: &Options, source: &KeySource) -> Result<Arc<str>, FetchError> {
    options.fetcher().unwrap().fetch(source, PATIENCE).await
}

fn at(address: SocketAddr, path: &str) -> KeySource {
    KeySource::Uri(format!("http://{address}{path}").into())
}

/// The task under test, and what it has said.
struct Running {
    want: watch::Sender<Wanted>,
    said: mpsc::UnboundedReceiver<Delivery>,
    stop: CancellationToken,
}

impl Running {
    fn start(options: Options, sources: &[KeySource]) -> Self {
        Self::wanting(options, sources.iter().map(|s| (s.clone(), "a")))
    }

    /// With who wants each source.
    fn wanting<'a>(options: Options, sources: impl Iterator<Item = (KeySource, &'a str)>) -> Self {
        let demand = |namespace: &str| Demand {
            limit: Duration::from_secs(24 * 3600),
            namespaces: [namespace.into()].into(),
        };
        let list = sources.map(|(s, namespace)| (s, demand(namespace)));
        let list = list.collect();
        let (want, wanted) = watch::channel(Arc::new(list));
        let (out, said) = Sink::channel(Owner::new(0, "jwks"), 8);
        let stop = CancellationToken::new();
        tokio::spawn(run(wanted, options, out, stop.clone()));
        Self { want, said, stop }
    }

    async fn next(&mut self) -> (KeySource, Option<Arc<FetchedKeys>>) {
        let said = tokio::time::timeout(PATIENCE, self.said.recv()).await;
        match said.expect("something is said").expect("it runs").event {
            SourceEvent::Changes(changes) => match changes.into_iter().next() {
                Some(Change::Keys(source, keys)) => (source, keys),
                other => panic!("{other:?}"),
            },
            SourceEvent::Read { .. }
            | SourceEvent::Findings(..)
            | SourceEvent::Waits(_)
            | SourceEvent::Stands(_) => {
                panic!("keys have no findings")
            }
        }
    }

    async fn next_keys(&mut self) -> (Option<String>, Option<String>) {
        let keys = self.next().await.1.expect("an outcome");
        let trouble = keys.trouble.as_ref().map(|why| why.to_string());
        (keys.keys.as_ref().map(|text| text.to_string()), trouble)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test]
async fn keys_are_fetched_anew_and_the_last_good_ones_are_kept() {
    let server = Server::default();
    server.answer("/keys", 500, "");
    let address = server.plain().await;
    let mut running = Running::start(options(), &[at(address, "/keys")]);
    let (keys, trouble) = running.next_keys().await;
    assert_eq!(keys, None);
    assert_eq!(trouble.as_deref(), Some("127.0.0.1 answered 500"));

    server.answer("/keys", 200, A);
    assert_eq!(running.next_keys().await, (Some(A.to_owned()), None));
    server.answer("/keys", 200, B);
    assert_eq!(running.next_keys().await, (Some(B.to_owned()), None));
    server.answer("/keys", 200, "<html>log in</html>");
    let (keys, trouble) = running.next_keys().await;
    assert_eq!(keys.as_deref(), Some(B));
    assert_eq!(trouble.as_deref(), Some("the answer is not JSON"));
    server.answer("/keys", 200, B);
    assert_eq!(running.next_keys().await, (Some(B.to_owned()), None));
}

#[tokio::test]
async fn what_nobody_wants_any_more_is_forgotten() {
    let server = Server::default();
    server.answer("/keys", 200, A);
    let source = at(server.plain().await, "/keys");
    let mut running = Running::start(options(), std::slice::from_ref(&source));
    assert_eq!(running.next_keys().await.0.as_deref(), Some(A));
    running.want.send_replace(Arc::default());
    assert_eq!(running.next().await, (source, None));
}

#[tokio::test]
async fn an_issuer_says_where_its_keys_are() {
    let server = Server::default();
    let address = server.plain().await;
    server.answer("/keys", 200, A);
    server.answer(
        "/realm/.well-known/openid-configuration",
        200,
        format!(r#"{{"issuer": "x", "jwks_uri": "http://{address}/keys"}}"#),
    );
    for issuer in [
        format!("http://{address}/realm"),
        format!("http://{address}/realm/"),
    ] {
        let keys = fetch(&options(), &KeySource::Issuer(issuer.into())).await;
        assert_eq!(keys.unwrap().as_ref(), A);
    }
    server.answer("/.well-known/openid-configuration", 200, "{}");
    let issuer = KeySource::Issuer(format!("http://{address}").into());
    let found = fetch(&options(), &issuer).await;
    assert!(matches!(found, Err(FetchError::Undiscovered)), "{found:?}");
}

#[tokio::test]
async fn certificates_are_checked_against_the_roots_given() {
    let server = Server::default();
    server.answer("/keys", 200, A);
    let (address, ca) = server.tls().await;
    let source = KeySource::Uri(format!("https://localhost:{}/keys", address.port()).into());
    let refused = fetch(&options(), &source).await;
    assert!(
        matches!(refused, Err(FetchError::Web(WebError::Tls(..)))),
        "{refused:?}"
    );

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("extra.pem");
    std::fs::write(&file, ca).unwrap();
    let trusting = Options {
        extra_roots: Some(file),
        ..options()
    };
    assert_eq!(fetch(&trusting, &source).await.unwrap().as_ref(), A);
    let by_address = KeySource::Uri(format!("https://{address}/keys").into());
    let refused = fetch(&trusting, &by_address).await;
    assert!(
        matches!(refused, Err(FetchError::Web(WebError::Tls(..)))),
        "{refused:?}"
    );
    let insecure = Options {
        insecure: true,
        ..options()
    };
    assert_eq!(fetch(&insecure, &by_address).await.unwrap().as_ref(), A);
}

#[tokio::test]
async fn blocked_addresses_are_not_asked_by_whatever_name() {
    let server = Server::default();
    server.answer("/keys", 200, A);
    let address = server.plain().await;
    let port = address.port();
    let guarded = Options {
        blocked: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
        ..options()
    };
    for uri in [
        format!("http://127.0.0.1:{port}/keys"),
        format!("http://localhost:{port}/keys"),
        format!("http://[::ffff:127.0.0.1]:{port}/keys"),
    ] {
        let refused = fetch(&guarded, &KeySource::Uri(uri.as_str().into())).await;
        assert!(
            matches!(refused, Err(FetchError::Web(WebError::Local(..)))),
            "{uri}: {refused:?}"
        );
    }
    // Nor by being sent there.
    server.answer("/away", 302, "http://169.254.169.254/latest/meta-data");
    let refused = fetch(&options(), &at(address, "/away")).await;
    assert!(
        matches!(refused, Err(FetchError::Web(WebError::Blocked(_)))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn answers_that_are_no_keys_are_failures() {
    let server = Server::default();
    let address = server.plain().await;
    server.answer("/large", 200, "x".repeat((1 << 20) + 1));
    server.answer("/secret", 200, r#"{"password": "x"}"#);
    server.answer("/empty", 200, r#"{"keys": []}"#);
    server.answer("/loop", 302, "/loop");
    server.answer("/here", 301, "/keys");
    server.answer("/keys", 200, A);
    let get = async |path| fetch(&options(), &at(address, path)).await;
    assert!(matches!(
        get("/large").await,
        Err(FetchError::Web(WebError::TooLarge(..)))
    ));
    assert!(matches!(
        get("/secret").await,
        Err(FetchError::BadKeys(BadKeys::NoKeys))
    ));
    assert!(matches!(
        get("/empty").await,
        Err(FetchError::BadKeys(BadKeys::NoneUsable))
    ));
    assert!(matches!(
        get("/loop").await,
        Err(FetchError::Web(WebError::Redirected))
    ));
    assert!(matches!(
        get("/none").await,
        Err(FetchError::Web(WebError::Status(_, 404)))
    ));
    assert_eq!(get("/here").await.unwrap().as_ref(), A);
    let odd = fetch(&options(), &KeySource::Uri("ftp://x/keys".into())).await;
    assert!(
        matches!(odd, Err(FetchError::Web(WebError::Address(_)))),
        "{odd:?}"
    );
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let fetcher = options().fetcher().unwrap();
    let found = fetcher
        .fetch(&at(address, "/keys"), Duration::from_millis(100))
        .await;
    assert!(matches!(found, Err(FetchError::TimedOut(_))), "{found:?}");
    drop(listener);
}

#[test]
fn waits_are_spread_around_what_was_asked_for() {
    let wait = Duration::from_secs(100);
    for random in 0..2048 {
        let spread = spread(wait, random);
        assert!(spread >= wait.mul_f64(0.9) && spread <= wait.mul_f64(1.1));
    }
    assert_ne!(spread(wait, 1), spread(wait, 700));
}

/// Servers that take connections and never answer, at an address each.
async fn tarpits(count: u8) -> Vec<SocketAddr> {
    let mut all = Vec::new();
    for number in 1..=count {
        let listener = TcpListener::bind((format!("127.0.77.{number}"), 0));
        let listener = listener.await.unwrap();
        all.push(listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                held.push(stream);
            }
        });
    }
    all
}

/// Keys of one source change while all others are never answered.
async fn rotates(hostile: Vec<(KeySource, String)>) {
    let server = Server::default();
    server.answer("/keys", 200, A);
    let good = at(server.plain().await, "/keys");
    let hostile = hostile.iter().map(|(s, n)| (s.clone(), n.as_str()));
    let sources = hostile.chain([(good.clone(), "good")]);
    let mut running = Running::wanting(options(), sources);
    for keys in [A, B, A] {
        server.answer("/keys", 200, keys);
        let told = tokio::time::timeout(Duration::from_secs(5), running.next()).await;
        let (source, told) = told.expect("it is not held up");
        let told = told.and_then(|t| t.keys.as_ref().map(|keys| keys.to_string()));
        assert_eq!((source, told.as_deref()), (good.clone(), Some(keys)));
    }
}

#[tokio::test]
async fn a_namespace_whose_servers_do_not_answer_holds_up_no_other() {
    let tarpits = tarpits(100).await;
    let hostile = tarpits.iter().map(|t| (at(*t, "/keys"), "bad".to_owned()));
    rotates(hostile.collect()).await;
}

#[tokio::test]
async fn a_host_that_does_not_answer_holds_up_no_other() {
    let tarpit = tarpits(1).await[0];
    let hostile = (0..100).map(|n| (at(tarpit, &format!("/{n}")), format!("ns{n}")));
    rotates(hostile.collect()).await;
}

#[tokio::test]
async fn a_policy_does_not_choose_to_wait_longer_than_the_limit() {
    let source = at(tarpits(1).await[0], "/keys");
    let brief = Options {
        longest: Duration::from_millis(100),
        ..options()
    };
    let mut running = Running::start(brief, &[source]);
    let (_, trouble) = running.next_keys().await;
    assert_eq!(trouble.as_deref(), Some("no answer in 100ms"));
}

#[tokio::test]
async fn this_machine_is_not_asked_unless_the_operator_says_so() {
    let server = Server::default();
    server.answer("/keys", 200, A);
    let source = at(server.plain().await, "/keys");
    let guarded = Options {
        allowed: Vec::new(),
        ..options()
    };
    let refused = fetch(&guarded, &source).await;
    assert!(
        matches!(refused, Err(FetchError::Web(WebError::Local(..)))),
        "{refused:?}"
    );
    assert_eq!(fetch(&options(), &source).await.unwrap().as_ref(), A);
}

#[tokio::test]
async fn a_bundle_is_fetched_over_tls_and_has_roots() {
    let server = Server::default();
    let (address, ca) = server.tls().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("extra.pem");
    std::fs::write(&file, &ca).unwrap();
    let trusting = Options {
        extra_roots: Some(file),
        ..options()
    };
    let x5c: String = ca.lines().filter(|line| !line.starts_with('-')).collect();
    let bundle = format!(r#"{{"keys":[{{"use":"x509-svid","kty":"EC","x5c":["{x5c}"]}}]}}"#);
    server.answer("/bundle", 200, &bundle);
    server.answer("/keys", 200, A);
    server.answer("/away", 302, "http://127.0.0.1/bundle");
    let get = async |url: String| fetch(&trusting, &KeySource::Bundle(url.into())).await;
    let at = |path| format!("localhost:{}/{path}", address.port());
    assert_eq!(&*get(at("bundle")).await.unwrap(), bundle);
    assert_eq!(
        &*get(format!("https://{}", at("bundle"))).await.unwrap(),
        bundle
    );
    let none = get(at("keys")).await;
    assert!(matches!(none, Err(FetchError::BadRoots(_))), "{none:?}");
    for clear in [format!("http://{}", at("bundle")), at("away")] {
        let refused = get(clear).await;
        assert!(
            matches!(refused, Err(FetchError::Web(WebError::Address(_)))),
            "{refused:?}"
        );
    }
}

#[test]
fn a_bundle_says_how_soon_it_is_old() {
    let hour = Duration::from_secs(3600);
    let bundle = KeySource::Bundle("a".into());
    let hint = |seconds: u64| format!(r#"{{"spiffe_refresh_hint": {seconds}}}"#);
    assert_eq!(refresh(&bundle, &hint(300), hour), Duration::from_secs(300));
    assert_eq!(refresh(&bundle, &hint(1), hour), SHORTEST_HINT);
    assert_eq!(refresh(&bundle, &hint(90_000), hour), hour);
    assert_eq!(refresh(&bundle, "{}", hour), hour);
    let keys = KeySource::Uri("a".into());
    assert_eq!(refresh(&keys, &hint(300), hour), hour);
}
