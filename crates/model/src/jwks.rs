//! Keys of token issuers (JWKS): where they are fetched from, what came, and whether proxies can use it.

mod strict;
mod usable;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::names::Namespace;
use crate::outside::Outside;

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
    /// The last good answer, as it came but for what could be mistaken for a mark of ours.
    pub keys: Option<Outside<Arc<str>>>,
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
    /// A list without a key that proxies can use.
    #[error("has no key that proxies can use")]
    NoneUsable,
}

/// Whether a proxy can use a text as a JWKS: it is one, and at least one of its keys is of use. Envoy refuses the whole
/// listener otherwise; keys that it cannot use beside others do no harm.
///
/// # Errors
///
/// Why a proxy cannot. Who wrote it can act.
pub fn check(text: &str) -> Result<(), BadKeys> {
    strict::check(text).map_err(|_| BadKeys::NotJson)?;
    let value: serde_json::Value = serde_json::from_str(text).map_err(|_| BadKeys::NotJson)?;
    let keys = value.get("keys").and_then(serde_json::Value::as_array);
    match keys {
        None => Err(BadKeys::NoKeys),
        Some(keys) if keys.iter().any(usable::is_usable) => Ok(()),
        Some(_) => Err(BadKeys::NoneUsable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_judged_as_by_envoys() {
        // What Envoy 1.36.4 and 1.40.0 say of each text; both say the same.
        let table = include_str!("jwks/verdicts.txt").lines();
        let rows: Vec<&str> = table.filter(|line| !line.starts_with('#')).collect();
        assert!(rows.len() > 80);
        let mut faults = Vec::new();
        for row in rows {
            let (verdict, text) = row.split_once(' ').unwrap();
            let text: String = serde_json::from_str(text).unwrap();
            let found = check(&text);
            if found.is_ok() != (verdict == "yes") {
                faults.push(format!("{verdict} {found:?} {text}"));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn what_is_wrong_with_keys_is_said() {
        assert_eq!(check("<html>"), Err(BadKeys::NotJson));
        assert_eq!(check(r#"{"password": "x"}"#), Err(BadKeys::NoKeys));
        assert_eq!(check("[]"), Err(BadKeys::NoKeys));
        assert_eq!(check(r#"{"keys": ["x"]}"#), Err(BadKeys::NoneUsable));
    }
}
