//! Endpoints of clusters (EDS).
//!
//! ```text
//! EndpointsOf ─▶ ServiceAssignments{service, rule, client} ─┐ one resource for each EDS cluster of the service
//!                                                           ├▶ SharedAssignments{scope, client} ─▶ EndpointsOfClient
//! ScopeOf ──────────────────────────────────────────────────┘
//! ```
//!
//! The client of an assignment is reduced to what decides on it ([`EndpointClient`]), so most assignments are shared by
//! all proxies of a cluster.

mod peers;

use std::any::TypeId;
use std::sync::Arc;

use incr::{Changed, Cx, Query};
use mesh::cluster_names;
use mesh::destination_rule::{
    DestinationRuleKey, Extent, HasDestinationRules, MergedDestinationRule, Policy, rule_for_all,
};
use mesh::scope::{ScopeKey, ScopeOf};
use model::hash_table;
use model::names::Namespace;
use model::node::Role;
use model::protocol::Protocol;
use model::service::Service;
use proto_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use store::{Reads, Snapshot};

use crate::clusters::{self, Outbound, ServiceKeyed};
use crate::judged;
use crate::load_assignment::groups::{self, Group};
use crate::load_assignment::locality::LocalityLb;
use crate::load_assignment::select::{self, By, Known, Selection};
use crate::load_assignment::{EndpointClient, NetworkWays};
use crate::shared::{Gathering, Part, Shareable, Shared};
use mesh::proxy::Traits;
use peers::{Peers, PeersFor};
use xds::{Resource, ResourceSet};

/// Proxies that have the same endpoints.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EndpointsOfClient {
    outbound: Outbound,
    role: Role,
    /// Endpoints like the proxies themselves, if they discover those.
    peers: Option<Peers>,
}

impl EndpointsOfClient {
    /// What decides the endpoints of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            outbound: Outbound::of(cx, proxy),
            role: proxy.node.role,
            peers: Peers::of(proxy),
        }
    }

    /// Their endpoints: an assignment for each of their EDS clusters.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let outbound = &self.outbound;
        let multi_network = cx.query(&NetworkWays).any(false);
        let client = Arc::new(EndpointClient::anywhere(&outbound.place, multi_network));
        let shared = cx.query(&SharedAssignments {
            scope: outbound.scope.clone(),
            client: client.clone(),
            sni: outbound.sni,
            role: self.role,
        });
        let mut resources = Vec::new();
        if let Some(peers) = &self.peers {
            let (peers, client) = (peers.clone(), client);
            resources.push((*cx.query(&PeersFor { peers, client })).clone());
        }
        for service in shared.own.values() {
            let rule = outbound.rule(cx, service);
            let assignments = cx.query(&ServiceAssignments {
                client: outbound.endpoint_client(cx, service, rule.as_ref()),
                service: ServiceKeyed(service.clone()),
                rule,
                sni: outbound.sni,
            });
            resources.extend(assignments.iter().cloned());
        }
        shared.set.and(resources)
    }
}

/// The assignments of a scope that are the same wherever the client stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SharedAssignments {
    scope: ScopeKey,
    client: Arc<EndpointClient>,
    sni: bool,
    /// Gateways use EDS also for what sidecars let pass.
    role: Role,
}

impl Query<Snapshot> for SharedAssignments {
    type Value = Arc<Shared>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Shared> {
        let scope = cx.query(&ScopeOf(self.scope.clone()));
        let settings = cx.settings();
        let mut gathering = Gathering::default();
        for service in scope.services.iter() {
            if !clusters::uses_eds(settings, service, self.role, self.client.grpc) {
                continue;
            }
            if *cx.query(&HasDestinationRules(service.host.clone())) {
                let ruled = cx.query(&RuledAssignments {
                    namespace: self.scope.namespace.clone(),
                    service: ServiceKeyed(service.clone()),
                    client: self.client.clone(),
                    sni: self.sni,
                });
                match &*ruled {
                    Some(part) => gathering.share(part),
                    None => gathering.leave(service),
                }
            } else if EndpointClient::place_decides(settings, service, None) {
                gathering.leave(service);
            } else {
                gathering.share(&cx.query(&ServiceAssignments {
                    service: ServiceKeyed(service.clone()),
                    rule: None,
                    client: self.client.clone(),
                    sni: self.sni,
                }));
            }
        }
        gathering.finish()
    }

    fn has_members(ty: TypeId) -> bool {
        ty == TypeId::of::<ServiceAssignments>() || ty == TypeId::of::<RuledAssignments>()
    }

    fn update(&self, former: &Arc<Shared>, changed: &Changed<'_, Snapshot>) -> Option<Arc<Shared>> {
        Some(former.updated::<ServiceAssignments, RuledAssignments>(changed))
    }
}

