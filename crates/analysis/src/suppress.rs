//! Which findings are not wanted.

use std::str::FromStr;

use model::{AnyObject, Namespace, ObjectKey};

use crate::code;
use crate::finding::Finding;

/// The annotation that lists codes which are not wanted about an object; `*` is all of them.
pub const ANNOTATION: &str = "galley.istio.io/analyze-suppress";

/// A code that is not wanted about some objects, as `IST0103=Pod *.testing`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suppression {
    code: String,
    resource: String,
}

/// A suppression that cannot be understood. The operator who wrote it can fix it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidSuppression;

impl std::fmt::Display for InvalidSuppression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("expected CODE=KIND NAME.NAMESPACE, as in IST0103=Pod *.testing")
    }
}

impl std::error::Error for InvalidSuppression {}

impl FromStr for Suppression {
    type Err = InvalidSuppression;

    fn from_str(text: &str) -> Result<Self, InvalidSuppression> {
        match text.split_once('=') {
            Some((code, resource)) if !code.is_empty() && !resource.contains('=') => Ok(Self {
                code: code.to_owned(),
                resource: resource.to_owned(),
            }),
            _ => Err(InvalidSuppression),
        }
    }
}

impl Suppression {
    /// The code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Whether the code is one that analysis can give.
    pub fn is_known(&self) -> bool {
        code::find(&self.code).is_some() || self.code == model::parse::code::INVALID
    }

    fn covers(&self, finding: &Finding) -> bool {
        let Some(key) = &finding.diagnostic.object else {
            return false;
        };
        finding.diagnostic.code == self.code
            && names(key).iter().any(|name| glob(&self.resource, name))
    }
}

/// How an object may be called: `Kind name`, `Kind name.namespace`, `Kind namespace/name`.
fn names(key: &ObjectKey) -> Vec<String> {
    let (kind, name) = (key.kind.name(), &key.name);
    if name.namespace.is_empty() {
        vec![format!("{kind} {}", name.name)]
    } else {
        vec![
            format!("{kind} {}.{}", name.name, name.namespace),
            format!("{kind} {}/{}", name.namespace, name.name),
        ]
    }
}

/// Whether a pattern with `*` matches a text. Linear in their product.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// What is wanted of all findings.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Findings about objects of this namespace and of none only.
    pub namespace: Option<Namespace>,
    /// What is not wanted.
    pub suppressions: Vec<Suppression>,
    /// Only of these analyzers; of all that are not on request where empty.
    pub analyzers: Vec<String>,
}

impl Wanted {
    /// Whether a finding is wanted. `object` is what it is about, where it is at hand.
    pub fn wants(&self, finding: &Finding, object: Option<&AnyObject>) -> bool {
        let chosen = match self.analyzers.as_slice() {
            [] => !crate::registry::ON_REQUEST.contains(&finding.analyzer),
            stated => stated.iter().any(|a| a == finding.analyzer),
        };
        let key = finding.diagnostic.object.as_ref();
        let home = key.map(|k| &k.name.namespace).filter(|n| !n.is_empty());
        let here = match (&self.namespace, home) {
            (Some(wanted), Some(home)) => wanted == home,
            _ => true,
        };
        let annotation = object.and_then(|o| o.meta().annotations.get(ANNOTATION));
        let silenced = annotation.is_some_and(|codes| {
            let mut codes = codes.split(',').map(str::trim);
            codes.any(|c| c == "*" || c == finding.diagnostic.code)
        });
        chosen && here && !silenced && !self.suppressions.iter().any(|s| s.covers(finding))
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs_match_from_end_to_end() {
        for (pattern, text) in [
            ("a", "a"),
            ("*", ""),
            ("a*c", "abbc"),
            ("*b*", "abc"),
            ("a*b*c", "axbybc"),
        ] {
            assert!(glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*", "ba"), ("*c", "cb"), ("a*bc*c", "abc")] {
            assert!(!glob(pattern, text), "{pattern} {text}");
        }
    }
}
