//! Requests of HTTP/1.1 to pages and the API, plain or over TLS.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::peer::{Socket, connect};

/// The most that is read of an answer.
const LONGEST: u64 = 64 << 20;

/// What was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status; 0 where there was none.
    pub status: u16,
    /// Head and body.
    pub text: String,
}

/// Asks once, with headers `Name: value`, and closes the connection.
///
/// # Errors
/// Those of the socket, and a timeout.
pub async fn ask(
    socket: &mut dyn Socket,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &[u8],
    patience: Duration,
) -> io::Result<Answer> {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|h| h.starts_with("Host:")) {
        head += "Host: localhost\r\n";
    }
    for header in headers {
        head = head + header + "\r\n";
    }
    if !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    head += "Connection: close\r\n\r\n";
    let talk = async {
        socket.write_all(head.as_bytes()).await?;
        // A server may answer before it has the whole body, and close.
        let sent = socket.write_all(body).await;
        let mut octets = Vec::new();
        let read = socket.take(LONGEST).read_to_end(&mut octets).await;
        if octets.is_empty() {
            sent?;
            read?;
        }
        Ok::<_, io::Error>(octets)
    };
    let octets = tokio::time::timeout(patience, talk).await??;
    let text = String::from_utf8_lossy(&octets).into_owned();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok());
    Ok(Answer {
        status: status.unwrap_or(0),
        text,
    })
}

/// Fetches a page over a connection of its own.
///
/// # Errors
/// Those of [`ask`].
pub async fn get(
    to: SocketAddr,
    from: Ipv4Addr,
    path: &str,
    headers: &[&str],
) -> io::Result<Answer> {
    let mut socket = connect(to, from).await?;
    ask(
        &mut socket,
        "GET",
        path,
        headers,
        &[],
        Duration::from_secs(20),
    )
    .await
}

/// Speaks TLS to a server whose authority is in a file.
///
/// # Errors
/// When the file cannot be used.
pub fn tls(ca: &Path, alpn: &[u8]) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let certificate =
        CertificateDer::from_pem_file(ca).with_context(|| ca.display().to_string())?;
    roots.add(certificate)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Connects and shakes hands.
///
/// # Errors
/// Those of the socket, and a timeout of ten seconds.
pub async fn secure(
    tls: &TlsConnector,
    to: SocketAddr,
    from: Ipv4Addr,
) -> io::Result<impl Socket + use<>> {
    let socket = connect(to, from).await?;
    let name = ServerName::IpAddress(to.ip().into());
    tokio::time::timeout(Duration::from_secs(10), tls.connect(name, socket)).await?
}
