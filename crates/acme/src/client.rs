//! Requests to a directory: HTTP/1.1 over TLS, with limits of time and size. Nothing is followed elsewhere.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use k8s_openapi::jiff;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take, connecting included.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest answer that is read: a chain of certificates is some kilobytes.
const LARGEST: usize = 256 << 10;
/// The longest time that a directory may want to be left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Why a directory did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Not an address that is asked.
    #[error("{0:?} is not an https URL, or http of this machine")]
    Address(String),
    /// Nobody takes connections.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, std::io::Error),
    /// The server's certificate is not trusted, or it speaks no TLS.
    #[error("no TLS with {0}: {1}")]
    Tls(String, std::io::Error),
    /// The connection broke, or what came is no HTTP.
    #[error("no answer from {0}: {1}")]
    Broken(String, hyper::Error),
    /// Took too long.
    #[error("no answer from {0} in {1:?}")]
    TimedOut(String, Duration),
    /// Larger than is read, or cut off.
    #[error("the answer of {0} is larger than {LARGEST} bytes, or was cut off")]
    TooLarge(String),
    /// An error without an explanation.
    #[error("{0} answered {1}, without the JSON that ACME has")]
    Status(String, StatusCode),
}

impl ClientError {
    fn boxed(self) -> Error {
        Error::Other(Box::new(self))
    }
}

/// Why roots cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The file cannot be read, or holds no PEM.
    #[error("cannot read certificates from {0}")]
    Unreadable(String, #[source] rustls::pki_types::pem::Error),
    /// A certificate of it is none.
    #[error("{0} holds a certificate that is none")]
    Malformed(String, #[source] rustls::Error),
    /// There is none.
    #[error("{0} holds no certificate")]
    Empty(String),
    /// The crypto library supports no version of TLS: a bug.
    #[error("no TLS version is available")]
    NoVersion(#[source] rustls::Error),
}

/// What the certificates of directories have to lead to.
#[derive(Clone)]
pub struct Roots(TlsConnector);

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Roots")
    }
}

impl Roots {
    /// The system's roots, or those of a file in their place.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn new(file: Option<&Path>) -> Result<Self, RootsError> {
        let mut roots = RootCertStore::empty();
        match file {
            Some(path) => {
                let shown = path.display().to_string();
                let unreadable = |error| RootsError::Unreadable(shown.clone(), error);
                for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
                    let added = roots.add(certificate.map_err(unreadable)?);
                    added.map_err(|error| RootsError::Malformed(shown.clone(), error))?;
                }
                if roots.is_empty() {
                    return Err(RootsError::Empty(shown));
                }
            }
            // What cannot be read, others make up for; without any, every server is refused with a reason.
            None => {
                let system = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(system.certs);
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(RootsError::NoVersion)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

/// A connection that may be used again, and with whom.
type Idle = Option<(String, SendRequest<BodyWrapper<Bytes>>)>;

/// A client for one order. It connects once where the directory lets it.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    roots: Roots,
    /// Whether the directory may be asked in plain text, as one on this machine.
    plain: bool,
    idle: Mutex<Idle>,
    heard: Mutex<Option<SystemTime>>,
}

impl Client {
    pub(crate) fn new(roots: Roots, directory: &str) -> Self {
        let plain = Target::parse(directory, true).is_ok_and(|target| !target.tls);
        Self(Arc::new(Shared {
            roots,
            plain,
            idle: Mutex::default(),
            heard: Mutex::default(),
        }))
    }

