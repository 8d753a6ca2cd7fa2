//! Calls of webhooks over HTTPS, with limits of time, size and place.

mod judge;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig as TlsConfig, RootCertStore};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::service::Place;
use super::{Reach, service};
use crate::store::Store;
use judge::Judge;

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 6 << 20;
/// The most addresses of a host that are tried.
const ADDRESSES: usize = 4;

/// How a configuration says where its webhook is.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClientConfig {
    url: Option<String>,
    service: Option<ServiceReference>,
    ca_bundle: Option<String>,
}

/// The Service of a webhook.
#[derive(Deserialize, Debug)]
pub(super) struct ServiceReference {
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(default)]
    path: String,
    pub(super) port: Option<u16>,
}

/// Where a webhook is.
#[derive(Debug)]
enum Target {
    Url { host: String, port: u16 },
    Service(ServiceReference),
}

/// Whom its certificate must be issued by.
#[derive(Clone)]
enum Trust {
    /// Those of the bundle.
    Bundle(Arc<TlsConfig>),
    /// Nobody is named: those that the system trusts, and of this server itself its own.
    Unnamed,
}

/// How a webhook is called.
pub(super) struct Client {
    target: Result<Target, String>,
    /// `HOST[:PORT]`.
    authority: String,
    path: String,
    trust: Result<Trust, String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "https://{}{}", self.authority, self.path)
    }
}

impl Client {
    pub(super) fn new(config: ClientConfig) -> Self {
        let bundle = config.ca_bundle.unwrap_or_default();
        let trust = match bundle.is_empty() {
            true => Ok(Trust::Unnamed),
            false => of_bundle(&bundle).map(Trust::Bundle),
        };
        let (target, authority, path) = match (config.service, config.url) {
            (Some(service), _) => {
                let port = service.port.unwrap_or(443);
                let authority = format!("{}.{}.svc:{port}", service.name, service.namespace);
                let path = service.path.clone();
                (Ok(Target::Service(service)), authority, path)
            }
            (None, url) => of_url(&url.unwrap_or_default()),
        };
        let path = if path.starts_with('/') {
            path
        } else {
            format!("/{path}")
        };
        Self {
            target,
            authority,
            path,
            trust,
        }
    }

    /// The body of the answer to a review.
    ///
    /// # Errors
    ///
    /// Why there is none, as kube-apiserver says it.
    pub(super) async fn call(
        &self,
        store: &Store,
        reach: &Reach,
        review: Bytes,
        patience: Duration,
    ) -> Result<Bytes, String> {
        let seconds = patience.as_secs() + u64::from(patience.subsec_nanos() > 0);
        let uri = format!("{}?timeout={seconds}s", self.path);
        let calling = self.exchange(store, reach, &uri, review);
        let done = tokio::time::timeout(patience, calling).await;
        let fault = match done {
            Ok(Ok(answer)) => return answer.body(),
            Ok(Err(fault)) => fault,
            Err(_) => "context deadline exceeded".to_owned(),
        };
        Err(format!(
            "failed to call webhook: Post \"https://{}{uri}\": {fault}",
            self.authority
        ))
    }

