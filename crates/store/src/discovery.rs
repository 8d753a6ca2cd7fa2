//! Which namespaces the mesh takes notice of: `discoverySelectors` of its config.
//!
//! Objects of other namespaces stay with the store, out of the snapshot, so that generation need not know of them. A
//! namespace is one of a cluster: each goes by its own labels.
//!
//! Istio: pkg/kube/namespace/filter.go, pilot/pkg/config/kube/crdclient/client.go, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{KeyedMap, KeyedSet};
use model::kinds::multicluster::REMOTE_SECRET_LABEL;
use model::kinds::{AnyObject, Kind};
use model::mesh::selects_namespace;
use model::settings::Settings;
use model::{Labels, Namespace, ObjectKey, ObjectName, Owner};

use crate::snapshot::Snapshot;

/// What is out of sight, and which namespaces have to be looked at again.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// The objects out of sight, by the Namespace they are in. Namespaces without any are not in it.
    hidden: KeyedMap<ObjectName, KeyedSet<ObjectKey>>,
    /// Namespaces whose labels may have changed in this batch.
    labelled: BTreeSet<ObjectName>,
    /// This batch changed the selectors.
    selectors_changed: bool,
}

impl Discovery {
    /// What generation sees of an object: `winner`, unless its namespace is out of sight.
    pub(crate) fn shown(
        &mut self,
        next: &Snapshot,
        key: &ObjectKey,
        winner: Option<(AnyObject, Arc<Owner>)>,
    ) -> Option<(AnyObject, Arc<Owner>)> {
        let selects = selects_some(&next.settings);
        if selects && key.kind == Kind::Namespace {
            self.labelled.insert(key.name.clone());
        }
        if !selects && self.hidden.is_empty() {
            return winner;
        }
        let namespace = namespace_of(key);
        let winning = winner.as_ref().map(|(object, _)| object);
        if winning.is_some_and(|o| !configures_us(&next.settings, o))
            && !discovers(next, &namespace)
        {
            self.hidden
                .entry(namespace)
                .or_default()
                .insert(key.clone());
            return None;
        }
        if let Some(hidden) = self.hidden.get_mut(&namespace) {
            hidden.remove(key);
            if hidden.is_empty() {
                self.hidden.remove(&namespace);
            }
        }
        winner
    }

    /// Notes that the settings change.
    pub(crate) fn settings_change(&mut self, before: &Settings, after: &Settings) {
        self.selectors_changed |= before.mesh.discovery_selectors != after.mesh.discovery_selectors;
    }

    /// The objects that came into sight or went out of it with their namespaces since the last call, sorted.
    pub(crate) fn take_moved(&mut self, next: &Snapshot) -> Vec<ObjectKey> {
        let labelled = std::mem::take(&mut self.labelled);
        let mut moved = Vec::new();
        if std::mem::take(&mut self.selectors_changed) {
            for namespace in next.tables.all_namespaces() {
                let seen = next.tables.keys_in(namespace).into_iter();
                moved.extend(seen.filter(|key| !discovers(next, &namespace_of(key))));
            }
            let back = self.hidden.iter().filter(|(name, _)| discovers(next, name));
            moved.extend(back.flat_map(|(_, hidden)| hidden.iter().cloned()));
        } else {
            for namespace in labelled {
                if discovers(next, &namespace) {
                    let hidden = self.hidden.get(&namespace);
                    moved.extend(hidden.into_iter().flatten().cloned());
                } else {
                    let name = Namespace::from(namespace.name.as_str());
                    let seen = next.tables.keys_in(&name).into_iter();
                    moved.extend(seen.filter(|key| namespace_of(key) == namespace));
                }
            }
        }
        moved.sort();
        moved
    }
}

/// The name of the Namespace that an object is in, in the object's own cluster; empty for what is in none.
fn namespace_of(key: &ObjectKey) -> ObjectName {
    ObjectName::new("", key.name.namespace.as_str()).in_cluster(key.name.cluster.as_ref())
}

/// Whether an object tells the control plane itself what to do, where it runs: the selectors are in a ConfigMap, which must
/// not hide itself, and remote clusters in Secrets.
fn configures_us(settings: &Settings, object: &AnyObject) -> bool {
    let meta = object.meta();
    let is_kind = match object.kind() {
        Kind::ConfigMap => true,
        Kind::Secret => meta.labels.get(REMOTE_SECRET_LABEL) == Some("true"),
        _ => false,
    };
    is_kind && meta.name.cluster.is_none() && meta.name.namespace == settings.system_namespace
}

fn selects_some(settings: &Settings) -> bool {
    !settings.mesh.discovery_selectors.is_empty()
}

/// Whether the mesh takes notice of a namespace: where one of the selectors matches its labels, or there are none.
/// What is in no namespace is always seen.
pub fn discovers(snapshot: &Snapshot, namespace: &ObjectName) -> bool {
    if namespace.name.is_empty() || !selects_some(&snapshot.settings) {
        return true;
    }
    let none = Labels::default();
    let object = snapshot.tables.namespaces.get(namespace);
    let labels = object.map_or(&none, |object| &object.meta.labels);
    let name = Namespace::from(namespace.name.as_str());
    let mut selectors = snapshot.settings.mesh.discovery_selectors.iter();
    selectors.any(|selector| selects_namespace(selector, &name, labels))
}
