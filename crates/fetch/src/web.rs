//! Asking servers that configuration names: GET requests with limits of size, redirects and place.
//!
//! Names are looked up once and used as they were checked ([`guard`]). TLS trusts the system's roots and those that the
//! operator adds. How long an answer may take is for whoever asks.

pub mod guard;
mod insecure;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use disk::open::{self, LARGEST_FILE, OpenError};
use guard::Guard;

/// How often an answer may send elsewhere.
const REDIRECTS: usize = 5;

/// Why no answer came. Each can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address makes no sense. Who wrote the object can act.
    #[error("{0:?} is not an http or https URL, or not https where it has to be")]
    Address(String),
    /// All addresses of the host are of ranges that are not asked. Operators can act.
    #[error("{0} has a blocked address")]
    Blocked(String),
    /// The host is this machine, which configuration does not reach unless the operator says so.
    #[error("{0} is an address of this machine, which needs {1}")]
    Local(String, &'static str),
    /// The host has no address.
    #[error("{0} does not resolve")]
    Unknown(String),
    /// Nobody takes connections.
    #[error("cannot connect to {0}")]
    Connect(String),
    /// The server's certificate is not trusted, or it speaks no TLS.
    #[error("no TLS with {0}: {1}")]
    Tls(String, String),
    /// The connection broke.
    #[error("no answer from {0}")]
    Broken(String),
    /// Another status than success.
    #[error("{0} answered {1}")]
    Status(String, u16),
    /// Sent on and on.
    #[error("too many redirects")]
    Redirected,
    /// Larger than is read.
    #[error("the answer of {0} is larger than {1} bytes")]
    TooLarge(String, usize),
    /// The body ended before it was whole.
    #[error("the answer of {0} was cut off")]
    CutOff(String),
}

/// Why the file of further roots cannot be used. Operators can act.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// It cannot be read.
    #[error("cannot read roots from {0}")]
    Unreadable(String, #[source] OpenError),
    /// It is not PEM.
    #[error("{0} contains no PEM certificates")]
    NotPem(String, #[source] rustls::pki_types::pem::Error),
    /// A certificate of it is none.
    #[error("{0} contains an invalid certificate")]
    Malformed(String, #[source] rustls::Error),
    /// The crypto library supports no version of TLS: a bug.
    #[error("no TLS version is available")]
    NoVersion(#[source] rustls::Error),
}

/// Asks servers.
pub struct Web {
    guard: Guard,
    /// The flag by which operators let this machine be asked.
    allowing: &'static str,
    tls: TlsConnector,
}

/// A question.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The types that are wanted.
    pub accept: &'static str,
    /// Sent to the server that is asked, and to no other that it sends to.
    pub authorization: Option<&'a HeaderValue>,
    /// The largest body that is read, in bytes.
    pub largest: usize,
}

/// An answer. Its body is read where it says success.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body of a success; empty otherwise.
    pub body: Bytes,
    /// The host that answered.
    pub host: String,
}

impl Answer {
    /// The body of a success.
    ///
    /// # Errors
    ///
    /// When the status says something else.
    pub fn success(self) -> Result<Bytes, WebError> {
        match self.status.is_success() {
            true => Ok(self.body),
            false => Err(WebError::Status(self.host, self.status.as_u16())),
        }
    }
}

impl Web {
    /// Asks within `guard`; `allowing` is the flag by which operators widen it.
    ///
    /// # Errors
    ///
    /// When the file of further roots is there and cannot be used.
    pub fn new(
        guard: Guard,
        allowing: &'static str,
        extra: Option<&Path>,
        insecure: bool,
    ) -> Result<Self, RootsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(RootsError::NoVersion)?;
        let config = if insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(insecure::AnyCertificate(provider)))
                .with_no_client_auth()
        } else {
            builder
                .with_root_certificates(roots(extra)?)
                .with_no_client_auth()
        };
        Ok(Self {
            guard,
            allowing,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// What is answered, wherever the answer sends.
    ///
    /// # Errors
    ///
    /// When no answer comes from an address that may be asked.
    pub async fn follow(&self, start: Target, ask: Ask<'_>) -> Result<Answer, WebError> {
        let (mut target, mut ask) = (start, ask);
        for _ in 0..=REDIRECTS {
            let answer = self.get(&target, ask).await?;
            let location = answer.headers.get(LOCATION);
            let Some(location) = location.filter(|_| answer.status.is_redirection()) else {
                return Ok(answer);
            };
            let next = target.join(location.to_str().unwrap_or_default())?;
            if !next.is_of_same_server(&target) {
                ask.authorization = None;
            }
            target = next;
        }
        Err(WebError::Redirected)
    }

    /// What one server answers.
    ///
    /// # Errors
    ///
    /// When no answer comes, or the address may not be asked.
    pub async fn get(&self, target: &Target, ask: Ask<'_>) -> Result<Answer, WebError> {
        let stream = self.connect(target).await?;
        if !target.tls {
            return exchange(stream, target, ask).await;
        }
        let name = ServerName::try_from(target.host.clone())
            .map_err(|_| WebError::Address(target.uri.to_string()))?;
        let stream = self
            .tls
            .connect(name, stream)
            .await
            .map_err(|error| WebError::Tls(target.host.clone(), error.to_string()))?;
        exchange(stream, target, ask).await
    }

    /// Connects to the first address that may be asked and answers. The address is looked up once and used as it was
    /// checked, so that a name cannot lead elsewhere in between.
    async fn connect(&self, target: &Target) -> Result<TcpStream, WebError> {
        let host = &target.host;
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), target.port))
            .await
            .map_err(|_| WebError::Unknown(host.clone()))?
            .collect();
        let (allowed, blocked): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|a| self.guard.allows(a.ip()));
        for address in &allowed {
            if let Ok(stream) = TcpStream::connect(address).await {
                return Ok(stream);
            }
        }
        Err(match (allowed.is_empty(), blocked.is_empty()) {
            (true, true) => WebError::Unknown(host.clone()),
            (_, false) if blocked.iter().all(|a| a.ip().to_canonical().is_loopback()) => {
                WebError::Local(host.clone(), self.allowing)
            }
            (_, false) => WebError::Blocked(host.clone()),
            (false, true) => WebError::Connect(host.clone()),
        })
    }
}

