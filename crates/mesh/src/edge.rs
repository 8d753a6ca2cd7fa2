//! What rules of an edge ask of gateways beside routes: filters, and clusters that stand in for others.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::edge::{ExternalAuth, McpEntry, Need, Outside, Rpc};
use model::object::ObjectName;
use proto_istio::networking::Destination;
use store::Snapshot;

use crate::gateways::{GatewayKey, MergedGatewayOf};
use crate::services::OfHost;
use crate::virtual_service::{ResolvedVirtualService, VirtualServiceOf, VirtualServicesFor};

/// What a rule asks of gateways.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Filters.
    pub needs: BTreeSet<Need>,
    /// The clusters that another one stands in for where they have nobody who answers.
    pub standins: BTreeSet<Standin>,
    /// The clusters whose endpoints are sent calls of Dubbo.
    pub calls: BTreeSet<Calls>,
    /// The services outside of the mesh that decide about requests.
    pub outside: BTreeSet<Outside>,
    /// What Higress's filter for MCP is told, by the names of routes.
    pub entries: BTreeSet<(String, McpEntry)>,
    /// The routes that ask for what only some proxies can do.
    pub by: BTreeSet<(Need, Asker)>,
}

/// A route that asks for something.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Asker {
    /// The VirtualService.
    pub rule: ObjectName,
    /// The route's name.
    pub route: String,
}

impl Asked {
    fn add(&mut self, other: &Self) {
        self.needs.extend(&other.needs);
        self.standins.extend(other.standins.iter().cloned());
        self.calls.extend(other.calls.iter().cloned());
        self.outside.extend(other.outside.iter().cloned());
        self.entries.extend(other.entries.iter().cloned());
        self.by.extend(other.by.iter().cloned());
    }
}

/// A cluster whose endpoints are sent calls of Dubbo: another one, spoken to in another way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Calls {
    /// The cluster.
    pub of: String,
}

impl Calls {
    /// The name of the cluster.
    pub fn name(&self) -> String {
        format!("dubbo;{}", self.of)
    }
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

fn cluster(port: u32, subset: &str, host: &str) -> String {
    format!("outbound|{port}|{subset}|{host}")
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
        let standin = Standin {
            first: cluster(port.number, &destination.subset, &destination.host),
            then: cluster(fallback.port.into(), "", &fallback.host),
        };
        (standin.first != standin.then).then_some(standin)
    }

    /// Whether requests of the HTTP route at a place become calls.
    pub fn calls(&self, at: usize) -> bool {
        let asked = self.edge.get(&at).and_then(|asked| asked.rpc.as_ref());
        matches!(asked, Some(Rpc::Dubbo(_)))
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
        let mut asked = Asked::default();
        for (at, route) in &rule.edge {
            let needs = route.needs();
            let Some(http) = rule.spec.http.get(*at) else {
                continue;
            };
            let asker = Asker {
                rule: self.0.clone(),
                route: http.name.clone(),
            };
            let of_route = needs.iter().filter(|need| need.is_of_route());
            let by = of_route.map(|need| (*need, asker.clone()));
            asked.by.extend(by);
            let entry = route.mcp.as_ref().and_then(|mcp| mcp.entry.clone());
            let entry = entry.map(|entry| (http.name.clone(), entry));
            asked.entries.extend(entry);
            asked.needs.extend(needs);
            let external = route.external.as_ref();
            asked
                .outside
                .extend(external.and_then(ExternalAuth::outside));
            for to in http.route.iter().filter_map(|r| r.destination.as_ref()) {
                asked.standins.extend(rule.standin(*at, to));
                if rule.calls(*at) {
                    let ports = ports_of(cx, to).into_iter();
                    let of = ports.map(|port| cluster(port, &to.subset, &to.host));
                    asked.calls.extend(of.map(|of| Calls { of }));
                }
            }
        }
        Arc::new(asked)
    }
}

/// The port of a destination; where it states none, those that are the only ones of services of its host.
fn ports_of(cx: &Cx<'_, Snapshot>, to: &Destination) -> Vec<u32> {
    if let Some(port) = &to.port {
        return vec![port.number];
    }
    let services = cx.query(&OfHost(to.host.as_str().into()));
    let only = services.iter().filter_map(|service| match &*service.ports {
        [only] => Some(u32::from(only.number)),
        _ => None,
    });
    only.collect()
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
            all.add(&cx.query(&AskedBy(rule.name.clone())));
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
            all.add(&cx.query(&AskedFor(VirtualServicesFor {
                namespace: self.0.namespace.clone(),
                gateway: gateway.clone(),
            })));
        }
        Some(Arc::new(all))
    }
}
