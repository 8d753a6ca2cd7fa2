//! The port for TLS, from outside: who gets configuration and certificates, and of whom.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ads::server::{Frames, frame};
use bytes::Bytes;
use client::{Error, FetchOptions, SecureOptions, fetch};
use prost::Message;
use proto_istio::ca::{IstioCertificateRequest, IstioCertificateResponse};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use xds::TypeUrl;

use crate::support::{PATIENCE, Server, pilothouse};

/// A CA as operators plug it in, and what it signs.
pub(crate) struct Ca {
    pub(crate) folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Ca {
    fn new(folder: PathBuf) -> Self {
        let mut params = CertificateParams::default();
        let name = folder.file_name().unwrap().to_str().unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::create_dir_all(&folder).unwrap();
        for file in ["ca-cert.pem", "cert-chain.pem", "root-cert.pem"] {
            fs::write(folder.join(file), issuer.pem()).unwrap();
        }
        fs::write(folder.join("ca-key.pem"), issuer.key().serialize_pem()).unwrap();
        Self { folder, issuer }
    }

    /// The files of a workload's certificate and key.
    pub(crate) fn sign(&self, id: &str) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(id.try_into().unwrap())];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let name = id.replace(['/', ':'], "-");
        let files = ["crt", "key"].map(|end| self.folder.join(format!("{name}.{end}")));
        fs::write(&files[0], certificate.pem()).unwrap();
        fs::write(&files[1], key.serialize_pem()).unwrap();
        files.into()
    }
}

/// A server with a port for TLS.
pub(crate) struct Secured {
    pub(crate) server: Server,
    address: SocketAddr,
}

impl Secured {
    pub(crate) fn start(dir: &Path, more: &[&str]) -> Self {
        let config = dir.join("config");
        let folders = [
            "--config-dir",
            config.to_str().unwrap(),
            "--state-dir",
            "off",
        ];
        let tls = ["--secureGRPCAddr", "127.0.0.1:0"];
        let mut server = Server::start(&[&folders, &tls[..], more].concat()).ready();
        let address = server.told("Listening for TLS.", "address=");
        Self { server, address }
    }

    fn metric(&self, name: &str) -> f64 {
        self.server.metric(name).unwrap_or_default()
    }

