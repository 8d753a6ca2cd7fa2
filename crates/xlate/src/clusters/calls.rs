//! Clusters whose endpoints are sent calls of Dubbo: each is another one, spoken to in another way, so that requests of HTTP may
//! go to the same service.

use std::sync::Arc;

use incr::Cx;
use mesh::capabilities::Loadable;
use mesh::edge::{AskedOf, Calls};
use mesh::gateways::{self, GatewayKey};
use mesh::proxy::Traits;
use model::edge::Need;
use model::node::Role;
use policy::edge::{Can, dubbo_upstream};
use prost::Message;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use store::Snapshot;
use xds::{Resource, ResourceSet};

use crate::judged;

/// The Gateways of a proxy that can send such calls.
pub(super) fn gateway(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Option<GatewayKey> {
    let can = proxy.node.role == Role::Router && Can::of(&Loadable::of(proxy)).does(Need::Rpc);
    can.then(|| gateways::key_of(cx, proxy))
}

/// The clusters that the rules of these Gateways ask for, made of those that there are.
pub(super) fn clusters(
    cx: &Cx<'_, Snapshot>,
    gateway: &GatewayKey,
    all: &ResourceSet,
) -> Vec<Arc<Resource>> {
    let asked = cx.query(&AskedOf(gateway.clone()));
    let calls = asked.iter().flat_map(|asked| &asked.calls);
    calls
        .filter_map(|calls| {
            let cluster = all.get(&calls.of)?;
            made_of(calls, cluster)
        })
        .collect()
}

fn made_of(calls: &Calls, resource: &Resource) -> Option<Arc<Resource>> {
    let mut cluster = Cluster::decode(&*resource.body).ok()?;
    if let Some(eds) = &mut cluster.eds_cluster_config
        && eds.service_name.is_empty()
    {
        eds.service_name.clone_from(&cluster.name);
    }
    cluster.name = calls.name();
    cluster.upstream_config = Some(dubbo_upstream());
    // What is said of HTTP is said of other connections.
    cluster.typed_extension_protocol_options.clear();
    judged::cluster(&cluster, Vec::new())
}
