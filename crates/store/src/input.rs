//! Inputs: the rows and buckets of the snapshot that generation can read, by name.
//!
//! The engine records an [`InputKey`], a 64-bit hash of the name; two inputs that collide only cost a needless
//! recomputation. Keys are not kept with their names. [`Snapshot::replace`](crate::Snapshot::replace) tells which inputs
//! an object touches, and so which of the recorded keys it is behind.

use std::fmt;

use incr::InputKey;
use model::access::AccessKey;
use model::change::ServiceKey;
use model::jwks::KeySource;
use model::module::{ModuleSource, Pull};
use model::{Kind, Namespace, ObjectName};
use xxhash_rust::xxh3::Xxh3;

use crate::index::ObjectIndex;

/// A row or bucket of the snapshot, whether or not anything is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input<'a> {
    /// One object.
    Row(Kind, &'a ObjectName),
    /// The objects of a namespace and name, whichever clusters they are in.
    Namesakes(Kind, &'a ObjectName),
    /// Which objects of a kind there are.
    Members(Kind),
    /// Every object of a kind, with what it holds.
    Contents(Kind),
    /// Which objects of a kind there are in a namespace.
    MembersIn(Kind, &'a Namespace),
    /// Every object of a kind in a namespace, with what it holds.
    ContentsIn(Kind, &'a Namespace),
    /// Which objects of a kind have a value in an index.
    IndexMembers(Kind, ObjectIndex, &'a str),
    /// Every object of a kind that has a value in an index, with what it holds.
    IndexContents(Kind, ObjectIndex, &'a str),
    /// Which namespaces have objects of a kind.
    Namespaces(Kind),
    /// Whether a namespace has very many objects of a kind.
    Crowded(Kind, &'a Namespace),
    /// The mesh-wide settings.
    Settings,
    /// The endpoint shards of a service.
    Shards(&'a ServiceKey),
    /// The identities that endpoints of a service had.
    Identities(&'a ServiceKey),
    /// The keys fetched from a source.
    Keys(&'a KeySource),
    /// The Wasm module fetched from a source.
    Module(&'a ModuleSource),
    /// The roots of the mesh's own authority.
    Roots,
    /// What the options of an edge are read from beside their ConfigMap.
    EdgeDocuments,
    /// Which Ingresses of remote clusters are served.
    RemoteIngresses,
    /// The addresses that a name was resolved to.
    Addresses(&'a str),
    /// The certificate of an identity.
    Certificate(&'a str),
    /// What was answered to a review of access.
    Access(&'a AccessKey),
    /// The labels of the connected proxies of a namespace.
    Connected(&'a Namespace),
    /// Which namespaces have connected proxies.
    ConnectedNamespaces,
}

impl Input<'_> {
    /// What the engine records.
    pub fn key(self) -> InputKey {
        let hash = |tag: u8, kind: u8, parts: &[&str]| {
            let mut hash = Xxh3::new();
            hash.update(&[tag, kind]);
            for part in parts {
                hash.update(part.as_bytes());
                hash.update(&[0xff]);
            }
            InputKey(hash.digest())
        };
        match self {
            Input::Row(kind, name) => {
                let cluster = name.cluster.as_deref().unwrap_or_default();
                hash(0, kind as u8, &[&name.namespace, &name.name, cluster])
            }
            Input::Namesakes(kind, name) => hash(15, kind as u8, &[&name.namespace, &name.name]),
            Input::Members(kind) => hash(1, kind as u8, &[]),
            Input::Contents(kind) => hash(2, kind as u8, &[]),
            Input::MembersIn(kind, namespace) => hash(3, kind as u8, &[namespace]),
            Input::ContentsIn(kind, namespace) => hash(4, kind as u8, &[namespace]),
            Input::IndexMembers(kind, index, value) => hash(5, kind as u8, &[index.name(), value]),
            Input::IndexContents(kind, index, value) => hash(6, kind as u8, &[index.name(), value]),
            Input::Namespaces(kind) => hash(7, kind as u8, &[]),
            Input::Crowded(kind, namespace) => hash(23, kind as u8, &[namespace]),
            Input::Settings => hash(8, 0, &[]),
            Input::Shards(service) => hash(9, 0, &[&service.namespace, &service.host]),
            Input::Identities(service) => hash(24, 0, &[&service.namespace, &service.host]),
            Input::Keys(KeySource::Uri(uri)) => hash(11, 0, &[uri]),
            Input::Keys(KeySource::Issuer(issuer)) => hash(12, 0, &[issuer]),
            Input::Keys(KeySource::Bundle(url)) => hash(18, 0, &[url]),
            Input::Module(source) => {
                let pull = match source.pull {
                    Pull::Once => "",
                    Pull::Always => "always",
                };
                let (namespace, name) = source.secret.as_ref().map_or(("", ""), |secret| {
                    (secret.namespace.as_str(), secret.name.as_str())
                });
                hash(21, 0, &[&source.url, &source.sha256, pull, namespace, name])
            }
            Input::Addresses(name) => hash(16, 0, &[name]),
            Input::Certificate(identity) => hash(20, 0, &[identity]),
            Input::Access(AccessKey { cluster, identity }) => {
                let cluster = cluster.as_deref().unwrap_or_default();
                let account = &identity.service_account;
                hash(17, 0, &[&identity.namespace, account, cluster])
            }
            Input::Roots => hash(19, 0, &[]),
            Input::EdgeDocuments => hash(21, 0, &[]),
            Input::RemoteIngresses => hash(22, 0, &[]),
            Input::Connected(namespace) => hash(13, 0, &[namespace]),
            Input::ConnectedNamespaces => hash(14, 0, &[]),
        }
    }
}

impl fmt::Display for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Row(kind, name) => write!(f, "{} {name}", kind.name()),
            Input::Namesakes(kind, name) => {
                let name = name.in_cluster(None);
                write!(f, "{} {name} in every cluster", kind.name())
            }
            Input::Members(kind) => write!(f, "names of {} objects", kind.name()),
            Input::Contents(kind) => write!(f, "{} objects", kind.name()),
            Input::MembersIn(kind, namespace) => {
                write!(f, "names of {} objects in {namespace}", kind.name())
            }
            Input::ContentsIn(kind, namespace) => {
                write!(f, "{} objects in {namespace}", kind.name())
            }
            Input::IndexMembers(kind, index, value) => {
                let index = index.name();
                write!(f, "names of {} objects with {index} {value}", kind.name())
            }
            Input::IndexContents(kind, index, value) => {
                write!(f, "{} objects with {} {value}", kind.name(), index.name())
            }
            Input::Namespaces(kind) => write!(f, "namespaces with {} objects", kind.name()),
            Input::Crowded(kind, namespace) => {
                write!(f, "whether {} objects crowd {namespace}", kind.name())
            }
            Input::Settings => f.write_str("mesh settings"),
            Input::Shards(service) => {
                write!(
                    f,
                    "endpoint shards of {}/{}",
                    service.namespace, service.host
                )
            }
            Input::Identities(ServiceKey { namespace, host }) => {
                write!(f, "identities that endpoints of {namespace}/{host} had")
            }
            Input::Keys(source) => write!(f, "keys of {source}"),
            Input::Module(source) => write!(f, "Wasm module {source}"),
            Input::Addresses(name) => write!(f, "addresses of {name}"),
            Input::Certificate(identity) => write!(f, "certificate of {identity}"),
            Input::Access(key) => write!(f, "access of {key} to Secrets"),
            Input::Roots => f.write_str("roots of the mesh's own authority"),
            Input::EdgeDocuments => {
                f.write_str("a file and last good sections of options of the edge")
            }
            Input::RemoteIngresses => f.write_str("which Ingresses of remote clusters are served"),
            Input::Connected(namespace) => write!(f, "connected proxies in {namespace}"),
            Input::ConnectedNamespaces => f.write_str("namespaces with connected proxies"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::host::Hostname;
    use model::node::Identity;

    use super::*;

    #[test]
    fn inputs_of_different_names_have_different_keys() {
        let name = ObjectName::new("shop", "carts");
        let elsewhere = name.in_cluster(Some(&"west".into()));
        let namespace = Namespace::from("shop");
        let service = ServiceKey {
            namespace: namespace.clone(),
            host: Hostname::new("carts"),
        };
        let (uri, issuer) = (KeySource::Uri("a".into()), KeySource::Issuer("a".into()));
        let bundle = KeySource::Bundle("a".into());
        let module = ModuleSource {
            url: "a".into(),
            sha256: "".into(),
            pull: Pull::Once,
            secret: None,
        };
        let with_secret = ModuleSource {
            secret: Some(name.clone()),
            ..module.clone()
        };
        let always = ModuleSource {
            pull: Pull::Always,
            ..module.clone()
        };
        let access = AccessKey {
            cluster: None,
            identity: Identity {
                namespace: namespace.clone(),
                service_account: "carts".into(),
            },
        };
        let access_elsewhere = AccessKey {
            cluster: Some("west".into()),
            ..access.clone()
        };
        let mut inputs = vec![
            Input::Settings,
            Input::Shards(&service),
            Input::Identities(&service),
            Input::Keys(&uri),
            Input::Keys(&issuer),
            Input::Keys(&bundle),
            Input::Module(&module),
            Input::Module(&with_secret),
            Input::Module(&always),
            Input::Roots,
            Input::EdgeDocuments,
            Input::RemoteIngresses,
            Input::Addresses("a"),
            Input::Certificate("a"),
            Input::Access(&access),
            Input::Access(&access_elsewhere),
            Input::Connected(&namespace),
            Input::ConnectedNamespaces,
        ];
        for kind in [Kind::Service, Kind::DestinationRule] {
            inputs.extend([
                Input::Row(kind, &name),
                Input::Row(kind, &elsewhere),
                Input::Namesakes(kind, &name),
                Input::Members(kind),
                Input::Contents(kind),
                Input::MembersIn(kind, &namespace),
                Input::ContentsIn(kind, &namespace),
                Input::Namespaces(kind),
                Input::Crowded(kind, &namespace),
            ]);
            for index in [ObjectIndex::Host, ObjectIndex::Address] {
                inputs.push(Input::IndexMembers(kind, index, "a"));
                inputs.push(Input::IndexContents(kind, index, "a"));
            }
        }
        let keys: BTreeSet<InputKey> = inputs.iter().map(|i| i.key()).collect();
        assert_eq!(keys.len(), inputs.len());
    }

    #[test]
    fn an_input_says_what_it_is() {
        let name = ObjectName::new("shop", "carts");
        let row = Input::Row(Kind::DestinationRule, &name);
        assert_eq!(row.to_string(), "DestinationRule shop/carts");
        let host = Input::IndexMembers(Kind::VirtualService, ObjectIndex::Host, "a.com");
        assert_eq!(
            host.to_string(),
            "names of VirtualService objects with host a.com"
        );
    }
}
