//! What batches bring: the ConfigMap of certificates, and since when gateways are to answer which challenges.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use convert::edge::https::CONFIG_MAP;
use model::challenges::{ANSWERS, LABEL, ORDER, answers};
use model::kinds::kube::ConfigMap;
use model::names::Namespace;
use model::object::Object;
use model::{Kind, ObjectName};
use store::Snapshot;
use tokio::sync::watch;

use crate::derive::Batch;

/// The revision since which each token is answered.
type Tokens = BTreeMap<Arc<str>, u64>;

/// Looks at each batch.
pub struct Seen {
    map: ObjectName,
    told: watch::Sender<Option<Arc<Object<ConfigMap>>>>,
    /// The newest objects.
    newest: Arc<Mutex<Option<Arc<Snapshot>>>>,
    /// By the Secret of the order.
    tokens: Mutex<BTreeMap<ObjectName, Tokens>>,
}

impl Seen {
    /// For the namespace of Ingresses.
    pub fn new(namespace: Namespace) -> Self {
        Self {
            map: ObjectName::new(namespace, CONFIG_MAP),
            told: watch::Sender::default(),
            newest: Arc::default(),
            tokens: Mutex::default(),
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let tables = &batch.snapshot.tables;
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some(batch.snapshot.clone());
        drop(newest);
        for key in &batch.changes.objects {
            match key.kind {
                Kind::ConfigMap if key.name == self.map => {
                    let map = tables.config_maps.get(&self.map).cloned();
                    self.told.send_replace(map);
                }
                Kind::Secret
                    if key.name.cluster.is_none() && key.name.namespace == self.map.namespace =>
                {
                    self.order(&key.name, batch);
                }
                _ => {}
            }
        }
    }

    fn order(&self, name: &ObjectName, batch: &Batch) {
        let secret = batch.snapshot.tables.secrets.get(name);
        let is_order = |l: &model::Labels| l.get(LABEL).is_some_and(|l| *l == *ORDER);
        let order = secret.filter(|secret| is_order(&secret.meta.labels));
        let kept = order.and_then(|order| order.spec.data.get(ANSWERS));
        let answers = kept.map(|kept| answers(kept)).unwrap_or_default();
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let former = tokens.remove(name).unwrap_or_default();
        let since = answers.into_iter().map(|answer| {
            let since = former.get(&answer.token).copied();
            (answer.token, since.unwrap_or(batch.revision))
        });
        let since: Tokens = since.collect();
        if !since.is_empty() {
            tokens.insert(name.clone(), since);
        }
    }

    /// Tells whether a Secret that is in force is somebody else's.
    pub(super) fn foreign(&self) -> Arc<dyn Fn(&ObjectName) -> bool + Send + Sync> {
        let newest = self.newest.clone();
        Arc::new(move |name| {
            let newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
            let secret = newest.as_ref().and_then(|s| s.tables.secrets.get(name));
            secret.is_some_and(|secret| !acme::is_ours(&secret.meta.labels))
        })
    }

    /// The ConfigMap, whenever it is another.
    pub(super) fn told(&self) -> watch::Receiver<Option<Arc<Object<ConfigMap>>>> {
        self.told.subscribe()
    }

    /// The revision since which a token is answered; `None` before.
    pub(super) fn since(&self, token: &str) -> Option<u64> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens
            .values()
            .find_map(|of_order| of_order.get(token).copied())
    }
}
