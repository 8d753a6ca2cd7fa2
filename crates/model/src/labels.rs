//! Label and annotation maps, and selection by them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

type Pairs = BTreeMap<Arc<str>, Arc<str>>;

/// What all share that have none, as most objects have no annotations, or no selector.
static NONE: LazyLock<Arc<Pairs>> = LazyLock::new(Arc::default);

/// A sorted map of labels or annotations; clones share it, and all empty ones are one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
pub struct Labels(Arc<Pairs>);

impl Default for Labels {
    fn default() -> Self {
        Self(NONE.clone())
    }
}

impl From<Pairs> for Labels {
    fn from(pairs: Pairs) -> Self {
        match pairs.is_empty() {
            true => Self::default(),
            false => Self(Arc::new(pairs)),
        }
    }
}

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|v| &**v)
    }

    /// Whether the label is there.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// All pairs, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every pair of `selector` is among these. An empty selector matches everything: callers for whom an
    /// empty selector means nothing (a Service without selector) must ask first.
    pub fn matches(&self, selector: &Labels) -> bool {
        selector.0.iter().all(|(k, v)| self.0.get(k) == Some(v))
    }

    /// Shares the memory of the one of `known` that is equal, and is known from now on.
    pub fn share_among(&mut self, known: &mut BTreeSet<Labels>) {
        match known.get(self) {
            Some(equal) => *self = equal.clone(),
            None => _ = known.insert(self.clone()),
        }
    }

    /// As [`Labels::matches`], for the plain map of a message.
    pub fn matches_map(&self, selector: &BTreeMap<String, String>) -> bool {
        selector.iter().all(|(k, v)| self.get(k) == Some(v))
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(k, v)| (k.into(), v.into()));
        Self::from(pairs.collect::<Pairs>())
    }
}

impl From<&BTreeMap<String, String>> for Labels {
    fn from(map: &BTreeMap<String, String>) -> Self {
        map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect()
    }
}

/// Labels that name the service a workload belongs to for telemetry, the first one counts.
const SERVICE_NAMES: [&str; 3] = [
    "service.istio.io/canonical-name",
    "app.kubernetes.io/name",
    "app",
];

/// Labels that name its revision, the first one counts.
const SERVICE_REVISIONS: [&str; 3] = [
    "service.istio.io/canonical-revision",
    "app.kubernetes.io/version",
    "version",
];

// Istio: pkg/kube/labels/labels.go, 1.32.
impl Labels {
    /// The service that a workload with these labels belongs to for telemetry, where they say so. Callers fall back to
    /// the name of the workload.
    pub fn canonical_service(&self) -> Option<&str> {
        SERVICE_NAMES.iter().find_map(|name| self.get(name))
    }

    /// The revision of that service, where they say so. Callers fall back to `latest`.
    pub fn canonical_revision(&self) -> Option<&str> {
        SERVICE_REVISIONS.iter().find_map(|name| self.get(name))
    }

    /// The application, for which `app` counts before the labels of telemetry.
    pub fn app(&self) -> Option<&str> {
        SERVICE_NAMES.iter().rev().find_map(|name| self.get(name))
    }
}

/// Why a pair cannot be a label, if it cannot.
///
/// Istio: pkg/config/labels/instance.go Validate, 1.32.
pub fn fault(key: &str, value: &str) -> Option<&'static str> {
    let (prefix, name) = match key.rsplit_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let bad_prefix = prefix.is_some_and(|p| !p.split('.').all(is_dns_label));
    if bad_prefix || !is_qualified(name) {
        Some("is no key of a label")
    } else if prefix.is_some_and(|p| p.len() > 253) {
        Some("has a prefix of more than 253 characters")
    } else if name.len() > 63 {
        Some("has a name of more than 63 characters")
    } else if !value.is_empty() && !is_qualified(value) {
        Some("has a value that no label can have")
    } else {
        None
    }
}

fn is_dns_label(text: &str) -> bool {
    between_alphanumerics(text, |b| b == b'-')
}

fn is_qualified(text: &str) -> bool {
    between_alphanumerics(text, |b| matches!(b, b'-' | b'_' | b'.'))
}

/// Letters and digits, with others allowed between them.
fn between_alphanumerics(text: &str, others: impl Fn(u8) -> bool) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || others(*b))
}

impl<'de> serde::Deserialize<'de> for Labels {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <Pairs as serde::Deserialize>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::{Labels, fault};

    #[test]
    fn equal_labels_are_made_one() {
        let labels = |app| Labels::from_iter([("app", app)]);
        let mut known = BTreeSet::new();
        let mut all = [labels("a"), labels("b"), labels("a")];
        for one in &mut all {
            one.share_among(&mut known);
        }
        assert!(Arc::ptr_eq(&all[0].0, &all[2].0));
        assert_eq!(all, [labels("a"), labels("b"), labels("a")]);
    }

    #[test]
    fn all_empty_ones_are_one() {
        let read: Labels = serde_json::from_str("{}").unwrap();
        let gathered = Labels::from_iter([("", ""); 0]);
        for none in [read, gathered] {
            assert!(Arc::ptr_eq(&none.0, &Labels::default().0));
        }
    }

    #[test]
    fn keys_and_values_of_labels_have_a_form() {
        for (key, value) in [("app", ""), ("a.b/c_d.e", "V-1"), ("A", "x.y")] {
            assert_eq!(fault(key, value), None, "{key}={value}");
        }
        for (key, value) in [
            ("", "a"),
            ("-a", "a"),
            ("a/", "a"),
            ("a_b/c", "a"),
            ("a/b/c", "a"),
            ("a", "-"),
            ("a", "b c"),
        ] {
            assert!(fault(key, value).is_some(), "{key}={value}");
        }
        assert!(fault(&"a".repeat(64), "").is_some());
        assert!(fault(&format!("{}/a", "a.".repeat(126) + "aa"), "").is_some());
    }
}
