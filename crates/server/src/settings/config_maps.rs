//! The ConfigMaps that hold settings, told whenever they change.

use std::sync::Arc;

use model::kinds::kube::ConfigMap;
use model::object::Object;
use model::settings::Settings;
use model::{Kind, ObjectName};
use store::Snapshot;
use tokio::sync::watch;

use crate::config::ServeOptions;
use crate::derive::Batch;

/// What the newest snapshot has.
#[derive(Clone, Default)]
pub struct Told {
    /// The ConfigMap that `--shared-mesh-config` names.
    pub(super) shared: Option<Arc<Object<ConfigMap>>>,
    /// The ConfigMap of this revision.
    pub(super) own: Option<Arc<Object<ConfigMap>>>,
    /// The settings in force; `None` before the first batch.
    pub(super) in_force: Option<Arc<Settings>>,
}

impl Told {
    /// Whether both have the same ConfigMaps.
    pub(super) fn has_same_texts(&self, other: &Self) -> bool {
        let same = |a: &Option<Arc<Object<ConfigMap>>>, b: &Option<_>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        same(&self.shared, &other.shared) && same(&self.own, &other.own)
    }
}

/// Looks for the ConfigMaps in each batch.
pub struct ConfigMaps {
    shared: Option<ObjectName>,
    own: ObjectName,
    told: watch::Sender<Told>,
}

impl ConfigMaps {
    /// Those that the options name, in the namespace of the control plane.
    pub fn new(options: &ServeOptions) -> Self {
        let name = |name: String| ObjectName::new(options.namespace.as_str(), name);
        let own = match options.revision.as_str() {
            "" | "default" => "istio".to_owned(),
            revision => format!("istio-{revision}"),
        };
        let shared = options.shared_mesh_config.clone();
        Self {
            shared: shared.filter(|name| !name.is_empty()).map(name),
            own: name(own),
            told: watch::Sender::default(),
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let settings = &batch.snapshot.settings;
        let changed = batch.changes.objects.iter().any(|key| {
            key.kind == Kind::ConfigMap
                && (key.name == self.own || self.shared.as_ref() == Some(&key.name))
        });
        self.told.send_if_modified(|told| {
            let known = told.in_force.as_ref();
            if !changed && known.is_some_and(|known| Arc::ptr_eq(known, settings)) {
                return false;
            }
            if changed {
                let of = |name: &ObjectName| config_map(&batch.snapshot, name);
                told.shared = self.shared.as_ref().and_then(of);
                told.own = of(&self.own);
            }
            told.in_force = Some(settings.clone());
            true
        });
    }

    /// What the newest snapshot has, whenever that is something else.
    pub fn told(&self) -> watch::Receiver<Told> {
        self.told.subscribe()
    }
}

fn config_map(snapshot: &Snapshot, name: &ObjectName) -> Option<Arc<Object<ConfigMap>>> {
    snapshot.tables.config_maps.get(name).cloned()
}
