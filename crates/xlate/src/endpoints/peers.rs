//! The endpoints that are like the proxy itself: what zone-aware routing compares the zones of a service with.
//!
//! Istio: pilot/pkg/xds/endpoints/endpoint_builder.go (`isSelfDiscoveryCluster`), 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::proxy::Traits;
use store::{Reads, Snapshot};
use xds::Resource;

use super::{ServiceKeyed, encode};
use crate::load_assignment::EndpointClient;
use crate::load_assignment::groups::Target;
use crate::load_assignment::select::{By, Known, Selection};

/// The name of the cluster in bootstraps of proxies that discover themselves.
const LOCAL_CLUSTER: &str = "local_cluster";
/// Pods of one template are balanced alike; those of others need not be.
const TEMPLATES: [&str; 2] = ["pod-template-hash", "rollouts-pod-template-hash"];

/// The endpoints of the first service of a proxy that run the same workload in the same region.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Peers {
    /// The service and its port; `None` where the workload serves none.
    service: Option<(ServiceKeyed, u16)>,
    workload: Arc<str>,
    region: Arc<str>,
    templates: [Arc<str>; 2],
}

impl Peers {
    /// Those of a proxy, if it discovers itself.
    pub(super) fn of(proxy: &Traits<'_>) -> Option<Self> {
        if !proxy.flag("ENABLE_SELF_DISCOVERY") {
            return None;
        }
        let first = proxy.targets.first();
        let label = |name: &str| Arc::from(proxy.labels.get(name).unwrap_or_default());
        Some(Self {
            service: first.map(|t| (ServiceKeyed(t.service.clone()), t.port.number)),
            workload: proxy.text("WORKLOAD_NAME").unwrap_or_default().into(),
            region: proxy.locality.region.clone(),
            templates: TEMPLATES.map(label),
        })
    }
}

/// Those endpoints as a client sees them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PeersFor {
    pub(super) peers: Peers,
    pub(super) client: Arc<EndpointClient>,
}

impl Query<Snapshot> for PeersFor {
    type Value = Arc<Resource>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Resource> {
        let nothing = || Arc::new(encode(LOCAL_CLUSTER, &[]));
        let peers = &self.peers;
        let Some((service, port)) = &peers.service else {
            return nothing();
        };
        let service = &*service.0;
        let Some(port) = service.ports.iter().find(|p| p.number == *port) else {
            return nothing();
        };
        let known = Known::read(cx, service);
        let selection = Selection {
            service,
            rule: None,
            client: &self.client,
            settings: cx.settings(),
            known: &known,
        };
        let mut groups = selection.groups(port, "", By::Name);
        groups.retain_mut(|group| {
            group.members.retain(|member| match member.target {
                Target::Gateway(_) => false,
                Target::Workload(endpoint) => {
                    let label = |name: &str| endpoint.labels.get(name).unwrap_or_default();
                    endpoint.workload == peers.workload
                        && TEMPLATES.map(label) == peers.templates.each_ref().map(|t| &**t)
                        && (peers.region.is_empty() || endpoint.locality.region == peers.region)
                }
            });
            group.weigh();
            !group.members.is_empty()
        });
        Arc::new(encode(LOCAL_CLUSTER, &groups))
    }
}
