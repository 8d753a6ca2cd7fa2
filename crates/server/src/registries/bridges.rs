//! The McpBridges that are read, and the Secrets beside them, told whenever they change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Kind;
use model::kinds::higress::{BRIDGE, McpBridge};
use model::kinds::kube::Secret;
use model::names::{Name, Namespace};
use model::object::Object;
use store::Snapshot;
use tokio::sync::watch;

use crate::derive::Batch;

/// What the newest snapshot has.
#[derive(Default)]
pub struct Seen {
    /// In the order in which they count.
    pub(super) bridges: Vec<Arc<Object<McpBridge>>>,
    /// Those that the bridges and flags name.
    pub(super) secrets: BTreeMap<Name, Arc<Object<Secret>>>,
}

impl Seen {
    fn is_same(&self, other: &Self) -> bool {
        let bridges = self.bridges.len() == other.bridges.len()
            && self
                .bridges
                .iter()
                .zip(&other.bridges)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        let secrets = self.secrets.len() == other.secrets.len()
            && self
                .secrets
                .iter()
                .zip(&other.secrets)
                .all(|(a, b)| Arc::ptr_eq(a.1, b.1));
        bridges && secrets
    }
}

/// Looks for them in each batch.
pub struct Bridges {
    namespace: Namespace,
    names: Vec<Name>,
    /// Secrets that flags name.
    named: BTreeSet<Name>,
    told: watch::Sender<Arc<Seen>>,
}

impl Bridges {
    /// Those of a namespace: `default`, and further ones. Flags name Secrets there, too.
    pub fn new(namespace: Namespace, further: &[String], named: BTreeSet<Name>) -> Self {
        let further = further.iter().map(|name| Name::new(name.as_str()));
        let further = further.filter(|name| name.as_str() != BRIDGE);
        Self {
            namespace,
            names: std::iter::once(Name::new(BRIDGE)).chain(further).collect(),
            named,
            told: watch::Sender::default(),
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let concerns = batch.changes.objects.iter().any(|key| {
            matches!(key.kind, Kind::McpBridge | Kind::Secret)
                && key.name.cluster.is_none()
                && key.name.namespace == self.namespace
        });
        if concerns {
            let seen = self.of(&batch.snapshot);
            self.told.send_if_modified(|told| {
                let same = told.is_same(&seen);
                if !same {
                    *told = Arc::new(seen);
                }
                !same
            });
        }
    }

    /// What the newest snapshot has, whenever that is something else.
    pub fn told(&self) -> watch::Receiver<Arc<Seen>> {
        self.told.subscribe()
    }

    fn of(&self, snapshot: &Snapshot) -> Seen {
        let key = |name: &Name| model::ObjectName::new(self.namespace.clone(), name.clone());
        let tables = &snapshot.tables;
        let bridges = self.names.iter();
        let bridges = bridges.filter_map(|name| tables.mcp_bridges.get(&key(name)).cloned());
        let bridges: Vec<_> = bridges.collect();
        let entries = bridges.iter().flat_map(|bridge| &bridge.spec.registries);
        let of_entries = entries.map(|entry| Name::new(entry.auth_secret_name.clone()));
        let secrets = of_entries.chain(self.named.iter().cloned());
        let secrets = secrets.filter(|name| !name.is_empty());
        let secrets = secrets.filter_map(|name| {
            let secret = tables.secrets.get(&key(&name)).cloned()?;
            Some((name, secret))
        });
        Seen {
            secrets: secrets.collect(),
            bridges,
        }
    }
}
