//! Proxies that this process starts itself, and how they are known on the plaintext port.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use model::node::{Identity, Node};

/// Digits that nobody can know, others each time.
///
/// # Errors
///
/// When the system gives no random numbers.
pub(crate) fn random_digits() -> anyhow::Result<Arc<str>> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    let digits = random.iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.collect::<String>().into())
}

/// A secret of this process and of the proxies that it starts: who shows it is the proxy that it says it is.
#[derive(Clone)]
pub struct OwnProxies(Arc<str>);

impl OwnProxies {
    /// A new secret.
    ///
    /// # Errors
    ///
    /// When the system gives no random numbers.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self(random_digits()?))
    }

    /// The bearer token that proxies show.
    pub fn token(&self) -> &str {
        &self.0
    }

    /// Whether a request shows it. How long that takes does not depend on what is shown.
    pub(crate) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION);
        let Some(shown) = shown.and_then(|value| value.as_bytes().strip_prefix(b"Bearer ")) else {
            return false;
        };
        verify_slices_are_equal(shown, self.0.as_bytes()).is_ok()
    }
}

impl fmt::Debug for OwnProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnProxies({} characters)", self.0.len())
    }
}

/// A caller that has shown the secret.
pub(crate) struct Own;

impl Own {
    /// The identity of a proxy that is believed.
    pub(crate) fn identity(node: &Node) -> Option<Identity> {
        let account = node.metadata.get("SERVICE_ACCOUNT")?.as_str()?;
        Some(Identity {
            namespace: node.namespace.clone(),
            service_account: account.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_is_believed() {
        let own = OwnProxies::new().unwrap();
        let shown = |token: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            own.is_shown(&headers)
        };
        assert!(shown(own.token()));
        assert!(!shown(""));
        assert!(!shown(&own.token()[1..]));
        assert!(!shown(&format!("{}0", own.token())));
        assert!(!own.is_shown(&HeaderMap::new()));
        assert_ne!(own.token(), OwnProxies::new().unwrap().token());
        assert!(!format!("{own:?}").contains(own.token()));
    }
}