/// The assignments of a service that rules concern, where all clients of a namespace have the same rule and it does not
/// matter where they stand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RuledAssignments {
    namespace: Namespace,
    service: ServiceKeyed,
    client: Arc<EndpointClient>,
    sni: bool,
}

impl Query<Snapshot> for RuledAssignments {
    type Value = Option<Part>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Part> {
        let service = &*self.service.0;
        let rule = rule_for_all(cx, &self.namespace, &service.namespace, &service.host).ok()?;
        if EndpointClient::place_decides(cx.settings(), service, rule.as_deref()) {
            return None;
        }
        let assignments = cx.query(&ServiceAssignments {
            service: self.service.clone(),
            rule: rule.map(DestinationRuleKey),
            client: self.client.clone(),
            sni: self.sni,
        });
        Some((*assignments).clone())
    }
}

impl Shareable for RuledAssignments {
    fn service(&self) -> &Arc<Service> {
        &self.service.0
    }
}

/// The assignments of every EDS cluster of a service that has such, for one kind of client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ServiceAssignments {
    pub(crate) service: ServiceKeyed,
    pub(crate) rule: Option<DestinationRuleKey>,
    pub(crate) client: Arc<EndpointClient>,
    /// Whether there are clusters that pass TLS through by SNI.
    pub(crate) sni: bool,
}

impl Query<Snapshot> for ServiceAssignments {
    type Value = Arc<[Arc<Resource>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let service = &self.service.0;
        let rule = self.rule.as_ref().map(|r| &*r.0);
        let extent = Extent::of(rule, service, 0);
        let names = cluster_names(self, rule, extent);
        if names.is_empty() {
            return Arc::from([]);
        }
        let known = Known::read(cx, service);
        // Clusters wait for their endpoints: those of a subset that has none are said to be none.
        let lists_subsets = extent.with_endpoints(rule, &known.endpoints) == Extent::All;
        let settings = cx.settings();
        let most_hashed = hash_table::most(clusters::cluster_count(service, rule));
        let selection = Selection {
            service,
            rule,
            client: &self.client,
            settings,
            known: &known,
        };
        names
            .into_iter()
            .map(|name| {
                if !name.subset.is_empty() && !lists_subsets {
                    return Arc::new(encode(&name.text(), &[]));
                }
                let mut groups = selection.groups(name.port, name.subset, By::Name);
                if name.sni {
                    select::only_mutual_tls(&mut groups);
                }
                let policy = Policy::of_rule(rule, name.subset, name.port.number);
                let wanted = policy.and_then(|p| p.load_balancer);
                let outlier = policy.is_some_and(|p| p.outlier_detection.is_some());
                let lb = LocalityLb::of(&settings.mesh, wanted, service);
                clusters::even_out(&mut groups, wanted, lb.as_ref(), most_hashed);
                if let Some(lb) = lb {
                    groups = lb.apply(groups, &self.client, outlier);
                }
                Arc::new(encode(&name.text(), &groups))
            })
            .collect()
    }
}

/// A cluster that gets its endpoints by EDS.
struct EdsName<'a> {
    service: &'a model::service::Service,
    port: &'a model::service::Port,
    subset: &'a str,
    sni: bool,
}

impl EdsName<'_> {
    fn text(&self) -> String {
        let name = if self.sni {
            cluster_names::outbound_sni
        } else {
            cluster_names::outbound
        };
        name(self.port.number, self.subset, &self.service.host)
    }
}

fn cluster_names<'a>(
    key: &'a ServiceAssignments,
    rule: Option<&'a MergedDestinationRule>,
    extent: Extent,
) -> Vec<EdsName<'a>> {
    let service = &*key.service.0;
    let mut found = Vec::new();
    if extent == Extent::Nothing {
        return found;
    }
    for port in service.cluster_ports() {
        let whole = Policy::of_rule(rule, "", port.number);
        // gRPC libraries let nothing pass.
        let lets_pass = |policy| !key.client.grpc && clusters::lets_pass(policy);
        if port.protocol == Protocol::Udp || lets_pass(whole) {
            continue;
        }
        let of_rule = rule.filter(|_| extent == Extent::All);
        let subsets = of_rule.iter().flat_map(|r| r.spec().subsets.iter());
        let subsets = subsets.map(|s| s.name.as_str());
        for subset in std::iter::once("").chain(subsets) {
            if lets_pass(Policy::of_rule(rule, subset, port.number)) {
                continue;
            }
            let name = EdsName {
                service,
                port,
                subset,
                sni: false,
            };
            if key.sni && !service.mesh_external {
                found.push(EdsName { sni: true, ..name });
            }
            found.push(name);
        }
    }
    found
}

fn encode(cluster: &str, groups: &[Group<'_>]) -> Resource {
    judged::assignment(ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: groups::encode(groups),
        ..ClusterLoadAssignment::default()
    })
}
