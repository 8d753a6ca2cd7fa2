//! Encrypted connections over loopback: who gets in, what changes without dropping streams, and what strangers cannot do.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use h2::client;
use http::Request;
use pilothouse_ads::Status;
use pilothouse_ads::latest::Sender;
use pilothouse_ads::server::{
    Client, Door, Frames, HandshakeError, Incident, Join, Options, Proven, Secure, Subscriber,
    Subscription, Tls, frame,
};
use prost::Message;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use xds::{Published, Resource, ResourceSet, TypeUrl};

use crate::serving::{CDS, DELTA, Deaf, Incidents, listen, serve};

const LARGE: usize = 1_200_000;

/// Serves one view to everybody.
struct World {
    published: Sender<Arc<Published>>,
    /// How long a client's identity holds.
    holds: Option<Duration>,
    /// How many certificates each client showed.
    shown: Mutex<Vec<usize>>,
    incidents: Incidents,
}

impl Subscriber for World {
    fn authenticate(
        &self,
        client: &Client,
        _: &Request<()>,
    ) -> BoxFuture<'static, Result<Proven, Status>> {
        let shown = client.certificates.as_ref().unwrap().len();
        self.shown.lock().unwrap().push(shown);
        let proven = Proven {
            caller: None,
            until: self.holds.map(|holds| SystemTime::now() + holds),
        };
        async move { Ok(proven) }.boxed()
    }

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
    let octets: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
    let resource = Arc::new(Resource::from_bytes("a", octets.into()));
    published.set(TypeUrl::Cluster, ResourceSet::new([resource]));
    Arc::new(published)
}

/// A certificate authority.
struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    fn sign(
        &self,
        params: &CertificateParams,
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        (certificate.der().clone(), key)
    }

    fn server(&self) -> Arc<CertifiedKey> {
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let (certificate, key) = self.sign(&params);
        let key = aws_lc_rs::default_provider()
            .key_provider
            .load_private_key(key)
            .unwrap();
        Arc::new(CertifiedKey::new(vec![certificate], key))
    }

    fn workload(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::default();
        let id = "spiffe://cluster.local/ns/shop/sa/web";
        params.subject_alt_names = vec![SanType::URI(id.try_into().unwrap())];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn tls(&self, trusted: &[&Ca]) -> Arc<Tls> {
        let roots = trusted.iter().map(|ca| ca.root());
        Arc::new(Tls::new(self.server(), roots, []).unwrap())
    }
}

struct Running {
    world: Arc<World>,
    address: SocketAddr,
    tls: watch::Sender<Option<Arc<Tls>>>,
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn start(tls: Arc<Tls>, options: Options, holds: Option<Duration>) -> Running {
    let world = Arc::new(World {
        published: Sender::new(revision(1, 3)),
        holds,
        shown: Mutex::default(),
        incidents: Incidents::default(),
    });
    let (listener, address) = listen();
    let (tls, current) = watch::channel(Some(tls));
    let door = Door::Secure(Secure::new(listener, current).unwrap());
    let (stop, _) = serve(world.clone(), options, door);
    Running {
        world,
        address,
        tls,
        stop,
    }
}

type Shown = Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>;

fn config(root: &Ca, shown: Shown) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root.root()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

fn one((certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>)) -> Shown {
    Some((vec![certificate], key))
}

async fn connect(to: SocketAddr, config: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(to).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await
}

/// A stream that is served.
struct Call {
    send: h2::SendStream<Bytes>,
    body: h2::RecvStream,
    frames: Frames,
}

impl Call {
    async fn open(to: SocketAddr, config: ClientConfig) -> Result<Self, String> {
        let io = connect(to, config).await.map_err(|e| e.to_string())?;
        Self::over(io).await.map_err(|e| e.to_string())
    }

    async fn over(io: TlsStream<TcpStream>) -> Result<Self, h2::Error> {
        let (client, connection) = client::handshake(io).await?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let request = http::Request::post(format!("https://localhost{DELTA}"));
        let request = request.header("content-type", "application/grpc");
        let request = request.body(()).unwrap();
        let (response, mut send) = client.ready().await?.send_request(request, false)?;
        let hello = DeltaDiscoveryRequest {
            node: Some(Node {
                id: "n".into(),
                ..Default::default()
            }),
            type_url: CDS.into(),
            ..Default::default()
        };
        send.send_data(frame(&hello.encode_to_vec()), false)?;
        Ok(Self {
            send,
            body: response.await?.into_body(),
            frames: Frames::new(1 << 30),
        })
    }

