//! Entries as changes of the store, read by the reader that reads manifests.

use std::sync::Arc;

use mcp::{Fault, Resource};
use model::parse::Validation;
use model::{
    Change, Collection, Contents, Diagnostic, Kind, ObjectKey, ObjectName, Origin, Owner, Severity,
};
use serde_json::{Value, json};
use source_api::object;

use crate::book::{Entry, Step};
use crate::read;

/// Codes of findings about other control planes.
pub mod code {
    /// A source that is not read, or not as safely as it could be, or of which nothing is in force.
    pub const SOURCE: &str = "PIL0052";
    /// A resource that cannot be read, or says what has no meaning here.
    pub const UNREADABLE: &str = "PIL0053";
}

/// The label that names the revision that an object is for.
const REVISION: &str = "istio.io/rev";

/// Whose objects are told, and how they are judged.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Whose.
    pub owner: Owner,
    /// What becomes of objects with faults.
    pub validation: Validation,
    /// Objects that are labelled with another revision are of another control plane. Empty takes everything.
    pub revision: Arc<str>,
}

/// What is told of one resource.
#[derive(Debug)]
pub struct Told {
    /// Which; `None` for the end of a list.
    pub name: Option<Arc<str>>,
    /// The change.
    pub change: Change,
    /// What is wrong with it.
    pub found: Vec<Diagnostic>,
}

impl Reader {
    /// The changes of steps about a kind.
    pub fn changes(&self, kind: Kind, steps: Vec<Step>) -> Vec<Told> {
        let told = steps.into_iter().filter_map(|step| self.change(kind, step));
        told.collect()
    }

    fn change(&self, kind: Kind, step: Step) -> Option<Told> {
        let owner = self.owner.clone();
        Some(match step {
            Step::Put(entry) => {
                let (change, found) = self.put(key(kind, &entry.name)?, &entry);
                Told {
                    name: Some(entry.name),
                    change,
                    found,
                }
            }
            Step::Delete(name) => Told {
                change: Change::Delete(owner, key(kind, &name)?),
                name: Some(name),
                found: Vec::new(),
            },
            Step::Whole => {
                let of = Contents::Objects(kind);
                Told {
                    name: None,
                    change: Change::Synced(Collection { owner, of }),
                    found: Vec::new(),
                }
            }
        })
    }

    fn put(&self, key: ObjectKey, entry: &Entry) -> (Change, Vec<Diagnostic>) {
        let resource = match read::resource(entry) {
            Ok(resource) => resource,
            Err(fault) => return self.refuse(key, &fault),
        };
        if !self.is_ours(&resource) {
            return (Change::Delete(self.owner.clone(), key), Vec::new());
        }
        let document = match resource.document(key.kind) {
            Ok(document) => document,
            Err(fault) => return self.refuse(key, &fault),
        };
        let mut beyond = document.unknown;
        beyond.extend(beyond_the_body(&resource.extra));
        if beyond.is_empty() {
            return object::read(&self.owner, key, document.json, self.validation);
        }
        // What is not understood may be what protects, so the object is not used without it.
        let mut json = document.json;
        if let Some(spec) = json.get_mut("spec").and_then(Value::as_object_mut) {
            spec.extend(
                beyond
                    .iter()
                    .map(|field| (field.clone(), Value::Bool(true))),
            );
        }
        let fields = beyond.join(", ");
        let why =
            format!("has fields that are not known here ({fields}), and is not used without them");
        let said = self.finding(&key, &why);
        let (change, _) = object::read(&self.owner, key, json, Validation::Strict);
        (change, vec![said])
    }

    /// Whether an object is for this revision.
    fn is_ours(&self, resource: &Resource) -> bool {
        let stated = resource.labels.get(REVISION);
        self.revision.is_empty() || stated.is_none_or(|stated| **stated == *self.revision)
    }

    /// What is told of an object of which the name alone can be read: what it said before stays, and where it said nothing, what
    /// it protects is closed.
    fn refuse(&self, key: ObjectKey, fault: &Fault) -> (Change, Vec<Diagnostic>) {
        let said = self.finding(&key, &format!("cannot be read: the resource {fault}"));
        let object = json!({
            "apiVersion": key.kind.api_version(),
            "kind": key.kind.name(),
            "metadata": {"namespace": &*key.name.namespace, "name": &*key.name.name},
            "spec": "unreadable",
        });
        let (change, _) = object::read(&self.owner, key, object, Validation::Strict);
        (change, vec![said])
    }

    fn finding(&self, key: &ObjectKey, why: &str) -> Diagnostic {
        let origin = Origin::Source(self.owner.source.clone());
        Diagnostic::new(code::UNREADABLE, Severity::Error, why).about(key.clone(), origin)
    }
}

/// The object of a resource; `None` where the name is none, which no entry has.
fn key(kind: Kind, name: &str) -> Option<ObjectKey> {
    let (namespace, name) = name.split_once('/')?;
    let name = ObjectName::new(namespace, name);
    Some(ObjectKey { kind, name })
}

/// What stands beside the body for which Istio's messages have no field, by its names: Higress sends a map in JSON.
fn beyond_the_body(extra: &[u8]) -> Vec<String> {
    if extra.is_empty() {
        return Vec::new();
    }
    match serde_json::from_slice(extra) {
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Object(map)) => map
            .keys()
            .map(|key| format!("#100.{key}"))
            .take(20)
            .collect(),
        _ => vec!["#100".to_owned()],
    }
}
