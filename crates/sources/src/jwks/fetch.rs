//! One fetch: a plain GET with limits of time, size and place.

mod insecure;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, LOCATION, USER_AGENT};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use model::jwks::{BadKeys, KeySource};
use model::trust::{self, BadRoots};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Options;
use super::guard::Guard;
use crate::open::{self, LARGEST_FILE, OpenError};

/// Below the issuer. OpenID Connect Discovery 1.0, section 4.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// The largest answer that is read.
const LARGEST: usize = 1 << 20;
/// How often an answer may send elsewhere.
const REDIRECTS: usize = 5;

/// Why keys did not come. Each can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address makes no sense. Who wrote the policy can act.
    #[error("{0:?} is not an http or https URL, or not https where it has to be")]
    Address(String),
    /// All addresses of the host are of ranges that are not asked. Operators can act.
    #[error("{0} has a blocked address")]
    Blocked(String),
    /// The host is this machine, which policies do not reach unless the operator says so.
    #[error("{0} is an address of this machine, which needs --jwks-allowed-cidrs")]
    Local(String),
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
    #[error("the answer of {0} is larger than {LARGEST} bytes or was cut off")]
    TooLarge(String),
    /// Took too long.
    #[error("no answer in {0:?}")]
    TimedOut(Duration),
    /// The OpenID configuration is somebody else's.
    #[error("the OpenID configuration is for issuer {0:?}")]
    OtherIssuer(String),
    /// The OpenID configuration names no keys.
    #[error("the OpenID configuration has no jwks_uri")]
    Undiscovered,
    /// The answer is not a JWKS.
    #[error("the answer {0}")]
    BadKeys(#[from] BadKeys),
    /// The answer holds no roots.
    #[error("the answer {0}")]
    BadRoots(#[from] BadRoots),
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

/// Fetches keys.
pub struct Fetcher {
    guard: Guard,
    tls: TlsConnector,
}

impl Fetcher {
    /// A fetcher for addresses that the operator names. It trusts the system's roots and those of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn trusting(roots: Option<&Path>) -> Result<Self, RootsError> {
        Self::with(Guard::of_operator(), roots, false)
    }

    /// A fetcher as options say.
    ///
    /// # Errors
    ///
    /// When the file of further roots is there and cannot be used.
    pub fn new(options: &Options) -> Result<Self, RootsError> {
        let extra = options.extra_roots.as_deref();
        let guard = Guard::new(&options.blocked, &options.allowed);
        Self::with(guard, extra, options.insecure)
    }

    fn with(guard: Guard, extra: Option<&Path>, insecure: bool) -> Result<Self, RootsError> {
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
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// The keys that a policy asks for, as they came.
    pub(super) async fn fetch(
        &self,
        source: &KeySource,
        limit: Duration,
    ) -> Result<Arc<str>, FetchError> {
        self.within(source, false, limit).await
    }

    /// Keys that decide who comes in. An OpenID configuration must say that it is the issuer's.
    ///
    /// # Errors
    ///
    /// When they do not come within `limit`.
    pub async fn keys(&self, source: &KeySource, limit: Duration) -> Result<Arc<str>, FetchError> {
        self.within(source, true, limit).await
    }

    async fn within(
        &self,
        source: &KeySource,
        proven: bool,
        limit: Duration,
    ) -> Result<Arc<str>, FetchError> {
        let fetch = async {
            let uri = match source {
                KeySource::Uri(uri) => uri.to_string(),
                KeySource::Issuer(issuer) => self.discover(issuer, proven).await?,
                KeySource::Bundle(url) => of_bundle(url)?,
            };
            let body = self.get(&uri).await?;
            let text = std::str::from_utf8(&body).map_err(|_| BadKeys::NotJson)?;
            match source {
                KeySource::Bundle(_) => _ = trust::of_bundle(text)?,
                KeySource::Uri(_) | KeySource::Issuer(_) => model::jwks::check(text)?,
            }
            Ok(Arc::from(text))
        };
        tokio::time::timeout(limit, fetch)
            .await
            .unwrap_or(Err(FetchError::TimedOut(limit)))
    }

    /// Where the keys of an issuer are. `proven`: the configuration must name the issuer as it is named here (OpenID
    /// Connect Discovery 1.0, section 4.3).
    async fn discover(&self, issuer: &str, proven: bool) -> Result<String, FetchError> {
        let base = issuer.strip_suffix('/').unwrap_or(issuer);
        let body = self.get(&format!("{base}{DISCOVERY}")).await?;
        let found: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        let named = found.as_ref().and_then(|f| f["issuer"].as_str());
        if proven && named != Some(issuer) {
            let named = named.unwrap_or_default().to_owned();
            return Err(FetchError::OtherIssuer(named));
        }
        let uri = found.as_ref().and_then(|f| f["jwks_uri"].as_str());
        uri.map(str::to_owned).ok_or(FetchError::Undiscovered)
    }

    async fn get(&self, uri: &str) -> Result<Bytes, FetchError> {
        let mut target = Target::parse(uri)?;
        for _ in 0..=REDIRECTS {
            let stream = self.connect(&target).await?;
            let answer = if target.tls {
                let name = ServerName::try_from(target.host.clone())
                    .map_err(|_| FetchError::Address(uri.to_owned()))?;
                let stream = self
                    .tls
                    .connect(name, stream)
                    .await
                    .map_err(|error| FetchError::Tls(target.host.clone(), error.to_string()))?;
                ask(stream, &target).await?
            } else {
                ask(stream, &target).await?
            };
            match answer {
                Answer::Body(body) => return Ok(body),
                Answer::Elsewhere(location) => target = target.join(&location)?,
            }
        }
        Err(FetchError::Redirected)
    }

    /// Connects to the first address that may be asked and answers. The address is looked up once and used as it was
    /// checked, so that a name cannot lead elsewhere in between.
    async fn connect(&self, target: &Target) -> Result<TcpStream, FetchError> {
        let host = &target.host;
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), target.port))
            .await
            .map_err(|_| FetchError::Unknown(host.clone()))?
            .collect();
        let (allowed, blocked): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|a| self.guard.allows(a.ip()));
        for address in &allowed {
            if let Ok(stream) = TcpStream::connect(address).await {
                return Ok(stream);
            }
        }
        Err(match (allowed.is_empty(), blocked.is_empty()) {
            (true, true) => FetchError::Unknown(host.clone()),
            (_, false) if blocked.iter().all(|a| a.ip().to_canonical().is_loopback()) => {
                FetchError::Local(host.clone())
            }
            (_, false) => FetchError::Blocked(host.clone()),
            (false, true) => FetchError::Connect(host.clone()),
        })
    }
}