/// Where a request goes.
pub struct Target {
    /// Whether it goes over TLS.
    pub tls: bool,
    /// The host, without the port.
    pub host: String,
    port: u16,
    uri: Uri,
}

impl Target {
    /// The target of an `http` or `https` URL.
    ///
    /// # Errors
    ///
    /// When it is not one.
    pub fn parse(text: &str) -> Result<Self, WebError> {
        let wrong = || WebError::Address(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let host = uri.host().ok_or_else(wrong)?;
        Ok(Self {
            tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            uri,
        })
    }

    /// Where an answer sends. Not from TLS to clear text.
    fn join(&self, location: &str) -> Result<Self, WebError> {
        let joined = match (location.starts_with('/'), self.uri.authority()) {
            (true, Some(authority)) if !location.starts_with("//") => {
                let scheme = if self.tls { "https" } else { "http" };
                Self::parse(&format!("{scheme}://{authority}{location}"))?
            }
            _ => Self::parse(location)?,
        };
        if self.tls && !joined.tls {
            return Err(WebError::Address(location.to_owned()));
        }
        Ok(joined)
    }

    fn is_of_same_server(&self, other: &Self) -> bool {
        self.tls == other.tls
            && self.port == other.port
            && self.host.eq_ignore_ascii_case(&other.host)
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    target: &Target,
    ask: Ask<'_>,
) -> Result<Answer, WebError> {
    let host = || target.host.clone();
    let broken = |_| WebError::Broken(host());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let path = target.uri.path_and_query().map_or("/", |p| p.as_str());
    let authority = target.uri.authority().map_or("", |a| a.as_str());
    let authority = authority.rsplit_once('@').map_or(authority, |(_, a)| a);
    let mut request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, HeaderValue::from_static(ask.accept))
        .header(USER_AGENT, HeaderValue::from_static("pilothouse"));
    if let Some(value) = ask.authorization {
        request = request.header(AUTHORIZATION, value);
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|_| WebError::Address(target.uri.to_string()))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let (parts, body) = response.into_parts();
        let mut answer = Answer {
            status: parts.status,
            headers: parts.headers,
            body: Bytes::new(),
            host: host(),
        };
        if answer.status.is_success() {
            let body = Limited::new(body, ask.largest).collect().await;
            let body = body.map_err(|error| match error.is::<LengthLimitError>() {
                true => WebError::TooLarge(host(), ask.largest),
                false => WebError::CutOff(host()),
            })?;
            answer.body = body.to_bytes();
        }
        Ok(answer)
    };
    // The connection works only while it is asked to, and is closed with the answer.
    tokio::pin!(exchange);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        answer = &mut exchange => answer,
        _ = &mut connection => exchange.await,
    }
}

/// The system's roots and further ones.
fn roots(extra: Option<&Path>) -> Result<RootCertStore, RootsError> {
    let mut roots = RootCertStore::empty();
    // What of the system's cannot be read, others make up for; without any, every server is refused with a reason.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let Some(path) = extra.filter(|p| p.exists()) else {
        return Ok(roots);
    };
    let shown = path.display().to_string();
    let pem = open::read(path, LARGEST_FILE)
        .map_err(|error| RootsError::Unreadable(shown.clone(), error))?
        .bytes;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| RootsError::NotPem(shown.clone(), error))?;
        roots
            .add(certificate)
            .map_err(|error| RootsError::Malformed(shown.clone(), error))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn wherever_an_answer_sends_it_is_not_from_tls_to_clear_text(
            location in "(https?:)?[/a-z0-9.:@#?%\\[\\]\\\\ -]{0,40}|\\PC{0,40}",
            tls in any::<bool>(),
        ) {
            let scheme = if tls { "https" } else { "http" };
            let target = Target::parse(&format!("{scheme}://keys.example.com/a")).unwrap();
            if let Ok(joined) = target.join(&location) {
                prop_assert!(joined.tls || !tls, "{location}");
                prop_assert!(!joined.host.is_empty(), "{location}");
            }
        }
    }

    #[test]
    fn a_server_is_its_scheme_host_and_port() {
        let target = |text: &str| Target::parse(text).unwrap();
        let own = target("https://a.example/x");
        assert!(own.is_of_same_server(&target("https://A.example:443/y")));
        for other in [
            "http://a.example/x",
            "https://a.example:8443/x",
            "https://b.example/x",
        ] {
            assert!(!own.is_of_same_server(&target(other)), "{other}");
        }
    }
}
