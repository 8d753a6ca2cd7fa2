//! Resources as entries of the book: by name, and by what they say.

use std::sync::Arc;

use bytes::Bytes;
use client::field;
use mcp::{Document, Fault, Resource};
use model::Kind;
use prost::Name;
use prost_types::Any;
use proto_istio::mesh::MeshConfig;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use crate::book::{Entry, Said};
use crate::topic::Topic;
use crate::wire::{Response, Sent};

/// What is said of one response at most.
const MOST_FAULTS: usize = 20;
/// The longest name that is told.
const LONGEST_NAME: usize = 512;

/// The name of the mesh configuration, which has none.
pub(crate) const MESH_CONFIG: &str = "MeshConfig";

/// A response as the book takes it.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// What it says.
    pub said: Said,
    /// What cannot be read of it, each with its name. Of very many not all are listed.
    pub faults: Vec<String>,
}

impl Read {
    /// Reads the resources of a response about a topic.
    pub fn of(topic: Topic, response: Response, is_whole: bool) -> Self {
        let mut read = Self {
            said: Said {
                stamp: response.version.into(),
                is_whole,
                removed: response.removed.into_iter().map(Arc::from).collect(),
                ..Said::default()
            },
            faults: Vec::new(),
        };
        let mut seen = std::collections::BTreeSet::new();
        for sent in response.resources {
            match entry(topic, sent) {
                Ok((entry, _)) if !seen.insert(entry.name.clone()) => {
                    read.fault(format!("{} is there twice; the first counts", entry.name));
                }
                Ok((entry, fault)) => {
                    if let Some(fault) = fault {
                        read.fault(format!("{} {fault}", entry.name));
                    }
                    read.said.entries.push(entry);
                }
                Err(fault) => {
                    read.said.nameless += 1;
                    read.fault(format!("a resource {fault}"));
                }
            }
        }
        read
    }

    fn fault(&mut self, said: String) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(said);
        }
    }
}

/// The resource of a response, and what cannot be read of it. One whose name cannot be read is an error.
fn entry(topic: Topic, sent: Sent) -> Result<(Entry, Option<Fault>), Fault> {
    let malformed = || Fault::Malformed("it is not an Any".to_owned());
    let any = sent.any.ok_or_else(malformed)?;
    match topic {
        Topic::Objects(kind) => object(kind, &sent.name, &sent.version, any),
        Topic::MeshConfig => Ok(mesh_config(any)),
    }
}

fn object(
    kind: Kind,
    stated: &str,
    wire_version: &str,
    any: Any,
) -> Result<(Entry, Option<Fault>), Fault> {
    let resource = Resource::decode(&any);
    let named = resource.as_ref().ok();
    let own = named.map(|r| format!("{}/{}", r.namespace, r.name));
    let version = named.map(|r| r.version.clone()).unwrap_or_default();
    let said = resource.and_then(|resource| {
        let document = resource.document(kind)?;
        Ok(digest(&document, &resource.extra))
    });
    let said = match &own {
        // A list that calls it otherwise could not say that it is gone.
        Some(own) if !stated.is_empty() && own != stated => Err(Fault::Name(own.clone())),
        _ => said,
    };
    let name = match (own.filter(|_| stated.is_empty()), &said) {
        (Some(own), _) => own,
        (None, _) if !stated.is_empty() => stated.to_owned(),
        (None, Err(fault)) => name_of(&any.value).ok_or_else(|| fault.clone())?,
        (None, Ok(_)) => return Err(Fault::Name(String::new())),
    };
    let (digest, fault) = match said {
        Ok(digest) => (digest, None),
        Err(fault) => (xxhash_rust::xxh3::xxh3_128(&any.value), Some(fault)),
    };
    let entry = Entry {
        name: name.into(),
        version: version.into(),
        wire_version: wire_version.into(),
        digest,
        is_readable: fault.is_none(),
        body: any.value.into(),
    };
    Ok((entry, fault))
}

fn mesh_config(any: Any) -> (Entry, Option<Fault>) {
    let (digest, fault) = match mcp::mesh_config(&any) {
        Ok(document) => (digest(&document, &[]), None),
        Err(fault) => (0, Some(fault)),
    };
    let entry = Entry {
        name: MESH_CONFIG.into(),
        version: Arc::default(),
        wire_version: Arc::default(),
        digest,
        is_readable: fault.is_none(),
        body: any.value.into(),
    };
    (entry, fault)
}

