//! How many fetches are under way at once: in all, at one host, and for one namespace, so that who names a server that
//! does not answer holds up nobody else.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use http::Uri;
use model::names::Namespace;
use tokio::task::Id;

/// How many fetches may be under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// In all.
    pub(crate) in_all: usize,
    /// Of these, at one host.
    pub(crate) at_host: usize,
    /// Of these, for one namespace.
    pub(crate) for_namespace: usize,
}

/// What a fetch is counted with.
#[derive(Clone, Debug)]
pub(crate) struct FetchSlot {
    host: Arc<str>,
    namespace: Option<Namespace>,
}

/// What is under way.
pub(crate) struct Room {
    limits: Limits,
    taken: HashMap<Id, FetchSlot>,
    hosts: HashMap<Arc<str>, usize>,
    namespaces: HashMap<Namespace, usize>,
}

impl Room {
    /// Room for that many.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            taken: HashMap::new(),
            hosts: HashMap::new(),
            namespaces: HashMap::new(),
        }
    }

    /// Whether any further fetch may begin.
    pub(crate) fn has_any(&self) -> bool {
        self.taken.len() < self.limits.in_all
    }

    /// The place of a further fetch, if it may begin: one that several namespaces want is counted with the one that has
    /// the fewest under way.
    pub(crate) fn find(&self, host: &Arc<str>, wanted: &BTreeSet<Namespace>) -> Option<FetchSlot> {
        if !self.has_any() || count(&self.hosts, host) >= self.limits.at_host {
            return None;
        }
        let namespace = wanted.iter().min_by_key(|n| count(&self.namespaces, *n));
        if namespace.is_some_and(|n| count(&self.namespaces, n) >= self.limits.for_namespace) {
            return None;
        }
        Some(FetchSlot {
            host: host.clone(),
            namespace: namespace.cloned(),
        })
    }

    /// A fetch has begun.
    pub(crate) fn take(&mut self, task: Id, place: FetchSlot) {
        *self.hosts.entry(place.host.clone()).or_default() += 1;
        if let Some(namespace) = &place.namespace {
            *self.namespaces.entry(namespace.clone()).or_default() += 1;
        }
        self.taken.insert(task, place);
    }

    /// A fetch has ended.
    pub(crate) fn leave(&mut self, task: Id) {
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

/// The host of a URL, in lower case; the whole text where it has none.
pub(crate) fn host_of(url: &str) -> Arc<str> {
    let uri = url.parse::<Uri>().ok();
    match uri.as_ref().and_then(Uri::host) {
        Some(host) => host.to_ascii_lowercase().into(),
        None => url.into(),
    }
}
