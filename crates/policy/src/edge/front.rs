//! What stands before the gateways of an edge, as the ConfigMap of ingress-nginx says that the operator names.

use incr::{Cx, Query};
use mesh::gateways::{GatewayKey, MergedGatewayOf};
use model::edge::Front;
use model::kinds::kube::ConfigMap;
use store::{Reads, Snapshot};

/// What stands before the proxies that serve these Gateways; nothing is said where no Gateway is of an edge.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FrontOf(pub GatewayKey);

impl Query<Snapshot> for FrontOf {
    type Value = Front;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Front {
        let Some(name) = cx.settings().features.edge_nginx_config_map.object() else {
            return Front::default();
        };
        let merged = cx.query(&MergedGatewayOf(self.0.clone()));
        if !merged.as_ref().as_ref().is_some_and(|merged| merged.edge) {
            return Front::default();
        }
        let Some(map) = cx.get::<ConfigMap>(&name) else {
            return Front::default();
        };
        Front::of(|option| map.spec.data.get(option).map(|value| &**value))
    }
}
