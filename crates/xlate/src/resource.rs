//! Encoded resources and sorted sets of them: what generation makes and streams send.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use prost::{Message, Name};
use xxhash_rust::xxh3::xxh3_64;

/// One xDS resource, encoded once and shared by every stream that gets it.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource {
    /// Unique within its type.
    pub name: Arc<str>,
    /// Hash of the body: equal on every replica for equal content.
    pub version: u64,
    /// The encoded message.
    pub body: Bytes,
}

impl Resource {
    /// Encodes a message.
    pub fn encode(name: impl Into<Arc<str>>, message: &impl Message) -> Self {
        Self::from_bytes(name, Bytes::from(message.encode_to_vec()))
    }

    /// Wraps an encoded message.
    pub fn from_bytes(name: impl Into<Arc<str>>, body: Bytes) -> Self {
        Self {
            name: name.into(),
            version: xxh3_64(&body),
            body,
        }
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:016x}", self.name, self.version)
    }
}

/// Resources of one type, sorted by name, each name once. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ResourceSet(Arc<[Arc<Resource>]>);

impl ResourceSet {
    /// Sorts by name; of two resources with one name the first given stays.
    pub fn new(resources: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut list: Vec<_> = resources.into_iter().collect();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list.dedup_by(|b, a| a.name == b.name);
        Self(list.into())
    }

    /// The resource of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        self.0
            .binary_search_by(|r| (*r.name).cmp(name))
            .ok()
            .map(|at| &self.0[at])
    }
}

impl std::ops::Deref for ResourceSet {
    type Target = [Arc<Resource>];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl PartialEq for ResourceSet {
    /// Compares names and versions; bodies are equal where versions are.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.len() == other.0.len()
                && self
                    .0
                    .iter()
                    .zip(other.0.iter())
                    .all(|(a, b)| Arc::ptr_eq(a, b) || a.version == b.version && a.name == b.name)
    }
}

impl Eq for ResourceSet {}

/// Packs a message into `Any`, under `type.googleapis.com`.
pub fn any<M: Message + Name>(message: &M) -> prost_types::Any {
    prost_types::Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}
