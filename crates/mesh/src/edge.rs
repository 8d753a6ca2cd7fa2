//! What rules of an edge ask of gateways beside routes: filters, and clusters that stand in for others.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::edge::Need;
use model::object::ObjectName;
use proto_istio::networking::Destination;
use store::Snapshot;

use crate::gateways::{GatewayKey, MergedGatewayOf};
use crate::virtual_service::{ResolvedVirtualService, VirtualServiceOf, VirtualServicesFor};

/// What a rule asks of gateways.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Filters.
    pub needs: BTreeSet<Need>,
    /// The clusters that another one stands in for where they have nobody who answers.
    pub standins: BTreeSet<Standin>,
}

/// A cluster with one that stands in for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Standin {
    /// The cluster that is asked first.
    pub first: String,
    /// The cluster that is asked where the first has nobody who answers.
    pub then: String,
}

impl Standin {
    /// The name of the cluster that is both.
    pub fn name(&self) -> String {
        format!("fallback;{};{}", self.first, self.then)
    }
}

impl ResolvedVirtualService {
    /// The cluster that stands in for that of a destination of the HTTP route at a place, if the route asks for one. Routes
    /// of an edge state ports.
    pub fn standin(&self, at: usize, destination: &Destination) -> Option<Standin> {
        let fallback = self.edge.get(&at)?.fallback.as_ref()?;
        let port = destination
            .port
            .as_ref()
            .filter(|_| fallback.if_unavailable)?;
        let of = |port: u32, subset: &str, host: &str| format!("outbound|{port}|{subset}|{host}");
        let standin = Standin {
            first: of(port.number, &destination.subset, &destination.host),
            then: of(fallback.port.into(), "", &fallback.host),
        };
        (standin.first != standin.then).then_some(standin)
    }
}

/// What a rule asks of gateways.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AskedBy(ObjectName);

impl Query<Snapshot> for AskedBy {
    type Value = Arc<Asked>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Asked> {
        let rule = cx.query(&VirtualServiceOf(self.0.clone()));
        let Some(rule) = rule.as_ref() else {
            return Arc::default();
        };
        let places = rule.edge.iter();
        let standins = rule.edge.keys().flat_map(|at| {
            let routes = rule.spec.http.get(*at).into_iter().flat_map(|h| &h.route);
            let destinations = routes.filter_map(|r| r.destination.as_ref());
            destinations.filter_map(|destination| rule.standin(*at, destination))
        });
        Arc::new(Asked {
            needs: places.flat_map(|(_, route)| route.needs()).collect(),
            standins: standins.collect(),
        })
    }
}

/// What the rules of one gateway ask for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AskedFor(VirtualServicesFor);

impl Query<Snapshot> for AskedFor {
    type Value = Arc<Asked>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Asked> {
        let rules = cx.query(&self.0);
        let mut all = Asked::default();
        for rule in rules.in_order().into_iter().flatten() {
            let asked = cx.query(&AskedBy(rule.name.clone()));
            all.needs.extend(&asked.needs);
            all.standins.extend(asked.standins.iter().cloned());
        }
        Arc::new(all)
    }
}

/// What the rules of all Gateways of a proxy ask for; `None` where none of them is of an edge.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AskedOf(pub GatewayKey);

impl Query<Snapshot> for AskedOf {
    type Value = Option<Arc<Asked>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let merged = cx.query(&MergedGatewayOf(self.0.clone()));
        let merged = (*merged).as_ref().filter(|merged| merged.edge)?;
        let mut all = Asked::default();
        for gateway in merged.names() {
            let asked = cx.query(&AskedFor(VirtualServicesFor {
                namespace: self.0.namespace.clone(),
                gateway: gateway.clone(),
            }));
            all.needs.extend(&asked.needs);
            all.standins.extend(asked.standins.iter().cloned());
        }
        Some(Arc::new(all))
    }
}
