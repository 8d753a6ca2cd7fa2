//! Which endpoints of a service a client gets for a port and subset.
//!
//! Istio: pilot/pkg/xds/endpoints/endpoint_builder.go, 1.32.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use incr::Cx;
use model::change::ServiceKey;
use model::names::Namespace;
use model::service::{Address, Endpoint, Health, Port, Service, TrafficDistribution};
use model::settings::Settings;
use proto_istio::networking::client_tls_settings::TlSmode;
use proto_istio::networking::{ClientTlsSettings, TrafficPolicy};
use store::Snapshot;

use super::client::EndpointClient;
use super::groups::{Group, Member, Target, is_draining};
use super::network::{Gateways, NetworkWays, in_network, split_horizon};
use mesh::destination_rule::{MergedDestinationRule, Policy, subset, top_policy};
use mesh::services::{EndpointsOf, is_cluster_local};
use policy::authn::{MutualTls, PeerPolicies, Peers};

/// Services with this label keep sessions with endpoints that are shutting down.
pub(crate) const PERSISTENT_SESSION: &str = "istio.io/persistent-session";

/// Everything that choosing endpoints of one service reads.
pub(crate) struct Selection<'a> {
    pub(crate) service: &'a Service,
    pub(crate) rule: Option<&'a MergedDestinationRule>,
    pub(crate) client: &'a EndpointClient,
    pub(crate) settings: &'a Settings,
    pub(crate) known: &'a Known,
}

/// What selections borrow from.
pub(crate) struct Known {
    pub(crate) endpoints: Arc<Arc<[Endpoint]>>,
    gateways: Arc<Arc<Gateways>>,
    /// The policies of every namespace that endpoints are in.
    peers: BTreeMap<Namespace, Arc<Arc<Peers>>>,
}

impl Known {
    pub(crate) fn read(cx: &Cx<'_, Snapshot>, service: &Service) -> Self {
        let endpoints = cx.query(&EndpointsOf(ServiceKey {
            namespace: service.namespace.clone(),
            host: service.host.clone(),
        }));
        let mut peers = BTreeMap::new();
        for endpoint in endpoints.iter().filter(|e| e.mutual_tls) {
            if !peers.contains_key(&endpoint.namespace) {
                let of_namespace = cx.query(&PeerPolicies(endpoint.namespace.clone()));
                peers.insert(endpoint.namespace.clone(), of_namespace);
            }
        }
        Self {
            endpoints,
            gateways: cx.query(&NetworkWays),
            peers,
        }
    }
}

/// How endpoints of a port are recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// By the port's name: what EDS does.
    Name,
    /// By the port's number where they have one: what clusters that carry their endpoints do.
    Number,
}

impl<'a> Selection<'a> {
    /// The endpoints of a port and subset, by locality in the order of their names.
    pub(crate) fn groups(&self, port: &Port, subset_name: &str, by: By) -> Vec<Group<'a>> {
        let labels = subset(self.rule, subset_name).map(|s| &s.labels);
        let policy = Policy::of_rule(self.rule, subset_name, port.number);
        let unhealthy = self.takes_unhealthy(policy);
        let tls = tls_mode(self.rule, subset_name, port.number);
        let local = is_cluster_local(self.settings, &self.service.host);

