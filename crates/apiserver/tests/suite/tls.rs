//! TLS and credentials, on a socket.

use std::fs;
use std::sync::Arc;

use apiserver::access::Access;
use apiserver::api::Api;
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::pki::{Files, Given, server_names};
use apiserver::store::{Keep, Store};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// The first line and the body of an answer.
async fn ask(
    address: std::net::SocketAddr,
    ca: &[u8],
    client: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    token: &str,
) -> String {
    ask_for("/api/v1/namespaces", address, ca, client, token).await
}

/// The same for another path.
pub(crate) async fn ask_for(
    path: &str,
    address: std::net::SocketAddr,
    ca: &[u8],
    client: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    token: &str,
) -> String {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        Some((certificate, key)) => config
            .with_client_auth_cert(vec![certificate], key)
            .unwrap(),
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let bearer = if token.is_empty() {
        String::new()
    } else {
        format!("Authorization: Bearer {token}\r\n")
    };
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}Connection: close\r\n\r\n");
    // One that hangs up on a certificate may do so before it has read.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    // A server that closes without a goodbye has said all the same.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn only_those_who_prove_who_they_are_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::of(dir.path());
    let token = files
        .prepare(&server_names("127.0.0.1".parse().unwrap()))
        .unwrap();
    let security = Security::Tls(files.server(&Given::default()).unwrap());
    let audit = dir.path().join("audit");
    let store = Store::open(dir.path(), Keep::default()).unwrap();
    let access = Access::default().with_admin(&token).unwrap();
    let api = Api::start(store, access, Audit::to_file(&audit).unwrap(), &["default"])
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, security, api, CancellationToken::new()));

    let ca = fs::read(files.ca()).unwrap();
    let none = ask(address, &ca, None, "").await;
    assert!(
        none.starts_with("HTTP/1.1 401") && none.contains("\"reason\":\"Unauthorized\""),
        "{none}"
    );
    let wrong = ask(address, &ca, None, "wr0ng-and-secret").await;
    assert!(wrong.starts_with("HTTP/1.1 401"), "{wrong}");
    let right = ask(address, &ca, None, &token).await;
    assert!(
        right.starts_with("HTTP/1.1 200") && right.contains("NamespaceList"),
        "{right}"
    );

    let ca_key =
        rcgen::KeyPair::from_pem(&fs::read_to_string(dir.path().join("pki/ca.key")).unwrap())
            .unwrap();
    let mut issuer = rcgen::CertificateParams::default();
    issuer.distinguished_name = rcgen::DistinguishedName::new();
    issuer
        .distinguished_name
        .push(rcgen::DnType::CommonName, "pilothouse-api-ca");
    let issuer = rcgen::Issuer::new(issuer, ca_key);
    for (group, status) in [("system:masters", "200"), ("others", "403")] {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "ann");
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, group);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let answer = ask(address, &ca, Some((certificate.der().clone(), key)), "").await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{group}: {answer}"
        );
    }
    // A certificate that somebody else signed is no proof of anything.
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key);
    let foreign = certificate.unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let answer = ask(address, &ca, Some((foreign, key)), "").await;
    assert_eq!(answer, "");
    let start = std::time::Instant::now();
    let log = loop {
        let log = fs::read_to_string(&audit).unwrap();
        if log.lines().count() > 5 {
            break log;
        }
        assert!(start.elapsed().as_secs() < 60, "{log}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 6, "{log}");
    assert!(lines[5].contains("\"attempted\":\"certificate\""), "{log}");
    assert!(lines[4].contains("\"user\":\"ann\"") && lines[4].contains("\"code\":403"));
    // Who was turned away is told, and not by what.
    for (line, attempted, why) in [
        (lines[0], "none", "no token and no certificate"),
        (lines[1], "bearer", "the token belongs to no user"),
    ] {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["code"], &line["attempted"], &line["why"]),
            (&401.into(), &attempted.into(), &why.into())
        );
        assert_eq!(
            (&line["path"], &line["from"]),
            (&"/api/v1/namespaces".into(), &"127.0.0.1".into())
        );
    }
    assert!(
        !log.contains("wr0ng-and-secret") && !log.contains(&token),
        "{log}"
    );
}
