//! Input keys: the names of rows and buckets of the snapshot, as the engine records them.
//!
//! A key is a 64-bit hash; two inputs that collide only cost a needless recomputation.

use incr::InputKey;
use model::change::ServiceKey;
use model::jwks::KeySource;
use model::{Kind, Namespace, ObjectName};
use xxhash_rust::xxh3::Xxh3;

fn key(tag: u8, kind: u8, parts: &[&str]) -> InputKey {
    let mut hash = Xxh3::new();
    hash.update(&[tag, kind]);
    for part in parts {
        hash.update(part.as_bytes());
        hash.update(&[0xff]);
    }
    InputKey(hash.digest())
}

/// One object, also while it is absent.
pub fn row(kind: Kind, name: &ObjectName) -> InputKey {
    let cluster = name.cluster.as_deref().unwrap_or_default();
    key(0, kind as u8, &[&name.namespace, &name.name, cluster])
}

/// The objects of a namespace and name, whichever clusters they are in.
pub fn namesakes(kind: Kind, name: &ObjectName) -> InputKey {
    key(15, kind as u8, &[&name.namespace, &name.name])
}

/// Which objects of a kind there are.
pub fn members(kind: Kind) -> InputKey {
    key(1, kind as u8, &[])
}

/// Every object of a kind, with what it holds.
pub fn contents(kind: Kind) -> InputKey {
    key(2, kind as u8, &[])
}

/// Which objects of a kind there are in a namespace.
pub fn members_in(kind: Kind, namespace: &Namespace) -> InputKey {
    key(3, kind as u8, &[namespace])
}

/// Every object of a kind in a namespace, with what it holds.
pub fn contents_in(kind: Kind, namespace: &Namespace) -> InputKey {
    key(4, kind as u8, &[namespace])
}

/// Which objects of a kind have `value` in an index.
pub fn index_members(kind: Kind, index: u8, value: &str) -> InputKey {
    key(
        5,
        kind as u8,
        &[std::str::from_utf8(&[index]).unwrap_or(""), value],
    )
}

/// Every object of a kind that has `value` in an index, with what it holds.
pub fn index_contents(kind: Kind, index: u8, value: &str) -> InputKey {
    key(
        6,
        kind as u8,
        &[std::str::from_utf8(&[index]).unwrap_or(""), value],
    )
}

/// Which namespaces have objects of a kind.
pub fn namespaces(kind: Kind) -> InputKey {
    key(7, kind as u8, &[])
}

/// The mesh-wide settings.
pub fn settings() -> InputKey {
    key(8, 0, &[])
}

/// The endpoint shards of a service.
pub fn shards(service: &ServiceKey) -> InputKey {
    key(9, 0, &[&service.namespace, &service.host])
}

/// The keys fetched from a source.
pub fn keys(source: &KeySource) -> InputKey {
    match source {
        KeySource::Uri(uri) => key(11, 0, &[uri]),
        KeySource::Issuer(issuer) => key(12, 0, &[issuer]),
    }
}

/// The labels of the connected proxies of a namespace.
pub fn connected(namespace: &Namespace) -> InputKey {
    key(13, 0, &[namespace])
}

/// Which namespaces have connected proxies.
pub fn connected_namespaces() -> InputKey {
    key(14, 0, &[])
}
