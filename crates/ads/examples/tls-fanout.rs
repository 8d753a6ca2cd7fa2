//! What a response costs over mutual TLS, and a fleet that connects again: `tls-fanout [CONNECTIONS] [ROUNDS]`.
//!
//! The server is a process of its own, whose processor time is looked at from outside. Clients are simulated at a lower priority.
//! `benches/against-hyper` builds this with another HTTP/2 in place of ours.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use h2::client;
use pilothouse_ads::latest::Sender;
use pilothouse_ads::server::{
    self, Door, Frames, Join, Options, Secure, Server, Session, Subscriber, Subscription, Tls,
    frame,
};
use pilothouse_ads::{Event, Status};
use prost::Message;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use xds::{Published, Resource, ResourceSet, TypeUrl};

type Anyhow<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CALL: &str = "https://localhost/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

struct World(Sender<Arc<Published>>);

struct Seat;

impl Session for Seat {
    fn on_event(&mut self, _: &Event) {}
}

impl Subscriber for World {
    fn subscribe(&self, _: Join) -> BoxFuture<'static, Result<Subscription, Status>> {
        let subscription = Subscription {
            published: self.0.subscribe(),
            session: Box::new(Seat),
        };
        async move { Ok(subscription) }.boxed()
    }
}

fn revision(n: u64, size: usize) -> Arc<Published> {
    let mut published = Published::new(n);
    let resource = Resource::from_bytes("a", vec![n as u8; size].into());
    published.set(TypeUrl::Cluster, ResourceSet::new([Arc::new(resource)]));
    Arc::new(published)
}

/// Serves until standard input ends; each line of it is the size of the next response.
async fn serve(folder: &Path) -> Anyhow<()> {
    server::raise_descriptor_limit();
    let world = Arc::new(World(Sender::new(revision(1, 100))));
    let listener = server::listen("127.0.0.1:0".parse()?)?;
    println!("{}", listener.local_addr()?);
    let chain = vec![CertificateDer::from_pem_file(folder.join("crt"))?];
    let key = PrivateKeyDer::from_pem_file(folder.join("key"))?;
    let key = CertifiedKey::from_der(chain, key, &default_provider())?;
    let root = CertificateDer::from_pem_file(folder.join("root"))?;
    let tls = Arc::new(Tls::new(Arc::new(key), [root], [])?);
    let (_tell, current) = watch::channel(Some(tls));
    let door = Door::Secure(Secure::new(listener, current)?);
    let shared = Arc::clone(&world) as Arc<dyn Subscriber>;
    let server = Arc::new(Server::new(shared, Options::default())?);
    let stop = CancellationToken::new();
    tokio::spawn(server::serve(futures::stream::iter([door]), server, stop));
    tokio::task::spawn_blocking(move || {
        for (n, line) in (2..).zip(std::io::stdin().lines()) {
            world.0.send(revision(n, line?.trim().parse()?));
        }
        Ok(())
    })
    .await?
}

