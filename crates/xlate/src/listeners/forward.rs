//! Where TCP proxies send connections: straight to a service, or where a rule's route leads.
//!
//! Istio: pilot/pkg/networking/core/networkfilter.go, 1.32.

use std::sync::Arc;

use incr::Cx;
use model::labels::Labels;
use model::names::Namespace;
use model::object::ObjectName;
use model::service::{Port, Service};
use proto_istio::networking::{Destination, LoadBalancerSettings, RouteDestination};
use store::Snapshot;

use super::tcp::{Policy, Proxy, Upstream};
use mesh::cluster_names;
use mesh::destination_rule::{self, Client, MergedDestinationRule, Side};
use mesh::scope::SidecarScope;

/// A proxy as a client of the services behind it.
pub(super) struct Forward<'a> {
    pub(super) cx: &'a Cx<'a, Snapshot>,
    /// The proxy's namespace.
    pub(super) namespace: &'a Namespace,
    /// Its labels.
    pub(super) labels: &'a Labels,
    /// Pattern of the statistics names of clusters; empty for the cluster's own name.
    pub(super) stat_name: &'a str,
    /// What it sees; `None` where no rule leads elsewhere.
    pub(super) scope: Option<Arc<SidecarScope>>,
}

impl Forward<'_> {
    /// The TCP proxy of a rule's route on a port; `None` where every weight is zero.
    ///
    /// Istio: buildOutboundNetworkFilters.
    pub(super) fn routed(
        &self,
        rule: &ObjectName,
        routes: &[RouteDestination],
        port: &Port,
    ) -> Option<Proxy> {
        let first = routes.first()?.destination.as_ref()?;
        let service = self.service(&first.host);
        let destination_rule = service.as_ref().and_then(|s| self.destination_rule(s));
        let (stat_prefix, upstream, policy) = if let [_] = routes {
            let cluster = cluster(first, service.as_deref(), port.number);
            let prefix = match &service {
                Some(service) => self.stat_prefix(service, &first.subset, port, &cluster),
                None => cluster.clone(),
            };
            let policy = policy(destination_rule.as_deref(), &first.subset);
            (prefix, Upstream::Cluster(cluster), policy)
        } else {
            let weighted: Vec<(String, u32)> = routes
                .iter()
                .filter_map(|route| {
                    let weight = u32::try_from(route.weight).ok().filter(|w| *w > 0)?;
                    let destination = route.destination.as_ref()?;
                    let service = self.service(&destination.host);
                    let cluster = cluster(destination, service.as_deref(), port.number);
                    Some((cluster, weight))
                })
                .collect();
            if weighted.is_empty() {
                return None;
            }
            let prefix = format!("{}.{}", rule.name, rule.namespace);
            let policy = policy(destination_rule.as_deref(), "");
            (prefix, Upstream::Weighted(weighted), policy)
        };
        Some(Proxy {
            stat_prefix,
            upstream,
            protocol: port.protocol,
            policy,
        })
    }

    fn service(&self, host: &str) -> Option<Arc<Service>> {
        self.scope.as_ref()?.service(host).cloned()
    }

    /// The rule about a service.
    pub(super) fn destination_rule(&self, service: &Service) -> Option<Arc<MergedDestinationRule>> {
        let client = Client {
            namespace: self.namespace,
            labels: self.labels,
            side: Side::Client,
        };
        destination_rule::rule_for(self.cx, client, &service.namespace, &service.host)
    }

    /// The statistics prefix of a subset of a service, whose cluster is that.
    pub(super) fn stat_prefix(
        &self,
        service: &Service,
        subset: &str,
        port: &Port,
        cluster: &str,
    ) -> String {
        match self.stat_name {
            "" => cluster.to_owned(),
            pattern => cluster_names::stat_prefix(pattern, service, subset, port, 0),
        }
    }
}

/// The cluster of a destination.
///
/// Istio: pilot/pkg/networking/core/route/route.go GetDestinationCluster, 1.32.
pub(super) fn cluster(
    destination: &Destination,
    service: Option<&Service>,
    listener_port: u16,
) -> String {
    if destination.host.is_empty() {
        return "UnknownService".to_owned();
    }
    let alias = service.map(|s| &*s.kube.external_name);
    let host = alias
        .filter(|name| !name.is_empty())
        .unwrap_or(&destination.host);
    let only = service.and_then(|s| match &*s.ports {
        [only] => Some(u32::from(only.number)),
        _ => None,
    });
    let port = destination
        .port
        .as_ref()
        .map(|p| p.number)
        .or(only)
        .unwrap_or(u32::from(listener_port));
    format!("outbound|{port}|{}|{host}", destination.subset)
}

/// What a rule asks of TCP proxies towards a subset of its host.
pub(super) fn policy(rule: Option<&MergedDestinationRule>, subset: &str) -> Policy {
    let top = destination_rule::top_policy(rule);
    let own = destination_rule::subset(rule, subset).and_then(|s| s.traffic_policy.as_ref());
    let tcp = top
        .and_then(|p| p.connection_pool.as_ref())
        .and_then(|c| c.tcp.as_ref());
    let tunnel = if subset.is_empty() { top } else { own }.and_then(|p| p.tunnel.as_ref());
    let balancer = own
        .and_then(|p| p.load_balancer.as_ref())
        .or_else(|| top.and_then(|p| p.load_balancer.as_ref()));
    Policy {
        idle_timeout: tcp.and_then(|t| t.idle_timeout).map(|d| d.0),
        max_duration: tcp.and_then(|t| t.max_connection_duration).map(|d| d.0),
        hash_source_ip: balancer.is_some_and(hashes_source),
        tunnel: tunnel.map(|t| {
            let host = match t.target_host.contains(':') {
                true => format!("[{}]:{}", t.target_host, t.target_port),
                false => format!("{}:{}", t.target_host, t.target_port),
            };
            (host, t.protocol == "POST")
        }),
    }
}

fn hashes_source(balancer: &LoadBalancerSettings) -> bool {
    use proto_istio::networking::load_balancer_settings::LbPolicy::ConsistentHash;
    use proto_istio::networking::load_balancer_settings::consistent_hash_lb::HashKey;
    matches!(&balancer.lb_policy, Some(ConsistentHash(hash)) if matches!(hash.hash_key, Some(HashKey::UseSourceIp(true))))
}
