//! Keys of token issuers (JWKS) that are fetched: where from, and what came.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::names::Namespace;

/// Where the keys of an issuer are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeySource {
    /// At this address.
    Uri(Arc<str>),
    /// Where the issuer's OpenID configuration says.
    Issuer(Arc<str>),
    /// At an endpoint that publishes a SPIFFE bundle: a JWKS with the roots of a trust domain.
    Bundle(Arc<str>),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(uri) => f.write_str(uri),
            Self::Issuer(issuer) => write!(f, "the OpenID configuration of {issuer}"),
            Self::Bundle(url) => write!(f, "the SPIFFE bundle at {url}"),
        }
    }
}

/// Who wants the keys of a source, and how long they would wait for an answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// The longest that a policy states. What fetches them has a limit of its own.
    pub limit: Duration,
    /// The namespaces whose policies name the source.
    pub namespaces: BTreeSet<Namespace>,
}

/// The outcome of fetching.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchedKeys {
    /// The last good answer, as it came.
    pub keys: Option<Arc<str>>,
    /// Why the last attempt failed, if it did.
    pub trouble: Option<Arc<str>>,
}

/// Why a text is no JWKS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadKeys {
    /// Not JSON.
    #[error("is not JSON")]
    NotJson,
    /// JSON of another form.
    #[error("has no key list")]
    NoKeys,
}

/// Whether a text has the form of a JWKS, so that a proxy can use it and an answer of anything else is not passed on.
/// The keys themselves are for the proxy to judge.
///
/// # Errors
///
/// When it has not. Who wrote it can act.
pub fn check(text: &str) -> Result<(), BadKeys> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|_| BadKeys::NotJson)?;
    let keys = value.get("keys").and_then(serde_json::Value::as_array);
    match keys {
        Some(keys) if keys.iter().all(serde_json::Value::is_object) => Ok(()),
        _ => Err(BadKeys::NoKeys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_keys_is_one() {
        assert_eq!(check(r#"{"keys": [{"kty": "RSA"}]}"#), Ok(()));
        assert_eq!(check("<html>"), Err(BadKeys::NotJson));
        assert_eq!(check(r#"{"password": "x"}"#), Err(BadKeys::NoKeys));
        assert_eq!(check(r#"{"keys": ["x"]}"#), Err(BadKeys::NoKeys));
        assert_eq!(check("[]"), Err(BadKeys::NoKeys));
    }
}