    /// The next message, or the gRPC status at the end.
    async fn next(&mut self) -> Result<DeltaDiscoveryResponse, String> {
        let next = async {
            loop {
                if let Some(message) = self.frames.pop().unwrap() {
                    return Ok(DeltaDiscoveryResponse::decode(message).unwrap());
                }
                match self.body.data().await {
                    Some(data) => {
                        let data = data.map_err(|e| e.to_string())?;
                        let flow = self.body.flow_control();
                        flow.release_capacity(data.len()).unwrap();
                        self.frames.push(data);
                    }
                    None => {
                        let trailers = self.body.trailers().await.map_err(|e| e.to_string())?;
                        let trailers = trailers.unwrap_or_default();
                        return Err(trailers["grpc-status"].to_str().unwrap().to_owned());
                    }
                }
            }
        };
        timeout(Duration::from_secs(20), next)
            .await
            .expect("in time")
    }

    fn ack(&mut self, response: &DeltaDiscoveryResponse) {
        let ack = DeltaDiscoveryRequest {
            type_url: CDS.into(),
            response_nonce: response.nonce.clone(),
            ..Default::default()
        };
        self.send
            .send_data(frame(&ack.encode_to_vec()), false)
            .unwrap();
    }
}

#[tokio::test]
async fn who_is_trusted_or_shows_nothing_gets_in_and_no_one_else() {
    let (ca, stranger) = (Ca::new("root"), Ca::new("stranger"));
    let running = start(ca.tls(&[&ca]), Options::default(), None);
    let get_in = async |shown| {
        let mut call = Call::open(running.address, config(&ca, shown)).await?;
        call.next().await
    };
    assert!(get_in(one(ca.workload())).await.is_ok());
    assert!(get_in(None).await.is_ok());
    assert_eq!(*running.world.shown.lock().unwrap(), [1, 0]);
    let expired = {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        ca.sign(&params)
    };
    let (certificate, key) = ca.workload();
    let many = vec![certificate; 9];
    for bad in [one(stranger.workload()), one(expired), Some((many, key))] {
        assert!(get_in(bad).await.is_err());
    }
    let refused = Incident::HandshakeEnded(Err(HandshakeError::Certificate));
    running.world.incidents.sees(&refused, 3).await;
    assert_eq!(running.world.shown.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn large_responses_arrive_whole() {
    let ca = Ca::new("root");
    let running = start(ca.tls(&[&ca]), Options::default(), None);
    let config = config(&ca, one(ca.workload()));
    let mut call = Call::open(running.address, config).await.unwrap();
    let first = call.next().await.unwrap();
    call.ack(&first);
    for n in 2..6 {
        running
            .world
            .published
            .send(revision(n, LARGE + n as usize));
        let response = call.next().await.unwrap();
        let body = &response.resources[0].resource.as_ref().unwrap().value;
        assert_eq!(body.len(), LARGE + n as usize);
        assert!(
            body.iter()
                .enumerate()
                .all(|(i, o)| usize::from(*o) == i * 31 % 251)
        );
        call.ack(&response);
    }
}

#[tokio::test]
async fn certificates_and_roots_change_and_only_who_is_not_trusted_any_more_is_ended() {
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let running = start(old.tls(&[&old, &new]), Options::default(), None);
    let open = async |root: &Ca, shown| {
        let mut call = Call::open(running.address, config(root, shown)).await?;
        let first = call.next().await?;
        call.ack(&first);
        Ok::<_, String>(call)
    };
    let mut of_old = open(&old, one(old.workload())).await.unwrap();
    let mut of_new = open(&old, one(new.workload())).await.unwrap();
    let mut of_nobody = open(&old, None).await.unwrap();
    running.tls.send_replace(Some(new.tls(&[&new])));
    assert_eq!(of_old.next().await.unwrap_err(), "14");
    running.world.published.send(revision(2, 7));
    for call in [&mut of_new, &mut of_nobody] {
        let response = call.next().await.unwrap();
        assert_eq!(
            response.resources[0].resource.as_ref().unwrap().value.len(),
            7
        );
    }
    assert!(open(&old, None).await.is_err(), "the new certificate");
    assert!(open(&new, one(old.workload())).await.is_err());
    assert!(open(&new, one(new.workload())).await.is_ok());
}

#[tokio::test]
async fn a_connection_ends_with_what_proves_its_identity() {
    let ca = Ca::new("root");
    let options = Options {
        frame_timeout: Duration::from_secs(2),
        ..Options::default()
    };
    let holds = Some(Duration::from_secs(1));
    let running = start(ca.tls(&[&ca]), options, holds);
    let mut call = Call::open(running.address, config(&ca, None))
        .await
        .unwrap();
    call.next().await.unwrap();
    assert_eq!(call.next().await.unwrap_err(), "14");
}

#[tokio::test]
async fn no_session_is_resumed() {
    let ca = Ca::new("root");
    let running = start(ca.tls(&[&ca]), Options::default(), None);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(ca.root()).unwrap();
        let (certificate, key) = ca.workload();
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = Resumption::in_memory_sessions(8);
        for _ in 0..3 {
            let io = connect(running.address, config.clone()).await.unwrap();
            let mut call = Call::over(io).await.unwrap();
            call.next().await.unwrap();
            drop(call);
        }
        let io = connect(running.address, config).await.unwrap();
        let kind = io.get_ref().1.handshake_kind().unwrap();
        assert_ne!(kind, rustls::HandshakeKind::Resumed, "{version:?}");
    }
    assert_eq!(*running.world.shown.lock().unwrap(), [1; 6]);
}

#[tokio::test]
async fn what_is_no_tls_or_does_not_come_to_an_end_is_closed() {
    let ca = Ca::new("root");
    let options = Options {
        frame_timeout: Duration::from_millis(700),
        ..Options::default()
    };
    let running = start(ca.tls(&[&ca]), options, None);
    let shown = one(ca.workload());
    let mut served = Call::open(running.address, config(&ca, shown))
        .await
        .unwrap();
    let first = served.next().await.unwrap();
    served.ack(&first);
    let plain = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let half = [&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 100]].concat();
    // A record of a handshake that never ends, of a hello of 16 MB.
    let huge = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[3; 16_380]].concat();
    let all: [(Vec<u8>, HandshakeError); 5] = [
        (plain, HandshakeError::Protocol),
        (vec![0xff; 5000], HandshakeError::Protocol),
        (huge, HandshakeError::Protocol),
        (half, HandshakeError::Slow),
        (Vec::new(), HandshakeError::Slow),
    ];
    for (sent, why) in all {
        let before = running
            .world
            .incidents
            .count(&Incident::HandshakeEnded(Err(why)));
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        socket.write_all(&sent).await.unwrap();
        let mut answer = Vec::new();
        let read = timeout(Duration::from_secs(20), socket.read_to_end(&mut answer)).await;
        // Closed, whether everything was read before or not.
        let _ = read.expect("closed in time");
        assert!(answer.len() < 64, "{answer:?}");
        let ended = Incident::HandshakeEnded(Err(why));
        running.world.incidents.sees(&ended, before + 1).await;
    }
    drop(TcpStream::connect(running.address).await.unwrap());
    let gone = Incident::HandshakeEnded(Err(HandshakeError::Gone));
    running.world.incidents.sees(&gone, 1).await;
    running.world.published.send(revision(2, 4));
    served.next().await.unwrap();
}

