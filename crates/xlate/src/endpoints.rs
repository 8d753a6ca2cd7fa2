//! Endpoints of clusters (EDS).
//!
//! ```text
//! EndpointsOf ─▶ ServiceAssignments{service, rule, client} ─┐ one resource for each EDS cluster of the service
//!                                                           ├▶ SharedAssignments{scope, client} ─▶ set of a view
//! ScopeOf ──────────────────────────────────────────────────┘
//! ```
//!
//! The client of an assignment is reduced to what decides on it ([`EndpointClient`]), so most assignments are shared by
//! all proxies of a cluster.

pub(crate) mod client;
pub(crate) mod groups;
pub(crate) mod locality;
pub(crate) mod network;
mod peers;
pub(crate) mod select;

use std::sync::Arc;

use incr::{Cx, Query};
use model::node::Role;
use model::protocol::Protocol;
use proto_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use store::{Reads, Snapshot};

pub(crate) use client::EndpointClient;
pub use network::{Gateway, Gateways, NetworkGateways};

use crate::clusters::{self, Outbound, ServiceKeyed, Shared, names};
use crate::destination_rule::{MergedRule, Policy, RuleKey, rule_for_all};
use crate::resource::{Resource, ResourceSet};
use crate::scope::{ScopeKey, ScopeOf};
use crate::view::View;
use groups::Group;
use locality::LocalityLb;
use select::{By, Known, Selection};

/// Endpoints that proxies of a view should have: an assignment for each of its EDS clusters.
pub fn set(cx: &Cx<'_, Snapshot>, view: &View) -> ResourceSet {
    let outbound = Outbound::of(cx, view);
    let client = Arc::new(EndpointClient::anywhere(view, outbound.multi_network));
    let peers = peers::Peers::of(view, &client);
    let shared = cx.query(&SharedAssignments {
        scope: outbound.key.clone(),
        client,
        sni: outbound.sni,
        role: view.role,
    });
    if shared.own.is_empty() && peers.is_none() {
        return shared.set.clone();
    }
    let mut resources = shared.set.to_vec();
    resources.extend(peers.map(|peers| (*cx.query(&peers)).clone()));
    for service in shared.own.iter() {
        let rule = outbound.rule(cx, view, service);
        let assignments = cx.query(&ServiceAssignments {
            client: outbound.endpoint_client(cx, view, service, rule.as_ref()),
            service: ServiceKeyed(service.clone()),
            rule,
            sni: outbound.sni,
        });
        resources.extend(assignments.iter().cloned());
    }
    ResourceSet::new(resources)
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
        let mut shared = Vec::new();
        let mut own = Vec::new();
        for service in scope.services.iter() {
            if !clusters::uses_eds(cx.settings(), service, self.role) {
                continue;
            }
            let rule = rule_for_all(cx, &self.scope.namespace, &service.namespace, &service.host);
            match rule {
                Ok(rule)
                    if !EndpointClient::place_decides(cx.settings(), service, rule.as_deref()) =>
                {
                    let assignments = cx.query(&ServiceAssignments {
                        service: ServiceKeyed(service.clone()),
                        rule: rule.map(RuleKey),
                        client: self.client.clone(),
                        sni: self.sni,
                    });
                    shared.extend(assignments.iter().cloned());
                }
                _ => own.push(service.clone()),
            }
        }
        Arc::new(Shared {
            set: ResourceSet::new(shared),
            own: own.into(),
        })
    }
}

/// The assignments of every EDS cluster of a service that has such, for one kind of client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ServiceAssignments {
    pub(crate) service: ServiceKeyed,
    pub(crate) rule: Option<RuleKey>,
    pub(crate) client: Arc<EndpointClient>,
    /// Whether there are clusters that pass TLS through by SNI.
    pub(crate) sni: bool,
}

impl Query<Snapshot> for ServiceAssignments {
    type Value = Arc<[Arc<Resource>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let service = &self.service.0;
        let rule = self.rule.as_ref().map(|r| &*r.0);
        let names = cluster_names(self, rule);
        if names.is_empty() {
            return Arc::from([]);
        }
        let known = Known::read(cx, service);
        let settings = cx.settings();
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
                let mut groups = selection.groups(name.port, name.subset, By::Name);
                if name.sni {
                    select::only_mutual_tls(&mut groups);
                }
                let policy = Policy::of_rule(rule, name.subset, name.port.number);
                let wanted = policy.and_then(|p| p.load_balancer);
                let outlier = policy.is_some_and(|p| p.outlier_detection.is_some());
                if let Some(lb) = LocalityLb::of(&settings.mesh, wanted, service) {
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
            names::outbound_sni
        } else {
            names::outbound
        };
        name(self.port.number, self.subset, &self.service.host)
    }
}

fn cluster_names<'a>(
    key: &'a ServiceAssignments,
    rule: Option<&'a MergedRule>,
) -> Vec<EdsName<'a>> {
    let service = &*key.service.0;
    let mut found = Vec::new();
    for port in service.ports.iter() {
        let whole = Policy::of_rule(rule, "", port.number);
        if port.protocol == Protocol::Udp || clusters::lets_pass(whole) {
            continue;
        }
        let subsets = rule.iter().flat_map(|r| r.spec().subsets.iter());
        let subsets = subsets.map(|s| s.name.as_str());
        for subset in std::iter::once("").chain(subsets) {
            if clusters::lets_pass(Policy::of_rule(rule, subset, port.number)) {
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
    let message = ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: groups::encode(groups),
        ..ClusterLoadAssignment::default()
    };
    Resource::encode(cluster, &message)
}
