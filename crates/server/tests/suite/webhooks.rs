//! The port of admission webhooks, from outside: what is served on it, and what configuration of injection counts.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use model::parse::{Validation, parse};
use model::{Change, Owner};
use pilothouse_server::config::ServeOptions;
use pilothouse_server::derive::{Derive, OriginLimits};
use pilothouse_server::metrics::Metrics;
use pilothouse_server::settings::Composer;
use pilothouse_server::webhooks::{Injector, InjectorSource, Service, serve};
use rcgen::KeyPair;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const TEMPLATES: &str = r#"
policy: enabled
templates:
  sidecar: |
    metadata:
      annotations: {from: "{{ .Values.from }}"}
    spec:
      containers:
      - name: istio-proxy
        image: proxy
"#;

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

struct Port {
    address: SocketAddr,
    client: Arc<ClientConfig>,
    metrics: Arc<Metrics>,
    derive: Derive,
    ready: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn certificate() -> (CertifiedKey, ClientConfig) {
    let key = KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = default_provider();
    let signing = provider.key_provider.load_private_key(der).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let shown = CertifiedKey::new(vec![certificate.der().clone()], signing);
    (shown, client)
}

impl Port {
    async fn start(flags: &[&str]) -> Self {
        let flags = ["serve", "--data", "unused"].iter().chain(flags);
        let options = Serve::parse_from(flags).options;
        let source = Arc::new(InjectorSource::new(&options));
        let seen = source.clone();
        let on_batch = move |batch: &_| seen.see(batch);
        let (_, first) = Composer::start(&options).unwrap();
        let limits = OriginLimits::default();
        let (derive, _thread) = Derive::start(first.settings, limits, on_batch).unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        let ready = Arc::new(AtomicBool::new(false));
        let is_ready = ready.clone();
        let injector = Injector::new(source.clone(), options.webhooks.inject, "default");
        let service = Service::new(metrics.clone(), Arc::new(injector), move || {
            is_ready.load(Ordering::Acquire)
        });
        let (shown, client) = certificate();
        let (_, keys) = watch::channel(Some(Arc::new(shown)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(source.follow(stop.clone()));
        tokio::spawn(serve(listener, keys, Arc::new(service), stop.clone()));
        Self {
            address,
            client: Arc::new(client),
            metrics,
            derive,
            ready,
            stop,
        }
    }

    /// The status and the body of an answer.
    async fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let (address, client) = (self.address, self.client.clone());
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend(body);
        let asking = tokio::task::spawn_blocking(move || {
            let name = ServerName::try_from("localhost").unwrap();
            let tls = ClientConnection::new(client, name).unwrap();
            let mut stream = StreamOwned::new(tls, TcpStream::connect(address).unwrap());
            // A body that is too large may be cut off.
            let _ = stream.write_all(&request);
            let mut said = Vec::new();
            let _ = stream.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let said = asking.await.unwrap();
        let status = said.split(' ').nth(1).unwrap_or("0").parse().unwrap();
        let body = said.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
    }

    async fn review(&self, path: &str, request: Value) -> (u16, Value) {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let body = review.to_string();
        let (status, body) = self
            .ask("POST", path, "application/json", body.as_bytes())
            .await;
        (
            status,
            serde_json::from_str(&body).unwrap_or(Value::String(body)),
        )
    }

    async fn inject(&self, path: &str) -> (u16, Value) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "web", "image": "web"}]}});
        let request = json!({"uid": "u", "operation": "CREATE", "namespace": "shop", "kind": {"kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": pod});
        self.review(path, request).await
    }

    /// Injects until what a template says of its values is this.
    async fn until(&self, from: &str) {
        let start = Instant::now();
        loop {
            let (_, answer) = self.inject("/inject").await;
            if from_of(&answer).as_deref() == Some(from) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{answer}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn map(&self, data: Value) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "istio-sidecar-injector", "namespace": "istio-system"}, "data": data});
        let parsed = parse(
            &map.to_string(),
            &Arc::from(Path::new("a.yaml")),
            Validation::Strict,
        );
        let object = parsed.objects().next().unwrap().clone();
        let change = Change::Put(Owner::new(0, "test"), object);
        self.derive
            .change(vec![change], Instant::now())
            .await
            .unwrap();
    }
}

/// The patch of an answer.
fn patch_of(answer: &Value) -> Option<String> {
    let patch = answer["response"]["patch"].as_str()?;
    String::from_utf8(STANDARD.decode(patch).ok()?).ok()
}

