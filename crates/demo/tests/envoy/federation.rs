//! Partners of other trust domains: the root of one signs for its own identities, to servers and to clients alike.

use std::net::SocketAddr;
use std::sync::Arc;

use demo::check::nothing_refused;
use demo::http::Client;
use rcgen::{CertificateParams, KeyPair, KeyUsagePurpose, SanType, SerialNumber};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::mutual::{Ca, DETAILS, FRONT, Secured, ca};
use crate::rig::{Rig, until};
use crate::rotation::Anyone;

/// Who front may ask besides details: at these addresses answer servers of the test, which say that they are details.
const SERVERS: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: honest, namespace: shop}
spec:
  hosts: [honest.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints:
  - {address: 127.0.20.41, labels: {security.istio.io/tlsMode: istio}, serviceAccount: details}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: impostor, namespace: shop}
spec:
  hosts: [impostor.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints:
  - {address: 127.0.20.42, labels: {security.istio.io/tlsMode: istio}, serviceAccount: details}
";

/// A certificate that a CA signs for an identity, with the certificate of the CA, and its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The number of the certificate that is revoked.
const REVOKED: u64 = 4711;

fn identity(ca: &Ca, name: &str) -> Identity {
    numbered(ca, name, 1)
}

fn numbered(ca: &Ca, name: &str, serial: u64) -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from(serial));
    // SPIFFE asks for a usage that is not that of a CA.
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.subject_alt_names = vec![SanType::URI(name.try_into().unwrap())];
    let leaf = params.signed_by(&key, &ca.issuer()).unwrap();
    let above = CertificateDer::from_pem_slice(ca.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    (vec![leaf.der().clone(), above], key)
}

/// What a server of the mesh answers a client that shows a certificate: a status, or none where it takes no request of it.
async fn asked_as((chain, key): Identity, address: SocketAddr) -> Option<u16> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.ok()?;
    let name = ServerName::try_from("details.shop.svc.cluster.local").unwrap();
    let mut stream = connector.connect(name, stream).await.ok()?;
    let request = b"GET /details/7 HTTP/1.1\r\nhost: details\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.ok()?;
    let answer = std::str::from_utf8(&answer).ok()?;
    answer.strip_prefix("HTTP/1.1 ")?.parse().ok()
}

/// A server over TLS that answers every request.
async fn serve((chain, key): Identity, address: SocketAddr) {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut request = [0; 4096];
                while matches!(stream.read(&mut request).await, Ok(length) if length > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

pub(crate) async fn a_partners_root_signs_for_its_own_identities_alone(rig: Rig) {
    let (ours, partner) = (ca("ours"), ca("partner"));
    let pem = partner.root.replace('\n', "\n    ");
    let flag = rig.mesh_config(&format!(
        "trustDomainAliases: [old.example]\ncaCertificates:\n- trustDomains: [partner.example]\n  pem: |\n    {pem}\n"
    ));
    rig.write("servers.yaml", SERVERS);
    let cacerts = rig.beside("cacerts");
    std::fs::create_dir_all(&cacerts).unwrap();
    std::fs::write(cacerts.join("ca-crl.pem"), ours.revoked(REVOKED)).unwrap();
    let secured = Secured::start(rig, &ours, &[flag]).await;
    let rig = &secured.rig;
    until("front is let in", async || {
        secured.asks(FRONT).await == Some(200)
    })
    .await;

    // To a server.
    let server = rig.block.proxy(DETAILS);
    let front = |domain: &str| format!("spiffe://{domain}/ns/shop/sa/front");
    for (ca, domain, status) in [
        (&ours, "cluster.local", Some(200)),
        // The policy takes an alias for the mesh's own name.
        (&ours, "old.example", Some(200)),
        (&partner, "partner.example", Some(403)),
        (&partner, "cluster.local", None),
        (&partner, "old.example", None),
        (&ours, "partner.example", None),
        (&partner, "third.example", None),
    ] {
        let shown = identity(ca, &front(domain));
        let got = asked_as(shown, server).await;
        assert_eq!(got, status, "{domain}, signed by {}", ca.name);
    }

    let revoked = numbered(&ours, &front("cluster.local"), REVOKED);
    assert_eq!(asked_as(revoked, server).await, None, "revoked");

    // To a client.
    let name = "spiffe://cluster.local/ns/shop/sa/details";
    serve(identity(&ours, name), rig.address("127.0.20.41:9080")).await;
    serve(identity(&partner, name), rig.address("127.0.20.42:9080")).await;
    for (host, status) in [("honest", 200), ("impostor", 503)] {
        let mut client = Client::new(rig.block.outbound(FRONT), host);
        let reply = client.get("/details/7").await.unwrap();
        assert_eq!(reply.status, status, "{host}: {}", reply.text());
    }
    nothing_refused(&secured.mesh).await.unwrap();
    secured.mesh.stop().await;
}
