//! The ConfigMaps that hold settings, told whenever they change.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::edge::EdgeDocuments;
use model::kinds::kube::ConfigMap;
use model::object::Object;
use model::redacted::Redacted;
use model::settings::Settings;
use model::{Kind, ObjectName};
use policy::edge::options::{self, Document};
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
    /// What another control plane says of the mesh.
    pub(super) peer: Option<PeerMesh>,
    /// What sections of the options of the edge said when they could be used last, in their ConfigMap.
    pub(super) good: Arc<Good>,
    /// What is in force; `None` before the first batch.
    pub(super) in_force: Option<(Arc<Settings>, Arc<EdgeDocuments>)>,
}

/// The mesh configuration of another control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerMesh {
    /// Where findings say that it stands.
    pub place: Arc<Path>,
    /// It, as JSON.
    pub text: Arc<str>,
}

/// What sections of the options of the edge said when they could be used last, as JSON.
pub(super) type Good = BTreeMap<Arc<str>, Redacted>;

impl Told {
    /// Whether both have the same texts.
    pub(super) fn has_same_texts(&self, other: &Self) -> bool {
        let same = |a: &Option<Arc<Object<ConfigMap>>>, b: &Option<_>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let same_maps = same(&self.shared, &other.shared) && same(&self.own, &other.own);
        same_maps && self.peer == other.peer && self.good == other.good
    }
}

/// Looks for the ConfigMaps in each batch.
pub struct ConfigMaps {
    shared: Option<ObjectName>,
    own: ObjectName,
    /// That of the options of the edge.
    edge: Option<ObjectName>,
    told: watch::Sender<Told>,
}

impl ConfigMaps {
    /// Those that the options name, in the namespace of the control plane.
    pub fn new(stated: &ServeOptions) -> Self {
        let name = |name: String| ObjectName::new(stated.namespace.as_str(), name);
        let own = match stated.revision.as_str() {
            "" | "default" => "istio".to_owned(),
            revision => format!("istio-{revision}"),
        };
        let shared = stated.shared_mesh_config.clone();
        Self {
            shared: shared.filter(|name| !name.is_empty()).map(name),
            own: name(own),
            edge: options::config_map(&stated.ingress.features()),
            told: watch::Sender::default(),
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let snapshot = &*batch.snapshot;
        let is_among = |names: [Option<&ObjectName>; 2]| {
            let mut changed = batch.changes.objects.iter();
            changed.any(|key| {
                key.kind == Kind::ConfigMap && names.into_iter().flatten().any(|n| *n == key.name)
            })
        };
        let changed = is_among([Some(&self.own), self.shared.as_ref()]);
        let edge = self.edge.as_ref();
        let edge = edge.filter(|edge| is_among([Some(*edge), None]));
        self.told.send_if_modified(|told| {
            let known = told.in_force.as_ref();
            let is_known = known.is_some_and(|(settings, documents)| {
                Arc::ptr_eq(settings, &snapshot.settings)
                    && Arc::ptr_eq(documents, &snapshot.edge_documents)
            });
            if !changed && edge.is_none() && is_known {
                return false;
            }
            if changed {
                let of = |name: &ObjectName| config_map(snapshot, name);
                told.shared = self.shared.as_ref().and_then(of);
                told.own = of(&self.own);
            }
            if let Some(name) = edge {
                // Each version that there was is seen here, so none that could be used is missed.
                let map = config_map(snapshot, name);
                let text = map.as_ref().and_then(|map| map.spec.data.get(options::KEY));
                let good = text.map(|text| Document::read(text, &told.good).good);
                told.good = Arc::new(good.unwrap_or_default());
            }
            told.in_force = Some((snapshot.settings.clone(), snapshot.edge_documents.clone()));
            true
        });
    }

    /// Takes in what another control plane says of the mesh.
    pub fn tell_peer(&self, peer: Option<PeerMesh>) {
        self.told.send_if_modified(|told| {
            let is_news = told.peer != peer;
            told.peer = peer;
            is_news
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
