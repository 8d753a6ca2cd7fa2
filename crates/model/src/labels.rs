//! Label and annotation maps, and selection by them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A sorted map of labels or annotations; clones share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Labels(Arc<BTreeMap<Arc<str>, Arc<str>>>);

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

    /// As [`Labels::matches`], for the plain map of a message.
    pub fn matches_map(&self, selector: &BTreeMap<String, String>) -> bool {
        selector.iter().all(|(k, v)| self.get(k) == Some(v))
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(Arc::new(
            pairs
                .into_iter()
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
        ))
    }
}

impl From<&BTreeMap<String, String>> for Labels {
    fn from(map: &BTreeMap<String, String>) -> Self {
        map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect()
    }
}

impl<'de> serde::Deserialize<'de> for Labels {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Arc::new(serde::Deserialize::deserialize(
            deserializer,
        )?)))
    }
}