/// The address of a SPIFFE bundle. What it says is trusted, so whoever says it has to be known.
fn of_bundle(url: &str) -> Result<String, FetchError> {
    match url.split_once("://") {
        None => Ok(format!("https://{url}")),
        Some(("https", _)) => Ok(url.to_owned()),
        Some(_) => Err(FetchError::Address(url.to_owned())),
    }
}

/// Where a request goes.
struct Target {
    tls: bool,
    host: String,
    port: u16,
    uri: Uri,
}

impl Target {
    fn parse(text: &str) -> Result<Self, FetchError> {
        let wrong = || FetchError::Address(text.to_owned());
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
    fn join(&self, location: &str) -> Result<Self, FetchError> {
        let joined = match (location.starts_with('/'), self.uri.authority()) {
            (true, Some(authority)) if !location.starts_with("//") => {
                let scheme = if self.tls { "https" } else { "http" };
                Self::parse(&format!("{scheme}://{authority}{location}"))?
            }
            _ => Self::parse(location)?,
        };
        if self.tls && !joined.tls {
            return Err(FetchError::Address(location.to_owned()));
        }
        Ok(joined)
    }
}

enum Answer {
    Body(Bytes),
    Elsewhere(String),
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    target: &Target,
) -> Result<Answer, FetchError> {
    let broken = |_| FetchError::Broken(target.host.clone());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let path = target.uri.path_and_query().map_or("/", |p| p.as_str());
    let authority = target.uri.authority().map_or("", |a| a.as_str());
    let authority = authority.rsplit_once('@').map_or(authority, |(_, a)| a);
    let request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .header(USER_AGENT, HeaderValue::from_static("pilothouse"))
        .body(Empty::<Bytes>::new())
        .map_err(|_| FetchError::Address(target.uri.to_string()))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        if status.is_redirection()
            && let Some(location) = response.headers().get(LOCATION)
        {
            let location = location.to_str().unwrap_or_default().to_owned();
            return Ok(Answer::Elsewhere(location));
        }
        if !status.is_success() {
            return Err(FetchError::Status(target.host.clone(), status.as_u16()));
        }
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|_| FetchError::TooLarge(target.host.clone()))?;
        Ok(Answer::Body(body.to_bytes()))
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
}
