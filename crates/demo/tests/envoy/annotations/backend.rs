//! Backends that answer with what they saw, and write it down under the id of the request.
//!
//! The header `x-do` tells them what else to do: `status=503`, `delay=MS`, `reset`, `set=NAME:VALUE` for the answer, and
//! `times=N`: only that often for a request, and as usual afterwards. A path `/status/N` asks for that status as well, and such
//! an answer says who the user is.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::world::{Certificates, PORT, SERVICES};
use crate::rig::Rig;

/// What a backend saw: its name, and the request.
type Seen = (String, Value);

/// All backends.
#[derive(Clone)]
pub(super) struct Backends {
    seen: Arc<Mutex<HashMap<String, Vec<Seen>>>>,
    /// Keeps the queue of the backend full that takes no connections.
    _stuck: Arc<Vec<TcpStream>>,
}

/// How a request came.
#[derive(Clone, Default)]
struct Connection {
    tls: bool,
    sni: Option<String>,
    client: bool,
}

impl Backends {
    /// Starts all of them.
    pub(super) async fn start(rig: &Rig, certificates: &Certificates) -> Self {
        let mut stuck = Vec::new();
        let seen = Arc::default();
        for (service, addresses) in SERVICES {
            for (at, address) in addresses.iter().enumerate() {
                let address = rig.address(&format!("{address}:{PORT}"));
                let name = match addresses.len() {
                    1 => service.to_owned(),
                    _ => format!("{service}-{}", at + 1),
                };
                match service {
                    "dead" => stuck.extend(silent(address).await),
                    "secure" => serve(address, name, Some(tls(certificates, false)), &seen).await,
                    "mutual" => serve(address, name, Some(tls(certificates, true)), &seen).await,
                    _ => serve(address, name, None, &seen).await,
                }
            }
        }
        Self {
            seen,
            _stuck: Arc::new(stuck),
        }
    }

    /// What was seen of a request, in order.
    pub(super) fn seen(&self, id: &str) -> Vec<Seen> {
        self.seen
            .lock()
            .unwrap()
            .get(id)
            .cloned()
            .unwrap_or_default()
    }
}

/// A listener that takes no connection, with a queue that is full.
async fn silent(address: SocketAddr) -> Vec<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut kept = Vec::new();
    // Those that come later wait for ever, and so will proxies.
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        kept.push(stream);
    }
    std::mem::forget(listener);
    kept
}

fn tls(certificates: &Certificates, mutual: bool) -> TlsAcceptor {
    let pair = &certificates.backend;
    let chain = CertificateDer::pem_slice_iter(pair.chain.as_bytes());
    let chain: Vec<CertificateDer<'static>> = chain.collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match mutual {
        false => config.with_no_client_auth(),
        true => {
            let mut roots = RootCertStore::empty();
            let authority = CertificateDer::from_pem_slice(certificates.authority.as_bytes());
            roots.add(authority.unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

type Log = Arc<Mutex<HashMap<String, Vec<Seen>>>>;

async fn serve(address: SocketAddr, name: String, tls: Option<TlsAcceptor>, seen: &Log) {
    let listener = TcpListener::bind(address).await.unwrap();
    let seen = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (name, tls, seen) = (name.clone(), tls.clone(), seen.clone());
            tokio::spawn(async move {
                let Some(tls) = tls else {
                    // The beginning of HTTP/2 says what it is.
                    let mut start = [0; 3];
                    let is_http2 = stream.peek(&mut start).await.is_ok() && &start == b"PRI";
                    return speak(stream, is_http2, Connection::default(), name, seen).await;
                };
                let Ok(stream) = tls.accept(stream).await else {
                    return;
                };
                let (_, session) = stream.get_ref();
                let connection = Connection {
                    tls: true,
                    sni: session.server_name().map(str::to_owned),
                    client: session.peer_certificates().is_some(),
                };
                let is_http2 = session.alpn_protocol() == Some(b"h2");
                speak(stream, is_http2, connection, name, seen).await;
            });
        }
    });
}

async fn speak<S>(stream: S, is_http2: bool, connection: Connection, name: String, seen: Log)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service =
        service_fn(move |request| answer(request, name.clone(), connection.clone(), seen.clone()));
    let stream = TokioIo::new(stream);
    // A proxy that goes away is no failure.
    if is_http2 {
        let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = http.serve_connection(stream, service).await;
    } else {
        let http = hyper::server::conn::http1::Builder::new();
        let _ = http.serve_connection(stream, service).await;
    }
}

/// Headers by name; several values of one with a comma between them.
pub(super) fn shown(headers: &HeaderMap) -> Value {
    let mut all = serde_json::Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).into_iter();
        let values: Vec<String> = values
            .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
            .collect();
        all.insert(name.to_string(), json!(values.join(", ")));
    }
    Value::Object(all)
}

async fn answer(
    request: Request<Incoming>,
    name: String,
    connection: Connection,
    seen: Log,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let header = |name: &str| {
        head.headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
    };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let host = head
        .uri
        .authority()
        .map_or(header("host"), |authority| authority.as_str());
    let saw = json!({
        "method": head.method.as_str(),
        "path": path,
        "host": host,
        "headers": shown(&head.headers),
        "length": body.len(),
        "protocol": format!("{:?}", head.version),
        "tls": connection.tls,
        "sni": connection.sni,
        "client": connection.client,
    });
    let before = {
        let mut seen = seen.lock().unwrap();
        let all = seen.entry(header("x-id").to_owned()).or_default();
        all.push((name.clone(), saw.clone()));
        all.iter()
            .filter(|(backend, _)| backend.split('-').next() == name.split('-').next())
            .count()
            - 1
    };
    let mut response = Response::new(Full::default());
    response.headers_mut().insert("x-backend", name.parse()?);
    let asked: Vec<&str> = header("x-do")
        .split(';')
        .filter(|word| !word.is_empty())
        .collect();
    let times = asked
        .iter()
        .find_map(|word| word.strip_prefix("times=")?.parse::<usize>().ok());
    if let Some(status) = path.strip_prefix("/status/") {
        let status = status.split('?').next().unwrap_or_default();
        *response.status_mut() = status.parse()?;
        let headers = response.headers_mut();
        headers.insert("x-user", "ann".parse()?);
        headers.insert("set-cookie", "session=1".parse()?);
        headers.insert("www-authenticate", "Bearer".parse()?);
    } else if name != "judge" && times.is_none_or(|times| before < times) {
        for word in asked {
            match word.split_once('=').unwrap_or((word, "")) {
                ("status", status) => *response.status_mut() = status.parse()?,
                ("delay", ms) => tokio::time::sleep(Duration::from_millis(ms.parse()?)).await,
                ("reset", _) => anyhow::bail!("as the request says"),
                ("set", header) => {
                    let (name, value) = header.split_once(':').unwrap_or((header, ""));
                    let name: hyper::header::HeaderName = name.parse()?;
                    response.headers_mut().append(name, value.parse()?);
                }
                _ => {}
            }
        }
    }
    let text = json!({"backend": name, "saw": saw}).to_string();
    *response.body_mut() = Full::new(Bytes::from(text));
    Ok(response)
}
