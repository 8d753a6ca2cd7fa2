//! Clusters as istioctl and metrics show them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::names::ClusterId;
use serde_json::{Value, json};

use crate::supervisor::SourceStatus;

/// What a cluster may be, in Istio's words.
pub const STATES: [&str; 4] = ["synced", "syncing", "timeout", "closed"];

fn state(status: &SourceStatus) -> &'static str {
    match (status.was_in_sync, status.is_late) {
        (true, _) => STATES[0],
        (false, false) => STATES[1],
        (false, true) => STATES[2],
    }
}

/// Every remote cluster with its state.
pub fn statuses(sources: &[SourceStatus]) -> BTreeMap<ClusterId, &'static str> {
    let remote = sources.iter().filter_map(|status| {
        let cluster = status.owner.cluster.clone()?;
        Some((cluster, state(status)))
    });
    remote.collect()
}

/// The clusters as `istioctl remote-clusters` reads them: the configured one first, which no Secret names.
///
/// Istio: pkg/cluster/debug.go, pkg/kube/multicluster/secretcontroller.go, 1.32.
pub fn clusterz(
    configured: &str,
    sources: &[SourceStatus],
    holders: &BTreeMap<ClusterId, Arc<str>>,
) -> Value {
    let mut own = sources.iter().filter(|s| s.owner.cluster.is_none());
    let own = if own.all(|s| s.was_in_sync) {
        STATES[0]
    } else {
        STATES[1]
    };
    let own = json!({"id": configured, "secretName": "", "syncStatus": own});
    // One that is being removed has no holder any more.
    let remote = statuses(sources).into_iter().filter_map(|(id, state)| {
        let holder = holders.get(&id)?;
        Some(json!({"id": id.as_str(), "secretName": &**holder, "syncStatus": state}))
    });
    std::iter::once(own).chain(remote).collect()
}
