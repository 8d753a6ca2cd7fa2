//! The certificate signing call of workloads and their agents: `istio.v1.auth.IstioCertificateService`.
//!
//! Who calls is known before the request is read; the certificate is of the identities that it has proven, whatever the request
//! says. Only an account that the operator trusts may ask for those of pods on its own node.
//!
//! Istio: security/pkg/server/ca/server.go, 1.32.

mod impersonation;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ads::server::{Client, Frames, Mount, Reply, Requests, trailers_only, unary};
use ads::{Code, Status};
use ca::{Csr, Issued, SignError, SigningRequest};
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use identity::{Authenticators, Caller, Evidence};
use prost::Message;
use prost_reflect::prost_types::value::Kind;
use proto_istio::ca::{IstioCertificateRequest, IstioCertificateResponse};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::derive::Derive;
use crate::metrics::Metrics;
use crate::quiet::{Quiet, beginning, shown};
use crate::secure::Trust;
pub use impersonation::{Account, account};

/// The full name of the service.
pub const SERVICE: &str = "istio.v1.auth.IstioCertificateService";
/// Its one method.
const METHOD: &str = "CreateCertificate";
/// The largest request: a CSR has 16 KiB at most, and metadata are a few words.
const LARGEST: usize = 64 << 10;
/// How long a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);
/// Whose identity a trusted account asks for.
const IMPERSONATED: &str = "ImpersonatedIdentity";
/// Which signer of the cluster is to sign.
const SIGNER: &str = "CertSigner";

/// Lines that clients can cause.
static REFUSED: Quiet = Quiet::new();

/// What signs for workloads.
pub struct Issuing {
    shared: Arc<Shared>,
    /// Streams have threads of their own, which signing is not to hold up.
    runtime: Handle,
}

struct Shared {
    trust: Trust,
    /// Accounts that may ask for identities of pods on their node.
    trusted: BTreeSet<Account>,
    derive: Derive,
    metrics: Arc<Metrics>,
    /// Requests that are checked and signed at the same time.
    turns: Semaphore,
}

impl Issuing {
    /// Signs on the runtime of the caller.
    pub fn new(
        trust: Trust,
        trusted: BTreeSet<Account>,
        derive: Derive,
        metrics: Arc<Metrics>,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Shared {
            trust,
            trusted,
            derive,
            metrics,
            turns: Semaphore::new(processors),
        };
        Self {
            shared: Arc::new(shared),
            runtime: Handle::current(),
        }
    }
}

impl Mount for Issuing {
    fn call(
        &self,
        request: http::Request<Requests>,
        client: Client,
    ) -> BoxFuture<'static, http::Response<Reply>> {
        let shared = Arc::clone(&self.shared);
        let answering = self.runtime.spawn(async move {
            match shared.answer(request, &client).await {
                Ok(answer) => unary(&answer.encode_to_vec()),
                Err(status) => trailers_only(&status),
            }
        });
        // Nobody waits for it once the client has gone.
        let answering = AbortOnDropHandle::new(answering);
        Box::pin(async move {
            let broken = |_| trailers_only(&Status::new(Code::Internal, "internal error"));
            answering.await.unwrap_or_else(broken)
        })
    }
}

impl Shared {
    async fn answer(
        &self,
        request: http::Request<Requests>,
        client: &Client,
    ) -> Result<IstioCertificateResponse, Status> {
        let (head, body) = request.into_parts();
        let method = head.uri.path().rsplit('/').next();
        if method != Some(METHOD) {
            let message = format!("unknown method {}", head.uri.path());
            return Err(Status::new(Code::Unimplemented, message));
        }
        let metrics = &self.metrics.authority;
        metrics.requests.inc();
        let trust = &self.trust;
        let starting = || Status::new(Code::Unavailable, "the server is starting");
        let authenticators = trust.authenticators().ok_or_else(starting)?;
        let caller = self
            .authenticate(authenticators, client, &head.headers)
            .await?;
        let none = || Status::new(Code::Unimplemented, "there is no CA");
        let signer = trust.signer().ok_or_else(none)?;
        let request = tokio::time::timeout(PATIENCE, whole(body, LARGEST)).await;
        let late = |_| Status::new(Code::DeadlineExceeded, "the request took too long to come");
        let asked = Asked::read(&request.map_err(late)??)?;
        let turn = self.turns.acquire().await;
        let sans = self.names(&caller, asked.impersonated.as_deref()).await;
        let sans = sans.map_err(|detail| {
            metrics.unauthenticated.inc();
            self.refused(client, &detail);
            let message = "request impersonation authentication failure";
            Status::new(Code::Unauthenticated, message)
        })?;
        let signed = match asked.signing(sans) {
            Ok(request) => signer.sign(request).await,
            Err(error) => Err(error),
        };
        drop(turn);
        let issued = signed.map_err(|error| {
            if matches!(error, SignError::Csr(_)) {
                metrics.unreadable.inc();
            }
            metrics.unsigned.with_label_values(&[error.label()]).inc();
            self.refused(client, &error.to_string());
            let code = match error.is_of_request() {
                true => Code::InvalidArgument,
                false => Code::Internal,
            };
            Status::new(code, format!("CSR signing error ({error})"))
        })?;
        metrics.signed.inc();
        Ok(answer(issued))
    }

