//! Which namespaces the mesh takes notice of: `discoverySelectors` of its config.
//!
//! Objects of other namespaces stay with the store, out of the snapshot, so that generation need not know of them.
//!
//! Istio: pkg/kube/namespace/filter.go, pilot/pkg/config/kube/crdclient/client.go, 1.32.

use std::collections::BTreeSet;

use incr::{KeyedMap, KeyedSet};
use model::kinds::{AnyObject, Kind};
use model::mesh::selects_namespace;
use model::settings::Settings;
use model::{Labels, Namespace, ObjectKey, ObjectName};

use crate::snapshot::Snapshot;

/// What is out of sight, and which namespaces have to be looked at again.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// The objects out of sight. Namespaces without any are not in it.
    hidden: KeyedMap<Namespace, KeyedSet<ObjectKey>>,
    /// Namespaces whose labels may have changed in this batch.
    labelled: BTreeSet<Namespace>,
    /// This batch changed the selectors.
    selectors_changed: bool,
}

impl Discovery {
    /// What generation sees of an object: `winner`, unless its namespace is out of sight.
    pub(crate) fn shown(
        &mut self,
        next: &Snapshot,
        key: &ObjectKey,
        winner: Option<AnyObject>,
    ) -> Option<AnyObject> {
        if key.kind == Kind::Namespace && selects_some(&next.settings) {
            self.labelled.insert(key.name.name.as_str().into());
        }
        let namespace = &key.name.namespace;
        if winner.is_some() && !discovers(next, namespace) {
            let hidden = self.hidden.entry(namespace.clone()).or_default();
            hidden.insert(key.clone());
            return None;
        }
        if let Some(hidden) = self.hidden.get_mut(namespace) {
            hidden.remove(key);
            if hidden.is_empty() {
                self.hidden.remove(namespace);
            }
        }
        winner
    }

    /// Notes that the settings change.
    pub(crate) fn settings_change(&mut self, before: &Settings, after: &Settings) {
        self.selectors_changed |= before.mesh.discovery_selectors != after.mesh.discovery_selectors;
    }

    /// The namespaces that came into sight or went out of it since the last call.
    pub(crate) fn take_moved(&mut self, next: &Snapshot) -> Vec<Namespace> {
        let mut candidates = std::mem::take(&mut self.labelled);
        if std::mem::take(&mut self.selectors_changed) {
            candidates.extend(next.tables.all_namespaces().into_iter().cloned());
            candidates.extend(self.hidden.keys().cloned());
        }
        candidates
            .into_iter()
            .filter(|namespace| match discovers(next, namespace) {
                true => self.hidden.contains_key(namespace),
                false => next.tables.holds(namespace),
            })
            .collect()
    }

    /// The objects of a namespace that are out of sight.
    pub(crate) fn hidden_in(&self, namespace: &Namespace) -> Vec<ObjectKey> {
        let hidden = self.hidden.get(namespace);
        hidden.into_iter().flatten().cloned().collect()
    }
}

fn selects_some(settings: &Settings) -> bool {
    !settings.mesh.discovery_selectors.is_empty()
}

/// Whether the mesh takes notice of a namespace: where one of the selectors matches its labels, or there are none.
/// What lies in no namespace is always seen.
fn discovers(snapshot: &Snapshot, namespace: &Namespace) -> bool {
    if namespace.is_empty() || !selects_some(&snapshot.settings) {
        return true;
    }
    let none = Labels::default();
    let object = ObjectName::new("", namespace.as_str());
    let object = snapshot.tables.namespaces.get(&object);
    let labels = object.map_or(&none, |object| &object.meta.labels);
    let mut selectors = snapshot.settings.mesh.discovery_selectors.iter();
    selectors.any(|selector| selects_namespace(selector, namespace, labels))
}
