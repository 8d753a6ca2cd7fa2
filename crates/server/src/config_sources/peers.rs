//! What control planes say of the mesh: of several the one that comes first counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_client::OnMesh;
use model::Owner;

use crate::settings::{ConfigMaps, PeerMesh};

/// The mesh configurations of control planes, by precedence. Clones share them.
#[derive(Clone)]
pub(super) struct Meshes {
    said: Arc<Mutex<BTreeMap<Owner, Arc<str>>>>,
    config_maps: Arc<ConfigMaps>,
}

impl Meshes {
    /// Told to whom settings are made from.
    pub(super) fn new(config_maps: Arc<ConfigMaps>) -> Self {
        Self {
            said: Arc::default(),
            config_maps,
        }
    }

    /// Where a control plane says what it has.
    pub(super) fn of(&self, owner: &Owner) -> OnMesh {
        let (meshes, owner) = (self.clone(), owner.clone());
        Arc::new(move |text| meshes.set(&owner, text))
    }

    /// A control plane is read no more.
    pub(super) fn forget(&self, owner: &Owner) {
        self.set(owner, None);
    }

    fn set(&self, owner: &Owner, text: Option<Arc<str>>) {
        // Held meanwhile, so that the newest is told last.
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => _ = said.insert(owner.clone(), text),
            None => _ = said.remove(owner),
        }
        let first = said.first_key_value().map(|(owner, text)| PeerMesh {
            place: Path::new(&format!("{owner}[MeshConfig]")).into(),
            text: text.clone(),
        });
        self.config_maps.tell_peer(first);
    }
}
