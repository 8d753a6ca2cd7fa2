//! Certificates that are replaced while a gateway serves: by the Secret alone, and without a connection that ends.

use std::net::SocketAddr;
use std::sync::Arc;

use demo::admin;
use demo::check::nothing_refused;
use demo::mesh::Mesh;
use demo::shop::WORKLOADS;
use rcgen::{CertificateParams, KeyPair, SerialNumber};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, crypto};

use crate::backend::{Backend, prompt};
use crate::edge::{indented, secret_of};
use crate::rig::{Rig, until};
use crate::traffic::SERVICES;

const GATEWAY: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers:
  - port: {number: 18443, name: first, protocol: HTTPS}
    bind: 127.0.0.1
    hosts: [shop.example.com]
    tls: {mode: SIMPLE, credentialName: first}
  - port: {number: 18444, name: second, protocol: HTTPS}
    bind: 127.0.0.1
    hosts: [shop.example.com]
    tls: {mode: SIMPLE, credentialName: second}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: edge, namespace: shop}
spec:
  hosts: [shop.example.com]
  gateways: [edge]
  http: [{route: [{destination: {host: blue, port: {number: 9080}}}]}]
";

/// A certificate with its key, in PEM, and in DER.
pub(crate) struct Pair {
    pub(crate) chain: String,
    pub(crate) key: String,
    pub(crate) der: Vec<u8>,
}

pub(crate) fn pair(serial: u64) -> Pair {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["shop.example.com".to_owned()]).unwrap();
    params.serial_number = Some(SerialNumber::from(serial));
    let made = params.self_signed(&key).unwrap();
    Pair {
        chain: made.pem(),
        key: key.serialize_pem(),
        der: made.der().to_vec(),
    }
}

pub(crate) fn secret(name: &str, chain: &str, key: &str) -> String {
    let fields = [("tls.crt", chain), ("tls.key", key)];
    secret_of(name, &fields.map(|(field, text)| (field, indented(text))))
}

/// Takes any certificate: which one it is, is what the test looks at.
#[derive(Debug)]
pub(crate) struct Anyone(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection to the gateway, and the certificate that it showed.
pub(crate) async fn connect(
    address: SocketAddr,
) -> anyhow::Result<(TlsStream<TcpStream>, Vec<u8>)> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("shop.example.com")?;
    let stream = connector.connect(name, stream).await?;
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let shown = shown.first().map(|c| c.to_vec()).unwrap_or_default();
    Ok((stream, shown))
}

pub(crate) async fn shown(address: SocketAddr) -> Vec<u8> {
    connect(address).await.map(|(_, c)| c).unwrap_or_default()
}

/// Asks over a connection that stays open.
pub(crate) async fn ask(stream: &mut TlsStream<TcpStream>) -> String {
    let request = b"GET / HTTP/1.1\r\nhost: shop.example.com\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut text = String::new();
    while !text.ends_with("blue") {
        let mut part = [0; 1024];
        let length = stream.read(&mut part).await.unwrap();
        assert_ne!(
            length, 0,
            "the gateway closed the connection after {text:?}"
        );
        text.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    text
}

/// How often the gateway took listeners, and how often it refused a secret.
async fn counts(mesh: &Mesh) -> (u64, u64) {
    let admin = mesh.proxies()[0].admin;
    let stats = admin::stats(admin, "(lds.update_success|sds.*update_rejected)$").await;
    let stats = stats.unwrap();
    let of = |name: &str| {
        let found = stats.iter().filter(|(stat, _)| stat.contains(name));
        found.map(|(_, count)| count).sum()
    };
    (of("lds.update_success"), of("update_rejected"))
}

pub(crate) async fn a_rotated_certificate_is_served_and_no_connection_ends(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let pairs = [pair(1), pair(2), pair(3), pair(4)];
    let first = |pair: &Pair| rig.write("first.yaml", &secret("first", &pair.chain, &pair.key));
    rig.write("services.yaml", SERVICES);
    rig.write("gateway.yaml", GATEWAY);
    first(&pairs[0]);
    let mut mesh = rig
        .mesh_with(vec!["--insecure-test-identities".to_owned()])
        .await;
    mesh.start_gateway_with(&["--token", "sa:shop:gateway"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    let (front, back) = (
        rig.address("127.0.0.1:18443"),
        rig.address("127.0.0.1:18444"),
    );
    let serves = async |at: SocketAddr, pair: &Pair| {
        until("the certificate is served", async || {
            shown(at).await == pair.der
        })
        .await;
    };
    serves(front, &pairs[0]).await;
    let (mut open, _) = connect(front).await.unwrap();
    assert!(ask(&mut open).await.starts_with("HTTP/1.1 200"));
    let before = counts(&mesh).await;

    first(&pairs[1]);
    serves(front, &pairs[1]).await;
    assert!(ask(&mut open).await.starts_with("HTTP/1.1 200"));
    assert_eq!(counts(&mesh).await, before, "no listener was sent");

    // A pair that does not fit keeps nothing from a Secret that comes with it, and the last good one is served.
    let (bad, good) = (&pairs[2], &pairs[3]);
    let mixed = secret("first", &bad.chain, &good.key);
    let second = secret("second", &good.chain, &good.key);
    rig.write("first.yaml", &format!("{mixed}---\n{second}"));
    serves(back, good).await;
    assert_eq!(shown(front).await, pairs[1].der);

    // So it is when the Secret is gone.
    rig.write("first.yaml", &second);
    rig.write("second.yaml", &secret("third", &bad.chain, &bad.key));
    rig.write(
        "gateway.yaml",
        &GATEWAY.replace("credentialName: second", "credentialName: third"),
    );
    serves(back, bad).await;
    assert_eq!(shown(front).await, pairs[1].der);
    assert!(ask(&mut open).await.starts_with("HTTP/1.1 200"));
    assert_eq!(counts(&mesh).await.1, 0);
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
