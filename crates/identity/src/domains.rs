//! Whose identities count.

use std::sync::Arc;

use model::names::Namespace;
use tokio::sync::watch;

use crate::SpiffeId;

/// The trust domains of a mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustDomains {
    /// The one that identities are made in.
    pub own: Arc<str>,
    /// Others whose identities are those of the same name in our own.
    pub aliases: Vec<String>,
}

/// The trust domains as mesh config states them now.
#[derive(Clone, Debug)]
pub struct Domains(watch::Receiver<Arc<TrustDomains>>);

impl Domains {
    /// Domains that change.
    pub fn new(current: watch::Receiver<Arc<TrustDomains>>) -> Self {
        Self(current)
    }

    /// Domains that stay as they are.
    pub fn constant(domains: TrustDomains) -> Self {
        // What was sent stays when the sender goes.
        let (_, current) = watch::channel(Arc::new(domains));
        Self(current)
    }

    /// The identity of a service account in our own trust domain.
    pub(crate) fn identity(
        &self,
        namespace: impl Into<Namespace>,
        service_account: &str,
    ) -> SpiffeId {
        SpiffeId::new(&self.0.borrow().own, namespace, service_account)
    }

    /// Whether an identity is of our own trust domain or of an alias.
    pub(crate) fn has(&self, id: &SpiffeId) -> bool {
        let domains = self.0.borrow();
        let own = SpiffeId::new(&domains.own, id.namespace.clone(), "");
        id.trust_domain == own.trust_domain
            || domains.aliases.iter().any(|a| **a == *id.trust_domain)
    }
}