    /// Until when the directory wants to be left alone, by its last answer that said so.
    pub(crate) fn heard(&self) -> Option<SystemTime> {
        *self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let shared = self.0.clone();
        Box::pin(async move { shared.ask(request).await.map_err(ClientError::boxed) })
    }
}

impl Shared {
    async fn ask(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Result<BytesResponse, ClientError> {
        let target = Target::parse(&request.uri().to_string(), self.plain)?;
        let name = target.name.clone();
        let asking = tokio::time::timeout(PATIENCE, self.exchange(request, target));
        let timed_out = |_| ClientError::TimedOut(name, PATIENCE);
        asking.await.map_err(timed_out)?
    }

    async fn exchange(
        &self,
        request: Request<BodyWrapper<Bytes>>,
        target: Target,
    ) -> Result<BytesResponse, ClientError> {
        let name = &target.name;
        let mut sender = match self.kept(name).await {
            Some(sender) => sender,
            None => self.connect(&target).await?,
        };
        let (mut head, body) = request.into_parts();
        head.uri = target.path;
        if let Ok(host) = HeaderValue::from_str(name) {
            head.headers.insert(HOST, host);
        }
        let request = Request::from_parts(head, body);
        let broken = |error| ClientError::Broken(name.clone(), error);
        let response = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        let body = self.body(name, body).await?;
        if let Some(until) = until(&head.headers, SystemTime::now())
            && !head.status.is_success()
        {
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
        if !head.status.is_success() && !is_json(&head.headers) {
            return Err(ClientError::Status(name.clone(), head.status));
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        *idle = Some((name.clone(), sender));
        drop(idle);
        let response: Response<http_body_util::Full<Bytes>> =
            Response::from_parts(head, http_body_util::Full::new(body));
        Ok(response.into())
    }

    async fn body(&self, name: &str, body: Incoming) -> Result<Bytes, ClientError> {
        let body = Limited::new(body, LARGEST).collect().await;
        let body = body.map_err(|_| ClientError::TooLarge(name.to_owned()))?;
        Ok(body.to_bytes())
    }

    /// The connection that was kept, if it is to the same server and still open.
    async fn kept(&self, name: &str) -> Option<SendRequest<BodyWrapper<Bytes>>> {
        let kept = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let (of, mut sender) = kept.filter(|(of, _)| of == name)?;
        debug_assert_eq!(of, name);
        sender.ready().await.ok()?;
        Some(sender)
    }

    async fn connect(
        &self,
        target: &Target,
    ) -> Result<SendRequest<BodyWrapper<Bytes>>, ClientError> {
        let name = &target.name;
        let connecting = async {
            let stream = TcpStream::connect((target.host.as_str(), target.port)).await;
            let stream = stream.map_err(|error| ClientError::Connect(name.clone(), error))?;
            // Requests are small, and answers are waited for.
            let _ = stream.set_nodelay(true);
            if !target.tls {
                return spoken(stream, name).await;
            }
            let server = ServerName::try_from(target.host.clone());
            let server = server.map_err(|_| ClientError::Address(name.clone()))?;
            let stream = self.roots.0.connect(server, stream).await;
            let stream = stream.map_err(|error| ClientError::Tls(name.clone(), error))?;
            spoken(stream, name).await
        };
        tokio::time::timeout(CONNECT, connecting)
            .await
            .unwrap_or_else(|_| Err(ClientError::TimedOut(name.clone(), CONNECT)))
    }
}

async fn spoken(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    name: &str,
) -> Result<SendRequest<BodyWrapper<Bytes>>, ClientError> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| ClientError::Broken(name.to_owned(), error))?;
    // It ends with its sender.
    tokio::spawn(connection);
    Ok(sender)
}

/// Where a request goes.
struct Target {
    tls: bool,
    /// A name or an address, without brackets.
    host: String,
    port: u16,
    /// `HOST[:PORT]`, as it was written.
    name: String,
    path: Uri,
}

impl Target {
    /// Reads a URL; `plain`: of this machine, it may be http.
    fn parse(text: &str, plain: bool) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address(text.chars().take(200).collect());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let tls = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']);
        let here = host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.to_canonical().is_loopback());
        if !(tls || plain && here && uri.scheme_str() == Some("http")) {
            return Err(wrong());
        }
        let name = uri.authority().map_or("", |a| a.as_str());
        if name.contains('@') {
            return Err(wrong());
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            tls,
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            name: name.to_owned(),
            path: path.parse().map_err(|_| wrong())?,
        })
    }
}

/// Whether a URL can be that of a directory.
pub fn is_directory(url: &str) -> bool {
    Target::parse(url, true).is_ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let of_type = headers.get(CONTENT_TYPE).and_then(|t| t.to_str().ok());
    of_type.is_some_and(|of_type| of_type.contains("json"))
}

fn until(headers: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(text, now)
}

/// Until when to wait, as the header `Retry-After` says it: in seconds, or as a date. RFC 9110, section 10.2.3.
pub(crate) fn retry_after(text: &str, now: SystemTime) -> Option<SystemTime> {
    let text = text.trim();
    let pause = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?;
            let at: SystemTime = at.timestamp().into();
            at.duration_since(now).unwrap_or_default()
        }
    };
    now.checked_add(pause.min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let after = |text| retry_after(text, now).map(|at| at.duration_since(now).unwrap());
        assert_eq!(after(" 120 "), Some(Duration::from_secs(120)));
        let date = after("Sun, 09 Sep 2001 01:47:40 GMT");
        assert_eq!(date, Some(Duration::from_secs(60)));
        assert_eq!(after("Sun, 09 Sep 1990 01:47:40 GMT"), Some(Duration::ZERO));
        assert_eq!(after("99999999999999"), Some(LONGEST_PAUSE));
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn directories_are_asked_over_tls_or_on_this_machine() {
        for url in [
            "https://acme.example/dir",
            "http://127.0.0.1:14000/dir",
            "http://[::1]:1/",
        ] {
            assert!(is_directory(url), "{url}");
        }
        for url in [
            "http://acme.example/dir",
            "ftp://127.0.0.1/",
            "acme",
            "https://u@acme.example/",
        ] {
            assert!(!is_directory(url), "{url}");
        }
        // What a directory over TLS names is asked over TLS.
        assert!(Target::parse("http://127.0.0.1/new-order", false).is_err());
    }
}
