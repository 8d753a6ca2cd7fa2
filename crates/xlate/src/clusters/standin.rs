//! Clusters that are another one, and a further one where that has nobody who answers.

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::capabilities::Loadable;
use mesh::edge::{AskedOf, Standin};
use mesh::gateways::{self, GatewayKey};
use mesh::proxy::Traits;
use mesh::proxy_options;
use model::node::Role;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CustomClusterType, LbPolicy,
};
use proto_envoy::envoy::extensions::clusters::aggregate::v3::ClusterConfig;
use store::Snapshot;
use xds::{Resource, any};

use crate::judged;

/// Clusters made of others.
const AGGREGATE: &str = "envoy.clusters.aggregate";
/// Nothing is connected by such a cluster itself; Envoy wants some time.
const CONNECT_SECONDS: u64 = 10;

/// The Gateways of a proxy that may have such clusters.
pub(super) fn gateway(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Option<GatewayKey> {
    let can = proxy.node.role == Role::Router && Loadable::of(proxy).has(AGGREGATE);
    can.then(|| gateways::key_of(cx, proxy))
}

/// The clusters that the rules of these Gateways ask for.
pub(super) fn clusters(cx: &Cx<'_, Snapshot>, gateway: &GatewayKey) -> Vec<Arc<Resource>> {
    let asked = cx.query(&AskedOf(gateway.clone()));
    let standins = asked.iter().flat_map(|asked| &asked.standins);
    standins
        .filter_map(|standin| (*cx.query(&StandinCluster(standin.clone()))).clone())
        .collect()
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct StandinCluster(Standin);

impl Query<Snapshot> for StandinCluster {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, _: &Cx<'_, Snapshot>) -> Self::Value {
        let config = ClusterConfig {
            clusters: vec![self.0.first.clone(), self.0.then.clone()],
        };
        let cluster = Cluster {
            name: self.0.name(),
            connect_timeout: Some(proxy_options::seconds(CONNECT_SECONDS)),
            lb_policy: LbPolicy::ClusterProvided as i32,
            cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
                name: AGGREGATE.to_owned(),
                typed_config: Some(any(&config)),
            })),
            ..Cluster::default()
        };
        judged::cluster(&cluster, Vec::new())
    }
}