        let mut groups: Vec<Group<'a>> = Vec::new();
        for endpoint in self.known.endpoints.iter() {
            if !self.serves(endpoint, port, by)
                || labels.is_some_and(|l| !endpoint.labels.matches_map(l))
                || !self.visible(endpoint, by, unhealthy, local)
            {
                continue;
            }
            let member = Member {
                target: Target::Workload(endpoint),
                weight: endpoint.weight.max(1),
                mutual_tls: endpoint.mutual_tls && self.speaks_tls(endpoint, tls),
                all_addresses: self.settings.features.dual_stack,
            };
            // Localities are few: looking through them is cheaper than naming each.
            match groups.iter_mut().find(|g| *g.locality == endpoint.locality) {
                Some(group) => group.members.push(member),
                None => groups.push(Group {
                    locality: &endpoint.locality,
                    priority: 0,
                    weight: None,
                    members: vec![member],
                }),
            }
        }
        groups.sort_by_cached_key(|g| g.locality.to_string());
        for group in &mut groups {
            group.weigh();
        }
        split_horizon(groups, &self.known.gateways, self.client, by == By::Name)
    }

    fn serves(&self, endpoint: &Endpoint, port: &Port, by: By) -> bool {
        match by {
            By::Name => {
                (endpoint.port_name == port.name || self.service.picker.is_some())
                    && match &endpoint.address {
                        // Names cannot be sent. Empty addresses stand for gateways.
                        Address::Socket { hosts, port } => hosts.first().is_none_or(|host| {
                            host.is_empty() || *port == 0 || host.parse::<IpAddr>().is_ok()
                        }),
                        Address::Unix(_) => true,
                    }
            }
            By::Number if endpoint.service_port != 0 => endpoint.service_port == port.number,
            By::Number => endpoint.port_name == port.name,
        }
    }

    /// Istio: filterIstioEndpoint.
    fn visible(&self, endpoint: &Endpoint, by: By, unhealthy: bool, cluster_local: bool) -> bool {
        let client = self.client;
        let same_cluster = endpoint.cluster == client.cluster;
        if client
            .node
            .as_ref()
            .is_some_and(|node| *node != endpoint.node)
        {
            return false;
        }
        if client
            .networks
            .as_ref()
            .is_some_and(|seen| !endpoint.network.is_empty() && !seen.contains(&endpoint.network))
        {
            return false;
        }
        if cluster_local && !same_cluster {
            return false;
        }
        if endpoint.cluster_local
            && !same_cluster
            && !endpoint.cluster.is_empty()
            && !client.cluster.is_empty()
        {
            return false;
        }
        // Without an address there must be a gateway to go to.
        if endpoint.address.primary().is_empty()
            && (!self.known.gateways.any(by == By::Name) || in_network(client, &endpoint.network))
        {
            return false;
        }
        match endpoint.health {
            Health::Unhealthy if !unhealthy => return false,
            Health::Terminating => return false,
            _ => {}
        }
        !is_draining(endpoint) || has_label(self.service, PERSISTENT_SESSION)
    }

    /// Whether endpoints that are not ready are sent. They are kept from clients whose panic threshold would use them.
    ///
    /// Istio: supportsUnhealthyEndpoints.
    fn takes_unhealthy(&self, policy: Option<Policy<'_>>) -> bool {
        let outlier = policy.and_then(|p| p.outlier_detection);
        always_sends_unhealthy(self.settings, self.service)
            || self.settings.features.auto_send_unhealthy_endpoints
                && outlier.is_none_or(|o| o.min_health_percent <= 0)
    }

    /// Istio: pilot/pkg/xds/endpoints/mtls_checker.go, 1.32.
    fn speaks_tls(&self, endpoint: &Endpoint, rule: Option<TlSmode>) -> bool {
        match rule {
            Some(mode) => mode == TlSmode::IstioMutual,
            None => {
                let port = match &endpoint.address {
                    Address::Socket { port, .. } => *port,
                    Address::Unix(_) => 0,
                };
                let peers = self.known.peers.get(&endpoint.namespace);
                peers.is_none_or(|p| p.of_workload(&endpoint.labels, port) != MutualTls::Disable)
            }
        }
    }
}

/// Takes out what gets no mutual TLS: a gateway that passes TLS through must not lead to plain text.
///
/// Istio: EndpointsWithMTLSFilter.
pub(crate) fn only_mutual_tls(groups: &mut [Group<'_>]) {
    for group in groups {
        group.members.retain(|m| m.mutual_tls);
        group.weigh();
    }
}

pub(crate) fn has_label(service: &Service, name: &str) -> bool {
    service.labels.get(name).is_some_and(|v| !v.is_empty())
}

/// The TLS mode that a rule states for a port, of the subset first.
fn tls_mode(rule: Option<&MergedDestinationRule>, subset_name: &str, port: u16) -> Option<TlSmode> {
    fn of_policy(policy: Option<&TrafficPolicy>, port: u16) -> Option<&ClientTlsSettings> {
        let policy = policy?;
        let of_port = policy
            .port_level_settings
            .iter()
            .filter(|p| p.port.as_ref().is_some_and(|p| p.number == u32::from(port)))
            .find_map(|p| p.tls.as_ref());
        of_port.or(policy.tls.as_ref())
    }
    let top = || of_policy(top_policy(rule), port);
    let tls = if subset_name.is_empty() {
        top()
    } else {
        let subset = subset(rule, subset_name)?;
        of_policy(subset.traffic_policy.as_ref(), port).or_else(top)
    };
    TlSmode::try_from(tls?.mode).ok()
}

/// Whether endpoints that are not ready are sent for the service whatever its rules say.
///
/// Istio: pilot/pkg/model/service.go ForcesSupportUnhealthyEndpoints, 1.32.
pub fn always_sends_unhealthy(settings: &Settings, service: &Service) -> bool {
    settings.features.send_unhealthy_endpoints
        || service.kube.traffic_distribution != TrafficDistribution::Any
}
