//! The Secrets that hold kubeconfigs, told whenever they change.

use std::sync::Arc;

use model::kinds::kube::Secret;
use model::kinds::multicluster::REMOTE_SECRET_LABEL;
use model::names::Namespace;
use model::object::Object;
use model::{Kind, ObjectKey};
use store::Snapshot;
use tokio::sync::watch;

use super::ingress::Said;
use super::plan::{Holder, Holders};
use crate::derive::Batch;

/// Looks for the Secrets in each batch.
pub struct Secrets {
    namespace: Namespace,
    told: watch::Sender<Holders>,
}

impl Secrets {
    /// Those of a namespace of the configured cluster.
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            told: watch::Sender::new(Arc::from([])),
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let is_one = |key: &ObjectKey| {
            key.kind == Kind::Secret
                && key.name.cluster.is_none()
                && key.name.namespace == self.namespace
        };
        if batch.changes.objects.iter().any(is_one) {
            let holders = self.of(&batch.snapshot);
            self.told.send_if_modified(|told| {
                let same = is_same(told, &holders);
                if !same {
                    *told = holders;
                }
                !same
            });
        }
    }

    /// What the newest snapshot has, whenever that is something else.
    pub fn told(&self) -> watch::Receiver<Holders> {
        self.told.subscribe()
    }

    fn of(&self, snapshot: &Snapshot) -> Holders {
        let secrets = snapshot.tables.secrets.iter_in(&self.namespace);
        let secrets = secrets.filter(|secret| {
            let name = &secret.meta.name;
            name.cluster.is_none() && secret.meta.labels.get(REMOTE_SECRET_LABEL) == Some("true")
        });
        secrets.map(|secret| holder(secret)).collect()
    }
}

fn holder(secret: &Object<Secret>) -> Holder {
    let data = secret.spec.data.iter();
    Holder {
        name: secret.meta.name.to_string().into(),
        object: Some(secret.key()),
        origin: secret.meta.origin.clone(),
        data: data
            .map(|(id, value)| (id.clone(), value.0.clone()))
            .collect(),
        ingresses: Said::read(&secret.meta.annotations),
        fault: None,
    }
}

/// Whether the same Secrets hold the same kubeconfigs, and say the same of Ingresses.
pub(super) fn is_same(a: &[Holder], b: &[Holder]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let same_data = a.name == b.name && a.data == b.data;
            same_data && a.ingresses == b.ingresses && a.fault == b.fault
        })
}