    async fn authenticate(
        &self,
        authenticators: &Authenticators,
        client: &Client,
        headers: &http::HeaderMap,
    ) -> Result<Arc<Caller>, Status> {
        let failure = |code| Status::new(code, "request authenticate failure");
        let Some(certificates) = client.certificates.as_deref() else {
            self.metrics.authority.unauthenticated.inc();
            self.refused(client, "the connection is not encrypted");
            return Err(failure(Code::Unauthenticated));
        };
        let evidence = Evidence {
            peer: client.peer,
            certificates,
            headers,
        };
        let proven = authenticators.authenticate(&evidence).await;
        proven.map_err(|refusal| {
            self.metrics.authority.unauthenticated.inc();
            self.refused(client, &refusal.detail);
            failure(match refusal.code {
                identity::Code::Unavailable => Code::Unavailable,
                identity::Code::Unauthenticated | identity::Code::PermissionDenied => {
                    Code::Unauthenticated
                }
            })
        })
    }

    /// The identities that a certificate is to be of.
    async fn names(
        &self,
        caller: &Caller,
        impersonated: Option<&str>,
    ) -> Result<Vec<Arc<str>>, String> {
        let Some(text) = impersonated else {
            let ids = caller.ids.iter().map(|id| id.to_string().into());
            return Ok(ids.collect());
        };
        let pod = impersonation::trusted_pod(caller, &self.trusted)?.clone();
        let id = impersonation::wanted(text, caller)?;
        let runs = move |state: &crate::derive::State| {
            impersonation::check(&state.store().snapshot(), &pod, &id)
        };
        let checked = self.derive.ask(runs).await;
        checked.map_err(|_| "the server is shutting down".to_owned())??;
        Ok(vec![text.into()])
    }

    fn refused(&self, client: &Client, reason: &str) {
        let Some(left_out) = REFUSED.take(Instant::now()) else {
            self.metrics.quieted.inc();
            return;
        };
        let (peer, reason) = (client.peer, beginning(reason));
        tracing::warn!(%peer, reason, left_out = shown(left_out), "A request for a certificate was refused.");
    }
}

/// The one message of a request, of at most so many bytes.
pub(crate) async fn whole(mut body: Requests, largest: usize) -> Result<bytes::Bytes, Status> {
    let mut frames = Frames::new(largest);
    let missing = || Status::new(Code::InvalidArgument, "there is no whole request");
    loop {
        if let Some(message) = frames.pop()? {
            return Ok(message);
        }
        let Some(Ok(part)) = body.frame().await else {
            return Err(missing());
        };
        if let Ok(data) = part.into_data() {
            frames.push(data);
        }
    }
}

/// A request as far as it counts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Asked {
    csr: String,
    ttl: Option<Duration>,
    impersonated: Option<String>,
    signer: Option<Arc<str>>,
}

impl Asked {
    fn read(message: &[u8]) -> Result<Self, Status> {
        let request = IstioCertificateRequest::decode(message)
            .map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
        let fields = request.metadata.unwrap_or_default().0.fields;
        let text = |name: &str| match &fields.get(name)?.kind {
            Some(Kind::StringValue(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let seconds = u64::try_from(request.validity_duration).unwrap_or_default();
        Ok(Self {
            impersonated: text(IMPERSONATED),
            signer: text(SIGNER).map(Arc::from),
            ttl: Some(Duration::from_secs(seconds)).filter(|ttl| !ttl.is_zero()),
            csr: request.csr,
        })
    }

    fn signing(&self, sans: Vec<Arc<str>>) -> Result<SigningRequest, SignError> {
        let csr = Csr::parse(self.csr.as_bytes());
        Ok(SigningRequest {
            csr: csr.map_err(|error| SignError::Csr(error.to_string()))?,
            sans,
            ttl: self.ttl,
            signer: self.signer.clone(),
        })
    }
}

/// The certificates in their order, the roots last, as one text.
fn answer(issued: Issued) -> IstioCertificateResponse {
    let mut cert_chain = issued.chain;
    if !issued.roots.is_empty() {
        cert_chain.push(issued.roots.to_string());
    }
    IstioCertificateResponse { cert_chain }
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost_types::{Struct, Value};

    use super::*;

    #[test]
    fn what_counts_is_read_of_a_request() {
        let text = |text: &str| Value {
            kind: Some(Kind::StringValue(text.to_owned())),
        };
        let metadata = [(IMPERSONATED, "spiffe://a/ns/b/sa/c"), (SIGNER, "")];
        let fields = metadata.map(|(name, value)| (name.to_owned(), text(value)));
        let mut request = IstioCertificateRequest {
            csr: "x".into(),
            validity_duration: 90,
            metadata: Some(proto_istio::wkt::Struct(Struct {
                fields: fields.into(),
            })),
        };
        let asked = Asked::read(&request.encode_to_vec()).unwrap();
        let expected = Asked {
            csr: "x".into(),
            ttl: Some(Duration::from_secs(90)),
            impersonated: Some("spiffe://a/ns/b/sa/c".into()),
            signer: None,
        };
        assert_eq!(asked, expected);
        assert!(matches!(asked.signing(vec![]), Err(SignError::Csr(_))));
        for none in [0, -1, i64::MIN] {
            request.validity_duration = none;
            assert_eq!(Asked::read(&request.encode_to_vec()).unwrap().ttl, None);
        }
        assert_eq!(
            Asked::read(&[0xff]).unwrap_err().code,
            Code::InvalidArgument
        );
    }
}