/// Of all that an object says, whatever its version and however it is encoded: maps have no order on the wire.
fn digest(document: &Document, extra: &[u8]) -> u128 {
    let mut json = document.json.clone();
    if let Some(metadata) = json.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    let mut hash = Xxh3::new();
    hash.update(json.to_string().as_bytes());
    hash.update(extra);
    for field in &document.unknown {
        hash.update(field.as_bytes());
    }
    hash.digest128()
}

/// The name in an envelope of which nothing else can be read.
fn name_of(value: &[u8]) -> Option<String> {
    let first = |bytes: Bytes| {
        let mut rest = bytes;
        while let Ok(Some((tag, value))) = field(&mut rest) {
            if tag == 1 {
                return Some(value);
            }
        }
        None
    };
    let metadata = first(Bytes::copy_from_slice(value))?;
    let name = first(metadata)?;
    let name = std::str::from_utf8(&name).ok()?;
    let (namespace, rest) = name.split_once('/')?;
    let fits = name.len() <= LONGEST_NAME && !namespace.is_empty() && !rest.is_empty();
    (fits && !rest.contains('/')).then(|| name.to_owned())
}

/// The resource that an entry is of.
pub(crate) fn resource(entry: &Entry) -> Result<Resource, Fault> {
    Resource::decode(&Any {
        type_url: proto_istio::mcp::Resource::type_url(),
        value: entry.body.to_vec(),
    })
}

/// The resource of an entry as a response has it.
pub(crate) fn any(topic: Topic, entry: &Entry) -> Any {
    let type_url = match topic {
        Topic::Objects(_) => proto_istio::mcp::Resource::type_url(),
        Topic::MeshConfig => MeshConfig::type_url(),
    };
    Any {
        type_url,
        value: entry.body.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use model::parse::{Validation, parse};

    use super::*;

    fn sent(version: &str, host: &str) -> Sent {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: a\n  namespace: shop\n  \
             resourceVersion: \"{version}\"\n  labels: {{a: b, c: d}}\nspec:\n  hosts: [{host}]\n"
        );
        let file = Arc::from(std::path::Path::new("a.yaml"));
        let parsed = parse(&text, &file, Validation::Strict);
        let object = parsed.objects().next().unwrap();
        Sent {
            any: mcp::encode(object),
            ..Sent::default()
        }
    }

    fn read(resources: Vec<Sent>) -> Read {
        let response = Response {
            resources,
            ..Response::default()
        };
        Read::of(Topic::Objects(Kind::ServiceEntry), response, true)
    }

    #[test]
    fn what_an_object_says_counts_and_not_its_version() {
        let digest = |version, host| read(vec![sent(version, host)]).said.entries[0].digest;
        assert_eq!(digest("1", "a.com"), digest("2", "a.com"));
        assert_ne!(digest("1", "a.com"), digest("1", "b.com"));
        let entry = read(vec![sent("7", "a.com")]).said.entries.remove(0);
        assert_eq!((&*entry.name, &*entry.version), ("shop/a", "7"));
    }

    #[test]
    fn what_cannot_be_read_is_named_where_it_has_a_name() {
        let mut other = sent("1", "a.com");
        let mut any = other.any.take().unwrap();
        // A length that goes beyond the end.
        any.value.extend([0x1a, 0x7f]);
        other.any = Some(any);
        let found = read(vec![other, Sent::default(), sent("1", "b.com")]);
        assert_eq!(found.said.nameless, 1);
        let names = found.said.entries.iter();
        let names: Vec<_> = names.map(|e| (&*e.name, e.is_readable)).collect();
        assert_eq!(names, [("shop/a", false)]);
        assert!(
            found.faults[0].starts_with("shop/a cannot be decoded"),
            "{found:?}"
        );
        assert!(found.faults[2].contains("twice"), "{found:?}");
    }

    #[test]
    fn an_incremental_response_must_call_an_object_as_it_calls_itself() {
        let named = |name: &str| Sent {
            name: name.into(),
            ..sent("1", "a.com")
        };
        assert!(read(vec![named("shop/a")]).faults.is_empty());
        let other = read(vec![named("shop/b")]);
        assert_eq!(&*other.said.entries[0].name, "shop/b");
        assert!(!other.said.entries[0].is_readable);
    }
}
