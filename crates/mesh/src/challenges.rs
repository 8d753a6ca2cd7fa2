//! Answers to challenges of certificate authorities that gateways give, from the Secrets of orders ([`model::challenges`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::challenges::{ANSWERS, Answer, LABEL, ORDER, answers};
use model::kinds::kube::Secret;
use store::{Reads, Snapshot};

/// The answers of all orders, by host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Challenges;

impl Query<Snapshot> for Challenges {
    type Value = Arc<BTreeMap<Arc<str>, Vec<Answer>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut by_host: BTreeMap<Arc<str>, Vec<Answer>> = BTreeMap::new();
        for secret in cx.list_in::<Secret>(&cx.settings().features.edge_namespace) {
            let is_order = secret.meta.labels.get(LABEL).is_some_and(|l| *l == *ORDER);
            if !is_order || secret.meta.name.cluster.is_some() {
                continue;
            }
            let kept = secret.spec.data.get(ANSWERS);
            for answer in kept.iter().flat_map(|kept| answers(kept)) {
                let of_host = by_host.entry(answer.host.clone()).or_default();
                if !of_host.contains(&answer) {
                    of_host.push(answer);
                }
            }
        }
        Arc::new(by_host)
    }
}