/// A server in a process of its own.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(folder: &Path) -> Anyhow<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("no output")?;
        BufReader::new(out).read_line(&mut line)?;
        let address = line.trim().parse()?;
        Ok(Self { child, address })
    }

    fn publish(&mut self, size: usize) -> Anyhow<()> {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        Ok(writeln!(input, "{size}")?)
    }

    /// Seconds of processor time, and resident memory in kB.
    fn usage(&self) -> Anyhow<(f64, u64)> {
        let of = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id()));
        let stat = of("stat")?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
        let ticks = fields[12].parse::<f64>()? + fields[13].parse::<f64>()?;
        let status = of("status")?;
        let rss = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let rss = rss.unwrap_or("0").trim().trim_end_matches(" kB");
        Ok((ticks / 100.0, rss.parse()?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Responses that all clients have taken.
#[derive(Default)]
struct Seen(AtomicUsize);

impl Seen {
    async fn wait(&self, count: usize) {
        while self.0.load(Ordering::Relaxed) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn client(to: SocketAddr, tls: TlsConnector, seen: Arc<Seen>) -> Anyhow<()> {
    let socket = TcpStream::connect(to).await?;
    socket.set_nodelay(true)?;
    let name = ServerName::try_from("localhost")?;
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(16 << 20)
        .initial_connection_window_size(16 << 20);
    let io = tls.connect(name, socket).await?;
    let (client, connection) = builder.handshake::<_, Bytes>(io).await?;
    let _driver = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
    let request = http::Request::post(CALL).header("content-type", "application/grpc");
    let (response, mut send) = client
        .ready()
        .await?
        .send_request(request.body(())?, false)?;
    let hello = DeltaDiscoveryRequest {
        node: Some(Node {
            id: "n".into(),
            ..Default::default()
        }),
        type_url: CDS.into(),
        ..Default::default()
    };
    send.send_data(frame(&hello.encode_to_vec()), false)?;
    let mut body = response.await?.into_body();
    let mut frames = Frames::new(1 << 30);
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        frames.push(data);
        while let Some(message) = frames.pop()? {
            let response = DeltaDiscoveryResponse::decode(message)?;
            let ack = DeltaDiscoveryRequest {
                type_url: CDS.into(),
                response_nonce: response.nonce,
                ..Default::default()
            };
            send.send_data(frame(&ack.encode_to_vec()), false)?;
            seen.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Files of a server, and how clients connect.
fn prepare(folder: &Path) -> Anyhow<TlsConnector> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root: CertifiedIssuer<'_, KeyPair> =
        CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let issuer: &Issuer<'_, KeyPair> = &root;
    let (own, other) = (KeyPair::generate()?, KeyPair::generate()?);
    let params = || CertificateParams::new(["localhost".to_owned()]);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("crt"), params()?.signed_by(&own, issuer)?.pem())?;
    std::fs::write(folder.join("key"), own.serialize_pem())?;
    std::fs::write(folder.join("root"), root.pem())?;
    let shown = vec![params()?.signed_by(&other, issuer)?.der().clone()];
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone())?;
    let key = PrivateKeyDer::Pkcs8(other.serialize_der().into());
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(shown, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn run(folder: &Path, connections: usize, rounds: usize) -> Anyhow<()> {
    server::raise_descriptor_limit();
    let tls = prepare(folder)?;
    let mut process = Process::start(folder)?;
    let before = process.usage()?;
    let (start, seen) = (Instant::now(), Arc::<Seen>::default());
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..connections {
        clients.spawn(client(process.address, tls.clone(), Arc::clone(&seen)));
    }
    tokio::select! {
        () = seen.wait(connections) => {}
        Some(ended) = clients.join_next() => ended??,
    }
    let (took, after) = (start.elapsed(), process.usage()?);
    println!(
        "{connections} connected after {:.2} s, {:.0} us of CPU and {:.1} kB each",
        took.as_secs_f64(),
        (after.0 - before.0) * 1e6 / connections as f64,
        (after.1 - before.1) as f64 / connections as f64,
    );
    let mut expected = connections;
    for size in [1_200, 10_000, 90_000] {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (begin, used) = (Instant::now(), process.usage()?.0);
        for round in 0..rounds {
            process.publish(size + round % 7)?;
            expected += connections;
            seen.wait(expected).await;
        }
        let (took, cpu) = (begin.elapsed(), process.usage()?.0 - used);
        println!(
            "{size} octets: {:.1} us of CPU a response, {:.1} ms a round",
            cpu * 1e6 / (connections * rounds) as f64,
            took.as_secs_f64() * 1e3 / rounds as f64,
        );
    }
    Ok(())
}

fn main() -> Anyhow<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match &arguments[..] {
        [serving, folder] if serving == "serve" => runtime.block_on(serve(Path::new(folder))),
        numbers => {
            let number = |at: usize, default: usize| match numbers.get(at) {
                Some(text) => text.parse(),
                None => Ok(default),
            };
            let (connections, rounds) = (number(0, 1_000)?, number(1, 50)?);
            let name = format!("tls-fanout-{}", std::process::id());
            let folder: PathBuf = std::env::temp_dir().join(name);
            let result = runtime.block_on(run(&folder, connections, rounds));
            let _ = std::fs::remove_dir_all(&folder);
            result
        }
    }
}
