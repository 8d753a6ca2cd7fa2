//! How many fetches are under way at once: in all, at one host, and for one namespace, so that who names a server that
//! does not answer holds up nobody else.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use http::Uri;
use model::jwks::KeySource;
use model::names::Namespace;
use tokio::task::Id;

/// Fetches under way at once.
const AT_ONCE: usize = 64;
/// Of these, at one host.
const AT_HOST: usize = 8;
/// Of these, for one namespace.
const FOR_NAMESPACE: usize = 8;

/// What a fetch is counted with.
#[derive(Clone, Debug)]
pub(super) struct FetchSlot {
    host: Arc<str>,
    namespace: Option<Namespace>,
}

/// What is under way.
#[derive(Default)]
pub(super) struct Room {
    taken: HashMap<Id, FetchSlot>,
    hosts: HashMap<Arc<str>, usize>,
    namespaces: HashMap<Namespace, usize>,
}

impl Room {
    /// Whether any further fetch may begin.
    pub(super) fn has_any(&self) -> bool {
        self.taken.len() < AT_ONCE
    }

    /// The place of a further fetch, if it may begin: one that several namespaces want is counted with the one that has
    /// the fewest under way.
    pub(super) fn find(&self, host: &Arc<str>, wanted: &BTreeSet<Namespace>) -> Option<FetchSlot> {
        if !self.has_any() || count(&self.hosts, host) >= AT_HOST {
            return None;
        }
        let namespace = wanted.iter().min_by_key(|n| count(&self.namespaces, *n));
        if namespace.is_some_and(|n| count(&self.namespaces, n) >= FOR_NAMESPACE) {
            return None;
        }
        Some(FetchSlot {
            host: host.clone(),
            namespace: namespace.cloned(),
        })
    }

    /// A fetch has begun.
    pub(super) fn take(&mut self, task: Id, place: FetchSlot) {
        *self.hosts.entry(place.host.clone()).or_default() += 1;
        if let Some(namespace) = &place.namespace {
            *self.namespaces.entry(namespace.clone()).or_default() += 1;
        }
        self.taken.insert(task, place);
    }

    /// A fetch has ended.
    pub(super) fn leave(&mut self, task: Id) {
        let Some(place) = self.taken.remove(&task) else {
            return;
        };
        decrease(&mut self.hosts, &place.host);
        if let Some(namespace) = &place.namespace {
            decrease(&mut self.namespaces, namespace);
        }
    }
}

fn count<K: Eq + Hash>(counts: &HashMap<K, usize>, key: &K) -> usize {
    counts.get(key).copied().unwrap_or_default()
}

fn decrease<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The host that is asked first for the keys of a source; the whole text where it has none.
pub(super) fn host(source: &KeySource) -> Arc<str> {
    let (KeySource::Uri(text) | KeySource::Issuer(text) | KeySource::Bundle(text)) = source;
    let uri = text.parse::<Uri>().ok();
    match uri.as_ref().and_then(Uri::host) {
        Some(host) => host.to_ascii_lowercase().into(),
        None => text.clone(),
    }
}