    /// Waits until a metric is what it is to be: a client may hear of the end of a handshake before it is counted.
    async fn counts(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !wanted(self.metric(name)) {
            assert!(Instant::now() < until, "{name}: {}", self.metric(name));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What a proxy of namespace `shop` and account `web` gets that connects so: the number of its clusters, or a gRPC code.
pub(crate) async fn get(
    server: &Secured,
    root: &Path,
    shown: Option<(PathBuf, PathBuf)>,
) -> Result<usize, u16> {
    let (cert, key) = shown.unzip();
    let secure = SecureOptions {
        root_cert: Some(root.to_owned()),
        cert,
        key,
        ..SecureOptions::default()
    };
    get_with(server, secure).await
}

/// The same with whatever is shown.
async fn get_with(server: &Secured, secure: SecureOptions) -> Result<usize, u16> {
    let mut options = FetchOptions {
        address: server.address.to_string(),
        timeout: PATIENCE.as_secs_f64(),
        secure,
        ..FetchOptions::default()
    };
    options.node.namespaces = vec!["shop".into()];
    options.node.metadata = vec![("SERVICE_ACCOUNT".into(), "web".into())];
    match fetch(&options, &[TypeUrl::Cluster]).await {
        Ok(all) => Ok(all[&TypeUrl::Cluster].len()),
        Err(Error::Status { code, .. }) => Err(code),
        // Refused with the handshake.
        Err(Error::Connect { .. } | Error::Http2(_)) => Err(0),
        Err(error) => panic!("{error}"),
    }
}

const SERVICE: &str = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a, namespace: shop}\n\
    spec:\n  hosts: [a.example.com]\n  addresses: [240.0.0.1]\n  resolution: STATIC\n  \
    ports: [{number: 80, name: http, protocol: HTTP}]\n  endpoints: [{address: 10.1.1.1}]\n";

pub(crate) fn world() -> (TempDir, Ca, Ca) {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("config")).unwrap();
    fs::write(dir.path().join("config/a.yaml"), SERVICE).unwrap();
    let ca = Ca::new(dir.path().join("ca"));
    let stranger = Ca::new(dir.path().join("stranger"));
    (dir, ca, stranger)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_gets_what_its_certificate_proves_and_nothing_without() {
    let (dir, ca, stranger) = world();
    let folder = ca.folder.to_str().unwrap();
    let server = Secured::start(dir.path(), &["--root-ca-dir", folder]);
    let root = ca.folder.join("root-cert.pem");
    let of = |id: &str| Some(ca.sign(id));
    let web = of("spiffe://cluster.local/ns/shop/sa/web");
    assert!(get(&server, &root, web.clone()).await.unwrap() > 0);
    for (shown, code) in [
        (None, 16),
        (of("spiffe://elsewhere/ns/shop/sa/web"), 16),
        (of("https://cluster.local/ns/shop/sa/web"), 16),
        (of("spiffe://cluster.local/ns/other/sa/web"), 7),
        (of("spiffe://cluster.local/ns/shop/sa/db"), 7),
        (
            Some(stranger.sign("spiffe://cluster.local/ns/shop/sa/web")),
            0,
        ),
    ] {
        let refused = get(&server, &root, shown.clone()).await;
        assert_eq!(refused, Err(code), "{shown:?}");
    }
    let strange = stranger.folder.join("root-cert.pem");
    assert_eq!(
        get(&server, &strange, web).await,
        Err(0),
        "an unknown server"
    );
    let refused = "pilothouse_tls_handshakes_total{result=\"certificate\"}";
    server.counts(refused, |count| count >= 1.0).await;
    let under_way = "pilothouse_tls_handshakes";
    server.counts(under_way, |count| count == 0.0).await;
    let of_others = "pilothouse_unauthenticated_total{reason=\"identity\"}";
    server.counts(of_others, |count| count >= 2.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_the_server_come_from_files_and_are_reloaded() {
    let (dir, ca, other) = world();
    let served = dir.path().join("served");
    fs::create_dir(&served).unwrap();
    let put = |ca: &Ca| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ca.issuer).unwrap();
        fs::write(served.join("key"), key.serialize_pem()).unwrap();
        fs::write(served.join("crt"), certificate.pem()).unwrap();
    };
    put(&ca);
    let roots = ca.issuer.pem() + &other.issuer.pem();
    fs::write(served.join("roots"), roots).unwrap();
    let file = |name: &str| served.join(name).to_str().unwrap().to_owned();
    let flags = ["--tlsCertFile", &file("crt"), "--tlsKeyFile", &file("key")];
    let roots = ["--caCertFile", &file("roots")];
    let server = Secured::start(dir.path(), &[&flags[..], &roots[..]].concat());
    let web = "spiffe://cluster.local/ns/shop/sa/web";
    let root = |ca: &Ca| ca.folder.join("root-cert.pem");
    assert!(get(&server, &root(&ca), Some(ca.sign(web))).await.is_ok());
    put(&other);
    let start = Instant::now();
    while get(&server, &root(&other), Some(ca.sign(web)))
        .await
        .is_err()
    {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(get(&server, &root(&ca), Some(ca.sign(web))).await, Err(0));
}

pub(crate) type Http2 = h2::client::SendRequest<Bytes>;

pub(crate) async fn http2<I>(io: I) -> Http2
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = h2::client::handshake(io).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client.ready().await.unwrap()
}

pub(crate) async fn secure(server: &Secured, ca: &Ca, shown: Option<(PathBuf, PathBuf)>) -> Http2 {
    let mut roots = RootCertStore::empty();
    roots.add(ca.issuer.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        Some((cert, key)) => {
            let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
            let key = PrivateKeyDer::from_pem_file(key).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    // One of the names by which agents know it.
    let name = ServerName::try_from("istiod.istio-system.svc").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    http2(connector.connect(name, socket).await.unwrap()).await
}

/// Asks for a certificate: the chain, or a gRPC code.
async fn ask(mut http2: Http2, method: &str, message: &[u8]) -> Result<Vec<String>, String> {
    let path = format!("https://localhost/istio.v1.auth.IstioCertificateService/{method}");
    let request = http::Request::post(path).header("content-type", "application/grpc");
    let request = request.body(()).unwrap();
    let (response, mut send) = http2.send_request(request, false).unwrap();
    send.send_data(frame(message), true).unwrap();
    let response = response.await.unwrap();
    let code = |h: &http::HeaderMap| Some(h.get("grpc-status")?.to_str().unwrap().to_owned());
    if let Some(code) = code(response.headers()) {
        return Err(code);
    }
    let mut frames = Frames::new(1 << 20);
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        frames.push(data.unwrap());
    }
    let trailers = body.trailers().await.unwrap().unwrap();
    assert_eq!(code(&trailers).as_deref(), Some("0"));
    let message = frames.pop().unwrap().unwrap();
    let answer = IstioCertificateResponse::decode(message).unwrap();
    Ok(answer.cert_chain)
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_signed_for_what_the_caller_has_proven() {
    let (dir, ca, _) = world();
    let folder = ca.folder.to_str().unwrap();
    let server = Secured::start(dir.path(), &["--root-ca-dir", folder]);
    let id = "spiffe://cluster.local/ns/shop/sa/web";
    let key = KeyPair::generate().unwrap();
    // What it asks for is not what it is.
    let asked = CertificateParams::new(["evil.example.com".to_owned()]).unwrap();
    let mut request = IstioCertificateRequest {
        csr: asked.serialize_request(&key).unwrap().pem().unwrap(),
        validity_duration: 3600,
        metadata: None,
    };
    let method = "CreateCertificate";
    let as_web = async || secure(&server, &ca, Some(ca.sign(id))).await;
    let chain = ask(as_web().await, method, &request.encode_to_vec()).await;
    let chain = chain.unwrap();
    assert_eq!(chain.last().unwrap().trim(), ca.issuer.pem().trim());
    let leaf = CertificateDer::from_pem_slice(chain[0].as_bytes()).unwrap();
    let has = |text: &str| leaf.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(has(id) && !has("evil"));
    // What was signed proves the same.
    let files = (ca.folder.join("new.crt"), ca.folder.join("new.key"));
    fs::write(&files.0, chain[..chain.len() - 1].concat()).unwrap();
    fs::write(&files.1, key.serialize_pem()).unwrap();
    let root = ca.folder.join("root-cert.pem");
    assert!(get(&server, &root, Some(files)).await.unwrap() > 0);

    let refused =
        async |http2: Http2, message: &[u8]| ask(http2, method, message).await.unwrap_err();
    let good = request.encode_to_vec();
    assert_eq!(refused(secure(&server, &ca, None).await, &good).await, "16");
    let plaintext = tokio::net::TcpStream::connect(server.server.xds).await;
    assert_eq!(refused(http2(plaintext.unwrap()).await, &good).await, "16");
    assert_eq!(refused(as_web().await, &[0xff; 9]).await, "3");
    assert_eq!(refused(as_web().await, &vec![b'x'; 1 << 17]).await, "8");
    request.validity_duration = 1 << 40;
    assert_eq!(refused(as_web().await, &request.encode_to_vec()).await, "3");
    request.csr = "nonsense".into();
    assert_eq!(refused(as_web().await, &request.encode_to_vec()).await, "3");
    assert_eq!(ask(as_web().await, "Other", &good).await.unwrap_err(), "12");
    assert_eq!(server.metric("citadel_server_csr_count"), 7.0);
    assert_eq!(
        server.metric("citadel_server_success_cert_issuance_count"),
        1.0
    );
    assert_eq!(
        server.metric("citadel_server_authentication_failure_count"),
        2.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_gets_what_its_token_proves_while_its_account_is_there() {
    let (dir, ca, _) = world();
    let (data, folder) = (dir.path().join("data"), ca.folder.to_str().unwrap());
    let flags = ["--root-ca-dir", folder, "--data", data.to_str().unwrap()];
    let more = ["--api-addr", "127.0.0.1:0"];
    let server = Secured::start(dir.path(), &[&flags[..], &more].concat());
    let issued = |namespace: &str, account: &str, audience: &str| {
        let file = dir.path().join(format!("{namespace}-{account}-{audience}"));
        let account = ["token", account, "-n", namespace, "--create"];
        let output = pilothouse(&[&account[..], &["--audience", audience]].concat())
            .arg("--data")
            .arg(&data)
            .arg("-o")
            .arg(&file)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        file
    };
    let written = |name: &str, text: &str| {
        let file = dir.path().join(name);
        fs::write(&file, text).unwrap();
        file
    };
    let with = |token_file: PathBuf| SecureOptions {
        root_cert: Some(ca.folder.join("root-cert.pem")),
        token_file: Some(token_file),
        ..SecureOptions::default()
    };
    let web = issued("shop", "web", "istio-ca");
    assert!(get_with(&server, with(web.clone())).await.unwrap() > 0);
    let good = fs::read_to_string(&web).unwrap();
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (_, claims) = signed.split_once('.').unwrap();
    for (token, code, reason) in [
        (issued("shop", "web", "vault"), 16, "audience"),
        (issued("shop", "db", "istio-ca"), 7, "identity"),
        (issued("else", "web", "istio-ca"), 7, "identity"),
        (written("hello", "hello"), 16, "malformed"),
        // {"alg":"none"}
        (
            written("none", &format!("eyJhbGciOiJub25lIn0.{claims}.")),
            16,
            "algorithm",
        ),
        (
            written(
                "other",
                &format!("{signed}.{}", "A".repeat(signature.len())),
            ),
            16,
            "rejected",
        ),
    ] {
        let counter = format!("pilothouse_unauthenticated_total{{reason=\"{reason}\"}}");
        let before = server.metric(&counter);
        assert_eq!(get_with(&server, with(token)).await, Err(code), "{reason}");
        assert_eq!(server.metric(&counter), before + 1.0, "{reason}");
    }
    let local = apiserver::local::Local::open(&data).await.unwrap();
    let account = "/api/v1/namespaces/shop/serviceaccounts/web";
    let who = apiserver::access::Who::local();
    let delete = apiserver::api::Request::new(http::Method::DELETE, account, who);
    assert!(local.ask(delete, "").await.unwrap().0.is_success());
    assert_eq!(get_with(&server, with(web)).await, Err(16));
}
