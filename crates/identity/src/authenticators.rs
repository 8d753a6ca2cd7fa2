//! All ways to prove who one is, in their order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use model::node::{Identity, Node};

use crate::caller::Caller;
use crate::evidence::Evidence;
use crate::jwt::Jwt;
use crate::refusal::{Reason, Refusal};

/// The longest that proving may take, whoever has to be asked.
const PATIENCE: Duration = Duration::from_secs(15);

/// A way to prove who one is.
pub trait Authenticator: Send + Sync {
    /// Istio's name for it.
    fn name(&self) -> &'static str;

    /// Whom the evidence proves; `None` where it holds nothing of this kind.
    fn authenticate<'a>(
        &'a self,
        evidence: &'a Evidence<'a>,
    ) -> BoxFuture<'a, Result<Option<Caller>, Refusal>>;
}

/// Is told of every attempt.
pub trait Observer: Send + Sync {
    /// Somebody has proven who it is, by this authenticator.
    fn proven(&self, authenticator: &'static str);

    /// Somebody is turned away.
    fn refused(&self, refusal: &Refusal, claimant: &Claimant);
}

/// Who was turned away, as far as that is known. What it says of itself is not proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimant {
    /// Where it comes from.
    pub peer: SocketAddr,
    /// What it claims to be: the subject of its token, or the id of its node. Printable, and short; empty where it claims nothing.
    pub claims: String,
}

/// The most characters of a claim.
const LONGEST_CLAIM: usize = 200;

impl Claimant {
    fn of(evidence: &Evidence<'_>) -> Self {
        let token = evidence.bearer().ok().flatten().and_then(Jwt::parse);
        let subject = token.and_then(|token| token.claims["sub"].as_str().map(printable));
        Self {
            peer: evidence.peer,
            claims: subject.unwrap_or_default(),
        }
    }

    fn proxy(node: &Node, peer: SocketAddr) -> Self {
        Self {
            peer,
            claims: printable(&node.id),
        }
    }
}

/// The beginning of a text of somebody, without what could disturb a log.
fn printable(text: &str) -> String {
    let shown = text.chars().take(LONGEST_CLAIM);
    shown
        .map(|c| if c.is_ascii_graphic() { c } else { '?' })
        .collect()
}

/// Every way that is open, in istiod's order: client certificate, `JWT_RULE`, Kubernetes, XFCC.
///
/// Istio: pilot/pkg/bootstrap/server.go, 1.32.
pub struct Authenticators {
    list: Vec<Box<dyn Authenticator>>,
    observer: Arc<dyn Observer>,
}

impl Authenticators {
    /// Asks these, in this order.
    pub fn new(list: Vec<Box<dyn Authenticator>>, observer: Arc<dyn Observer>) -> Self {
        Self { list, observer }
    }

    /// Whom the evidence proves: the first that an authenticator finds.
    ///
    /// # Errors
    ///
    /// When none finds anybody.
    pub async fn authenticate(&self, evidence: &Evidence<'_>) -> Result<Arc<Caller>, Refusal> {
        let asked = tokio::time::timeout(PATIENCE, self.ask(evidence)).await;
        let asked = asked.unwrap_or_else(|_| {
            let detail = format!("not decided within {PATIENCE:?}");
            Err(Refusal::new(Reason::Unavailable, detail))
        });
        asked.inspect_err(|refusal| self.observer.refused(refusal, &Claimant::of(evidence)))
    }

    /// The identity of a caller, which comes from `peer`, as the proxy that it says it is.
    ///
    /// # Errors
    ///
    /// When it is of another namespace or service account.
    pub fn authorize(
        &self,
        caller: &Caller,
        node: &Node,
        peer: SocketAddr,
    ) -> Result<Identity, Refusal> {
        let authorized = caller.as_proxy(node);
        authorized.inspect_err(|refusal| {
            let claimant = Claimant::proxy(node, peer);
            self.observer.refused(refusal, &claimant);
        })
    }

    async fn ask(&self, evidence: &Evidence<'_>) -> Result<Arc<Caller>, Refusal> {
        let mut refusals = Vec::new();
        for authenticator in &self.list {
            let name = authenticator.name();
            match authenticator.authenticate(evidence).await {
                Ok(Some(caller)) => {
                    self.observer.proven(name);
                    return Ok(Arc::new(caller));
                }
                Ok(None) => {}
                Err(refusal) => refusals.push((name, refusal)),
            }
        }
        Err(all_of(&refusals))
    }
}

/// One refusal of many: that of whoever could not be asked, since it might have let the caller in; else of the first that had
/// something to judge.
fn all_of(refusals: &[(&'static str, Refusal)]) -> Refusal {
    let is = |reason: Reason| move |(_, refusal): &&(&str, Refusal)| refusal.reason == reason;
    let undecided = refusals.iter().find(is(Reason::Unavailable));
    let judged = || refusals.iter().find(|r| !is(Reason::Issuer)(r));
    let Some((_, chosen)) = undecided.or_else(judged).or_else(|| refusals.first()) else {
        return Refusal::new(Reason::Missing, "no credentials");
    };
    let details = refusals.iter();
    let details = details.map(|(name, refusal)| format!("{name}: {}", refusal.detail));
    let details: Vec<String> = details.collect();
    Refusal::new(chosen.reason, details.join("; "))
}
