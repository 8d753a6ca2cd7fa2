//! SPIFFE ids in Istio's form: `spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT`.
//!
//! Ids of other forms are identities of somebody, too, but say neither namespace nor service account; here they are texts.
//!
//! Istio: pkg/spiffe/spiffe.go, 1.32.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::names::Namespace;

/// What every SPIFFE id begins with.
pub const PREFIX: &str = "spiffe://";

/// The identity of a service account.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpiffeId {
    /// Whose identities are to be told apart from those of others.
    pub trust_domain: Arc<str>,
    /// Namespace of the service account.
    pub namespace: Namespace,
    /// Name of the service account.
    pub service_account: Arc<str>,
}

/// A text that is no SPIFFE id of this form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("identity is not a spiffe format")]
pub struct NotSpiffe;

impl SpiffeId {
    /// The identity of a service account. A trust domain that is an e-mail address gets a dot for its `@`.
    pub fn new(
        trust_domain: &str,
        namespace: impl Into<Namespace>,
        service_account: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            trust_domain: trust_domain.replace('@', ".").into(),
            namespace: namespace.into(),
            service_account: service_account.into(),
        }
    }

    /// Whether it names a namespace and a service account: one that does not stands for nobody.
    pub fn is_whole(&self) -> bool {
        !self.namespace.is_empty() && !self.service_account.is_empty()
    }

    /// The same service account under another trust domain.
    pub fn in_domain(&self, trust_domain: &str) -> Self {
        Self {
            trust_domain: trust_domain.into(),
            ..self.clone()
        }
    }
}

impl FromStr for SpiffeId {
    type Err = NotSpiffe;

    fn from_str(text: &str) -> Result<Self, NotSpiffe> {
        let mut parts = text.strip_prefix(PREFIX).ok_or(NotSpiffe)?.split('/');
        let mut next = || parts.next().ok_or(NotSpiffe);
        let (domain, ns, namespace, sa, account) = (next()?, next()?, next()?, next()?, next()?);
        if (ns, sa) != ("ns", "sa") || parts.next().is_some() {
            return Err(NotSpiffe);
        }
        Ok(Self {
            trust_domain: domain.into(),
            namespace: namespace.into(),
            service_account: account.into(),
        })
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trust_domain,
            namespace,
            service_account,
        } = self;
        write!(
            f,
            "{PREFIX}{trust_domain}/ns/{namespace}/sa/{service_account}"
        )
    }
}

/// Identities with what they are under further trust domains. What is no SPIFFE id of this form is only itself.
pub fn with_domains<'a>(
    identities: impl IntoIterator<Item = &'a Arc<str>>,
    domains: &[String],
) -> BTreeSet<Arc<str>> {
    let mut all = BTreeSet::new();
    for identity in identities {
        if let Ok(id) = identity.parse::<SpiffeId>() {
            let others = domains
                .iter()
                .map(|domain| id.in_domain(domain).to_string());
            all.extend(others.map(Arc::from));
        }
        all.insert(identity.clone());
    }
    all
}