    async fn exchange(
        &self,
        store: &Store,
        reach: &Reach,
        uri: &str,
        review: Bytes,
    ) -> Result<Answered, String> {
        let (name, places, own) = match self.target.as_ref()? {
            Target::Url { host, port } => {
                (host.clone(), vec![Place::Name(host.clone(), *port)], None)
            }
            Target::Service(service) => {
                let name = format!("{}.{}.svc", service.name, service.namespace);
                match reach.own.as_ref().filter(|own| own.is(service)) {
                    Some(own) => (name, vec![Place::Address(own.address)], Some(own)),
                    None => (name, service::places(store, service)?, None),
                }
            }
        };
        let tls = match (self.trust.as_ref()?, own) {
            (Trust::Bundle(tls), _) => tls.clone(),
            (Trust::Unnamed, Some(own)) => trusting((own.roots)())?,
            (Trust::Unnamed, None) => of_system()?,
        };
        let stream = connect(places, reach, own.is_some()).await?;
        let name = ServerName::try_from(name).map_err(|e| e.to_string())?;
        let stream = TlsConnector::from(tls)
            .connect(name, stream)
            .await
            .map_err(|e| tls_fault(&e))?;
        let broken = |e: hyper::Error| e.to_string();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let request = Request::post(uri)
            .header(HOST, self.authority.trim_end_matches(":443"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(ACCEPT, HeaderValue::from_static("application/json, */*"))
            .header(
                USER_AGENT,
                HeaderValue::from_static("kube-apiserver-admission"),
            )
            .body(Full::new(review))
            .map_err(|e| e.to_string())?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            let status = response.status();
            let kind = response.headers().get(CONTENT_TYPE);
            let is_text = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/"));
            let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect();
            let body = body.await.map_err(|e| match e.is::<LengthLimitError>() {
                true => format!("the answer has more than {LARGEST_ANSWER} bytes"),
                false => e.to_string(),
            })?;
            let body = body.to_bytes();
            Ok(Answered {
                status,
                body,
                is_text,
            })
        };
        tokio::pin!(exchange);
        let mut connection = std::pin::pin!(connection);
        // The connection works only while it is asked to, and is closed with the answer.
        tokio::select! {
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    }
}

struct Answered {
    status: StatusCode,
    body: Bytes,
    is_text: bool,
}

impl Answered {
    /// The body of a success.
    // Kubernetes: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go NewGenericServerResponse, 1.36.
    fn body(self) -> Result<Bytes, String> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let code = self.status.as_u16();
        let said = match self.is_text {
            true => String::from_utf8_lossy(&self.body),
            false => "unknown".into(),
        };
        let said: String = said.trim().chars().take(2048).collect();
        let why = match code {
            400 => "the server rejected our request for an unknown reason".to_owned(),
            401 => "the server has asked for the client to provide credentials".to_owned(),
            403 => format!("forbidden: {said}"),
            404 => "the server could not find the requested resource".to_owned(),
            405 => "the server does not allow this method on the requested resource".to_owned(),
            409 => "the server reported a conflict".to_owned(),
            422 => {
                "the server rejected our request due to an error in our request".to_owned()
            }
            429 => {
                "the server has received too many requests and has asked us to try again later"
                    .to_owned()
            }
            503 => "the server is currently unable to handle the request".to_owned(),
            504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
            500.. => {
                format!("an error on the server ({said:?}) has prevented the request from succeeding")
            }
            _ => format!(
                "the server responded with the status code {code} but did not return more information"
            ),
        };
        Err(format!("failed to call webhook: {why}"))
    }
}

fn of_url(url: &str) -> (Result<Target, String>, String, String) {
    let parsed: Option<Uri> = url.parse().ok();
    let found = parsed.as_ref().and_then(|uri| {
        let https = uri.scheme_str() == Some("https");
        Some((uri, uri.host().filter(|_| https)?, uri.authority()?))
    });
    let Some((uri, host, authority)) = found else {
        let fault = format!("{url:?} is no URL of a webhook");
        return (Err(fault), String::new(), String::new());
    };
    let target = Target::Url {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: uri.port_u16().unwrap_or(443),
    };
    (Ok(target), authority.to_string(), uri.path().to_owned())
}

/// Connects to the first place that may be asked and takes a connection. A name is looked up once, and used as it was checked.
async fn connect(places: Vec<Place>, reach: &Reach, own: bool) -> Result<TcpStream, String> {
    let mut fault = "no address".to_owned();
    for place in places {
        let (shown, addresses) = match place {
            Place::Address(address) => (address.to_string(), vec![address]),
            Place::Name(host, port) => {
                let shown = format!("{host}:{port}");
                match host.parse::<IpAddr>() {
                    Ok(ip) => (shown, vec![SocketAddr::new(ip, port)]),
                    Err(_) => {
                        let found = tokio::net::lookup_host((host.as_str(), port)).await;
                        let found =
                            found.map_err(|_| format!("dial tcp: lookup {host}: no such host"))?;
                        (shown, found.take(ADDRESSES).collect())
                    }
                }
            }
        };
        for address in addresses {
            if !own && !reach.guard.allows(address.ip()) {
                fault = format!(
                    "dial tcp {shown}: webhooks are not called at {}",
                    address.ip()
                );
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => {
                    let why = match error.kind() {
                        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                        _ => error.to_string(),
                    };
                    fault = format!("dial tcp {address}: connect: {why}");
                }
            }
        }
    }
    Err(fault)
}

fn tls_fault(error: &std::io::Error) -> String {
    use rustls::CertificateError as Bad;
    let cause = error.get_ref();
    let known = cause.and_then(|e| e.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(bad)) = known else {
        return error.to_string();
    };
    let why = match bad {
        Bad::UnknownIssuer | Bad::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        Bad::Expired | Bad::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

/// A bundle as a configuration has it.
fn of_bundle(text: &str) -> Result<Arc<TlsConfig>, String> {
    let bad = |why: &str| format!("unable to load root certificates: {why}");
    let pem = STANDARD
        .decode(text.as_bytes())
        .map_err(|_| bad("the bundle is not encoded in base64"))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates
        .ok()
        .filter(|all| !all.is_empty())
        .ok_or_else(|| bad("unable to parse bytes as PEM block"))?;
    trusting(certificates)
}

fn trusting(bundle: Vec<CertificateDer<'static>>) -> Result<Arc<TlsConfig>, String> {
    let judge = Judge::new(bundle, PROVIDER.clone())
        .map_err(|e| format!("unable to load root certificates: {e}"))?;
    let config = TlsConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(judge))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn of_system() -> Result<Arc<TlsConfig>, String> {
    static SYSTEM: OnceLock<Arc<TlsConfig>> = OnceLock::new();
    if let Some(known) = SYSTEM.get() {
        return Ok(known.clone());
    }
    let mut store = RootCertStore::empty();
    // What of the system's cannot be read, others make up for; without any, every server is refused with a reason.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = TlsConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(SYSTEM.get_or_init(|| Arc::new(config)).clone())
}