/// What the template made of its values.
fn from_of(answer: &Value) -> Option<String> {
    let patch: Vec<Value> = serde_json::from_str(&patch_of(answer)?).ok()?;
    let annotations = patch.iter().find_map(|op| {
        let path = op["path"].as_str()?;
        path.starts_with("/metadata/annotations")
            .then(|| op["value"].clone())
    })?;
    annotations["from"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_webhooks_are_served_and_only_to_who_asks_well() {
    let port = Port::start(&[]).await;
    assert_eq!(port.ask("GET", "/ready", "", b"").await.0, 503);
    port.ready.store(true, Ordering::Release);
    assert_eq!(port.ask("GET", "/ready", "", b"").await.0, 200);
    let json = "application/json";
    for (method, path, kind, body, wanted) in [
        ("GET", "/metrics", "", &b""[..], 404),
        ("GET", "/debug", "", b"", 404),
        ("POST", "/injected", json, b"{}", 404),
        ("GET", "/inject", "", b"", 405),
        ("POST", "/inject", json, b"", 400),
        ("POST", "/validate", "text/plain", b"{}", 415),
        // What is no review is refused in a review, as by istiod.
        ("POST", "/validate", json, b"[", 200),
        ("POST", "/inject/cluster/a", json, b"{}", 200),
    ] {
        let (status, said) = port.ask(method, path, kind, body).await;
        assert_eq!(status, wanted, "{method} {path}: {said}");
        if status == 200 {
            let said: Value = serde_json::from_str(&said).unwrap();
            assert_eq!(said["response"]["allowed"], false);
        }
    }
    // The answer may be lost with what was still being sent.
    let large = vec![b' '; (6 << 20) + 1];
    let (status, _) = port.ask("POST", "/validate", json, &large).await;
    assert!(matches!(status, 0 | 400), "{status}");
    let metrics = &port.metrics.webhooks;
    assert_eq!(metrics.http_errors.with_label_values(&["415"]).get(), 1);
    assert_eq!(metrics.http_errors.with_label_values(&["400"]).get(), 1);
    assert_eq!(metrics.injection_failures.get(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_is_judged_and_counted() {
    let port = Port::start(&[]).await;
    let gateway = |port: i32| {
        json!({"uid": "u", "operation": "CREATE", "namespace": "shop", "name": "a",
            "resource": {"group": "networking.istio.io", "version": "v1", "resource": "gateways"},
            "object": {"apiVersion": "networking.istio.io/v1", "kind": "Gateway", "metadata": {"name": "a", "namespace": "shop"},
                "spec": {"servers": [{"port": {"number": port, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}]}}})
    };
    let (status, answer) = port.review("/validate", gateway(80)).await;
    assert_eq!(
        (status, &answer["response"]["allowed"]),
        (200, &json!(true))
    );
    assert_eq!(answer["response"]["uid"], "u");
    let (_, answer) = port.review("/validate", gateway(0)).await;
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("configuration is invalid: "),
        "{message}"
    );
    let labels = ["networking.istio.io", "v1", "gateways"];
    let metrics = &port.metrics.webhooks;
    assert_eq!(metrics.passed.with_label_values(&labels).get(), 1);
    let labels = [labels[0], labels[1], labels[2], "invalid_resource"];
    assert_eq!(metrics.failed.with_label_values(&labels).get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn injection_is_what_the_newest_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let port = Port::start(&["--inject-config-dir", &path]).await;
    let map =
        |from: &str| json!({"config": TEMPLATES, "values": json!({"from": from}).to_string()});
    port.map(map("map")).await;
    port.until("map").await;
    port.map(map("another map")).await;
    port.until("another map").await;
    // What cannot be read leaves the last good one in force.
    port.map(json!({"config": "templates: [", "values": "{}"}))
        .await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    port.until("another map").await;
    // Without templates there are those for stock Envoys, with these values over their own.
    let values = json!({"global": {"proxy": {"image": "registry.example.com/envoy:1"}, "proxy_init": {"image": "init"}}});
    port.map(json!({"values": values.to_string()})).await;
    let start = Instant::now();
    loop {
        let (_, answer) = port.inject("/inject").await;
        if patch_of(&answer).is_some_and(|patch| patch.contains("registry.example.com/envoy:1")) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::write(folder.path().join("values"), r#"{"from": "files"}"#).unwrap();
    std::fs::write(folder.path().join("config"), TEMPLATES).unwrap();
    port.until("files").await;
    assert!(port.metrics.webhooks.injected.get() >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn injection_that_is_off_is_told() {
    let port = Port::start(&["--inject=false"]).await;
    let (status, said) = port.inject("/inject").await;
    assert_eq!(status, 503, "{said}");
}