#[tokio::test]
async fn handshakes_have_a_rate_and_a_number() {
    let ca = Ca::new("root");
    let options = Options {
        handshakes_per_second: Some(1.0),
        admission_burst: Duration::from_secs(8),
        admission_wait: Duration::ZERO,
        ..Options::default()
    };
    let running = start(ca.tls(&[&ca]), options, None);
    // One address has half of the rate.
    let mut open = Vec::new();
    for _ in 0..12 {
        open.push(TcpStream::connect(running.address).await.unwrap());
    }
    running
        .world
        .incidents
        .sees(&Incident::HandshakeRefused, 6)
        .await;
    running
        .world
        .incidents
        .sees(&Incident::HandshakeBegan, 4)
        .await;
    let began = running.world.incidents.count(&Incident::HandshakeBegan);
    assert!((4..=6).contains(&began), "{began}");

    let options = Options {
        max_connections: 16,
        max_connections_per_address: 16,
        ..Options::default()
    };
    let running = start(ca.tls(&[&ca]), options, None);
    let mut open = Vec::new();
    for _ in 0..6 {
        open.push(TcpStream::connect(running.address).await.unwrap());
    }
    running
        .world
        .incidents
        .sees(&Incident::HandshakeRefused, 2)
        .await;
    running
        .world
        .incidents
        .sees(&Incident::HandshakeBegan, 4)
        .await;
    open.clear();
    let gone = Incident::HandshakeEnded(Err(HandshakeError::Gone));
    running.world.incidents.sees(&gone, 4).await;
    let shown = one(ca.workload());
    let mut call = Call::open(running.address, config(&ca, shown))
        .await
        .unwrap();
    call.next().await.unwrap();
}
