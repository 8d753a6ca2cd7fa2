//! What Gateways are charged to the budget of their namespace.

use incr::{Cx, Query};
use model::budget::rounded;
use model::kinds::istio::Gateway;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use store::{Reads, Snapshot};

use crate::budget::{Charge, Names, outside};
use crate::limits::product;

/// What a server is charged: a listener or a filter chain with all that policies say, and a configuration of routes.
const SERVER_BYTES: usize = 8 << 10;

/// What a host of a server is charged.
const HOST_BYTES: usize = 256;

/// The Gateways of a namespace that are over its budget: none of their servers is served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GatewaysOver(pub Namespace);

impl Query<Snapshot> for GatewaysOver {
    type Value = Names;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Names {
        let names = cx.names_in::<Gateway>(&self.0).into_iter();
        let charges = names.map(|name| (*cx.query(&GatewayCharge(name.clone())), name));
        outside(cx, charges, |_| 0)
    }
}

/// Whether a Gateway is over the budget.
pub(super) fn gateway_is_over(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>) -> bool {
    gateway.meta.derived.is_none()
        && cx
            .query(&GatewaysOver(gateway.namespace().clone()))
            .contains(&gateway.meta.name)
}

/// What a Gateway that somebody wrote is charged, from the first byte: what each makes stands in the listeners of proxies that
/// others share, however small it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct GatewayCharge(ObjectName);

impl Query<Snapshot> for GatewayCharge {
    type Value = Charge;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Charge {
        let gateway = cx.get::<Gateway>(&self.0);
        let Some(gateway) = gateway.filter(|gateway| gateway.meta.derived.is_none()) else {
            return Charge::default();
        };
        let servers = &gateway.spec.servers;
        let hosts: usize = servers.iter().map(|server| server.hosts.len()).sum();
        let made = product([servers.len(), SERVER_BYTES]);
        let made = made.saturating_add(product([hosts, HOST_BYTES]));
        Charge::of(&gateway, rounded(made))
    }
}
