//! Tokens of Kubernetes service accounts: the API server of the cluster judges them (TokenReview).
//!
//! Istio: security/pkg/server/ca/authenticate/kubeauth/kube_jwt.go, 1.32.

mod bounded;
mod review;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;

use crate::authenticators::Authenticator;
use crate::caller::{Caller, PodClaims, Source};
use crate::domains::Domains;
use crate::evidence::Evidence;
use crate::jwt::{Jwt, TokenError, is_known};
use crate::refusal::{Reason, Refusal, quoted};

pub use bounded::{Bounded, ReviewLimits};
pub use review::{ReviewError, Reviewed, Reviewer, review_of};

/// The header in which an agent says which cluster its token is of.
const CLUSTER: &str = "clusterid";
/// How the names of service accounts begin where users are named.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Which clusters there are.
pub trait Clusters: Send + Sync {
    /// Who judges the tokens of a cluster; an empty name is the cluster of the control plane. `None` for one that is not known.
    fn reviewer(&self, cluster: &str) -> Option<Arc<dyn Reviewer>>;
}

/// Takes tokens of service accounts.
pub struct KubernetesTokens {
    clusters: Arc<dyn Clusters>,
    audiences: Arc<[String]>,
    domains: Domains,
}

impl KubernetesTokens {
    /// Takes tokens of these clusters for one of these audiences.
    pub fn new(clusters: Arc<dyn Clusters>, audiences: Arc<[String]>, domains: Domains) -> Self {
        Self {
            clusters,
            audiences,
            domains,
        }
    }

    async fn judge(&self, evidence: &Evidence<'_>) -> Result<Option<Caller>, Refusal> {
        let Some(token) = evidence.bearer()? else {
            return Ok(None);
        };
        let cluster = evidence.only(CLUSTER)?.unwrap_or_default();
        let reviewer = self.clusters.reviewer(cluster).ok_or_else(|| {
            let detail = format!("cluster {} is not known", quoted(cluster));
            Refusal::new(Reason::Cluster, detail)
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let until = self.plausible(token, now.map_or(0, |d| d.as_secs()))?;
        let asked = reviewer.review(token, &self.audiences, evidence.peer.ip());
        let reviewed = asked.await.map_err(|error| {
            let reason = match error {
                ReviewError::Rejected(_) => Reason::Rejected,
                ReviewError::Unavailable(_) => Reason::Unavailable,
            };
            Refusal::new(reason, format!("cluster {}: {error}", quoted(cluster)))
        })?;
        self.caller(&reviewed, until).map(Some)
    }

    /// Refuses what no API server would take, without asking one; of what may be taken it says when it ends.
    fn plausible(&self, token: &str, now: u64) -> Result<Option<SystemTime>, Refusal> {
        let token = Jwt::parse(token).ok_or(TokenError::Malformed)?;
        if !is_known(&token.algorithm) {
            return Err(TokenError::Algorithm(token.algorithm).into());
        }
        // Tokens of the first form have no end; whether they still count is the API server's to say. So it is with whom they
        // are for.
        if !token.claims["exp"].is_null() {
            token.check_time(now)?;
        }
        if !token.claims["aud"].is_null() && !token.is_for(&self.audiences) {
            return Err(TokenError::OtherAudience.into());
        }
        let subject = token.claims["sub"].as_str().unwrap_or_default();
        service_account(subject).map(|_| token.expires())
    }

    fn caller(&self, reviewed: &Reviewed, until: Option<SystemTime>) -> Result<Caller, Refusal> {
        // A server that knows nothing of audiences says so by naming none.
        let is_ours = |audience: &String| self.audiences.contains(audience);
        if !reviewed.audiences.iter().any(is_ours) {
            let detail = "the API server did not judge the audience of the token";
            return Err(Refusal::new(Reason::Audience, detail));
        }
        if !reviewed.is_service_account {
            let detail = format!("{} is no service account", quoted(&reviewed.user));
            return Err(Refusal::new(Reason::Subject, detail));
        }
        let (namespace, account) = service_account(&reviewed.user)?;
        Ok(Caller {
            source: Source::IdToken,
            ids: vec![self.domains.identity(namespace, account)],
            pod: Some(PodClaims {
                name: reviewed.pod.clone(),
                namespace: namespace.into(),
                uid: reviewed.pod_uid.clone(),
                service_account: account.into(),
                node: reviewed.node.clone(),
            }),
            until,
        })
    }
}

impl Authenticator for KubernetesTokens {
    fn name(&self) -> &'static str {
        "KubeJWTAuthenticator"
    }

    fn authenticate<'a>(
        &'a self,
        evidence: &'a Evidence<'a>,
    ) -> BoxFuture<'a, Result<Option<Caller>, Refusal>> {
        Box::pin(self.judge(evidence))
    }
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        let reason = match error {
            TokenError::Malformed | TokenError::Empty | TokenError::Claim(_) => Reason::Malformed,
            TokenError::OtherIssuer => Reason::Issuer,
            TokenError::OtherAudience => Reason::Audience,
            TokenError::Algorithm(ref algorithm) => {
                let detail = format!(
                    "the token is signed with {}, which is not accepted",
                    quoted(algorithm)
                );
                return Self::new(Reason::Algorithm, detail);
            }
            TokenError::Signature => Reason::Signature,
            TokenError::Expired => Reason::Expired,
            TokenError::Early => Reason::Early,
            TokenError::Unknown | TokenError::Unbound(_) => Reason::Rejected,
            TokenError::NoKeys(_) => Reason::Unavailable,
        };
        Self::new(reason, error.to_string())
    }
}

/// Namespace and name in `system:serviceaccount:NAMESPACE:NAME`. Both have only letters that names of Kubernetes have: they
/// become parts of a SPIFFE id, where a slash would begin another part.
pub(crate) fn service_account(subject: &str) -> Result<(&str, &str), Refusal> {
    let is_name = |text: &&str| {
        let allowed =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        !text.is_empty() && text.len() <= 253 && text.bytes().all(allowed)
    };
    let names = subject
        .strip_prefix(SERVICE_ACCOUNT)
        .and_then(|rest| rest.split_once(':'));
    let found = names.filter(|(namespace, name)| is_name(namespace) && is_name(name));
    found.ok_or_else(|| {
        let detail = format!("the token is of {}, no service account", quoted(subject));
        Refusal::new(Reason::Subject, detail)
    })
}
