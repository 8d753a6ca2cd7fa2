//! ReferenceGrants: who may name objects of other namespaces.

use std::collections::{BTreeMap, BTreeSet};

use model::{Kind, Namespace, ObjectKey, ObjectName};
use serde_json::{Value, json};

use super::super::{Manifest, Manifests};

/// The file of grants.
const FILE: &str = "_references.yaml";

/// How many objects a grant names at most.
const MOST: usize = 16;

/// The group of what refers.
const GROUP: &str = "gateway.networking.k8s.io";

/// Whose objects of a kind are named by whom: the namespace and kind that are named, the namespace and kind that name.
type Between = (Namespace, &'static str, Namespace, &'static str);

/// What is to be permitted.
#[derive(Default)]
pub(super) struct Grants(BTreeMap<Between, BTreeSet<String>>);

impl Grants {
    /// Lets objects of a kind and namespace name an object, unless it is their own.
    pub(super) fn permit(&mut self, kind: Kind, from: &Namespace, to: &ObjectKey) {
        if to.name.namespace == *from {
            return;
        }
        let between = (
            to.name.namespace.clone(),
            to.kind.name(),
            from.clone(),
            kind.name(),
        );
        let names = self.0.entry(between).or_default();
        names.insert(to.name.name.to_string());
    }

    /// Writes them.
    pub(super) fn write(self, manifests: &mut Manifests) {
        for ((to, named, from, kind), names) in self.0 {
            let names: Vec<String> = names.into_iter().collect();
            for (at, names) in names.chunks(MOST).enumerate() {
                let name = format!("{kind}-{from}-{named}-{at:03}").to_lowercase();
                let key = ObjectKey {
                    kind: Kind::ReferenceGrant,
                    name: ObjectName::new(to.clone(), name),
                };
                let names = names.iter();
                let named: Vec<Value> = names
                    .map(|name| json!({ "group": "", "kind": named, "name": name }))
                    .collect();
                let spec = json!({
                    "from": [{ "group": GROUP, "kind": kind, "namespace": &*from }],
                    "to": named,
                });
                let comment = format!("Lets each {kind} of {from} name these.");
                manifests.put(FILE, Manifest::new(&key, spec, &[comment]));
            }
        }
    }
}
