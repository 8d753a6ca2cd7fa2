//! The TCP and TLS chains of a service, by the rules about it or straight to it.
//!
//! Istio: pilot/pkg/networking/core/tls.go, 1.32.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use incr::Cx;
use model::host::Hostname;
use model::labels::Labels;
use model::names::Namespace;
use model::object::ObjectName;
use model::service::{Port, Registry, Resolution, Service};
use proto_istio::networking::{LoadBalancerSettings, RouteDestination};
use store::Snapshot;

use super::entry::TcpChains;
use super::matching::Matching;
use crate::clusters::names;
use crate::destination_rule::{self, Client, MergedRule, Side};
use crate::listeners::address::{WILDCARD_V4, WILDCARD_V6, wildcards};
use crate::listeners::tcp::{Policy, Proxy, Upstream};
use crate::routes::alternative_hosts;
use crate::scope::{ScopeKey, ScopeOf, SidecarScope};
use crate::view::Families;
use crate::virtual_service::{MESH, Rule, RuleOf};

/// What the chains of a service depend on besides the service: the proxy as a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ClientKey {
    /// Namespace.
    pub(super) namespace: Namespace,
    /// Labels; empty where no rule looks at them.
    pub(super) labels: Labels,
    /// What it sees; `None` where no rule leads elsewhere.
    pub(super) scope: Option<ScopeKey>,
    /// IP families.
    pub(super) families: Families,
    /// DNS domain, relative to which names are short.
    pub(super) dns_domain: Arc<str>,
    /// Whether names may end in a dot.
    pub(super) absolute_names: bool,
    /// Pattern of the statistics names of clusters; empty for the cluster's own name.
    pub(super) stat_name: String,
}

/// A TCP chain, ready to be built.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct TcpChain {
    /// What it takes.
    pub(super) matching: Matching,
    /// The rule it was made from.
    pub(super) rule: Option<ObjectName>,
    /// Where it goes.
    pub(super) proxy: Proxy,
    /// The wildcard host whose names are resolved as the client states them.
    pub(super) resolves: Option<Hostname>,
}

/// The chains of a service's port.
pub(super) fn expand(
    cx: &Cx<'_, Snapshot>,
    client: &ClientKey,
    wanted: &TcpChains,
) -> Vec<TcpChain> {
    let rules: Vec<Arc<Rule>> = wanted
        .rules
        .iter()
        .filter_map(|name| (*cx.query(&RuleOf(name.clone()))).clone())
        .collect();
    let scope = client
        .scope
        .as_ref()
        .map(|key| (*cx.query(&ScopeOf(key.clone()))).clone());
    let expansion = Expansion {
        cx,
        client,
        wanted,
        scope,
    };
    if wanted.protocol().is_tls() {
        expansion.tls(&rules)
    } else {
        expansion.tcp(&rules)
    }
}

struct Expansion<'a> {
    cx: &'a Cx<'a, Snapshot>,
    client: &'a ClientKey,
    wanted: &'a TcpChains,
    scope: Option<Arc<SidecarScope>>,
}

/// The parts of a match that are decided here rather than by the proxy.
struct Static<'a> {
    gateways: &'a [String],
    labels: &'a BTreeMap<String, String>,
    port: u32,
    namespace: &'a str,
}

impl Expansion<'_> {
    fn tls(&self, rules: &[Arc<Rule>]) -> Vec<TcpChain> {
        let mut chains = Vec::new();
        // The first of several matches that a proxy cannot tell apart wins.
        let mut seen = HashSet::new();
        let mut ranges = self.ranges();
        for rule in rules {
            for route in rule.spec.tls.iter().filter(|r| !r.route.is_empty()) {
                for stated in &route.r#match {
                    let applies = self.applies(&Static {
                        gateways: &stated.gateways,
                        labels: &stated.source_labels,
                        port: stated.port,
                        namespace: &stated.source_namespace,
                    });
                    if !applies {
                        continue;
                    }
                    if !stated.destination_subnets.is_empty() && self.wanted.port.number > 0 {
                        ranges.clone_from(&stated.destination_subnets);
                    }
                    if seen.insert((&stated.sni_hosts, &stated.destination_subnets)) {
                        let matching = Matching {
                            server_names: stated.sni_hosts.clone(),
                            ranges: ranges.clone(),
                            detected_http: false,
                        };
                        chains.extend(self.routed(rule, &route.route, matching));
                    }
                }
            }
        }
        if chains.is_empty() {
            let server_names = self.server_names();
            chains.push(self.direct(Matching {
                server_names,
                ranges,
                detected_http: false,
            }));
        }
        chains
    }

    fn tcp(&self, rules: &[Arc<Rule>]) -> Vec<TcpChain> {
        let own = |server_names| Matching {
            server_names,
            ranges: self.ranges(),
            detected_http: false,
        };
        let mut chains = Vec::new();
        let mut covered = false;
        for rule in rules {
            for route in rule.spec.tcp.iter().filter(|r| !r.route.is_empty()) {
                if route.r#match.is_empty() {
                    chains.extend(self.routed(rule, &route.route, own(Vec::new())));
                    return chains;
                }
                let mut subnets = Vec::new();
                for stated in &route.r#match {
                    let applies = self.applies(&Static {
                        gateways: &stated.gateways,
                        labels: &stated.source_labels,
                        port: stated.port,
                        namespace: &stated.source_namespace,
                    });
                    if !applies {
                        continue;
                    }
                    if stated.destination_subnets.is_empty() || self.wanted.port.number == 0 {
                        chains.extend(self.routed(rule, &route.route, own(Vec::new())));
                        return chains;
                    }
                    subnets.extend(stated.destination_subnets.iter().cloned());
                }
                if subnets.is_empty() {
                    continue;
                }
                subnets.sort();
                let mut ranges = self.ranges();
                ranges.sort();
                // Envoy refuses two chains that take the same.
                covered |= subnets == ranges;
                let matching = Matching {
                    ranges: subnets,
                    ..Matching::default()
                };
                chains.extend(
                    self.routed(rule, &route.route, matching)
                        .map(|c| TcpChain { rule: None, ..c }),
                );
            }
        }
        if !covered {
            chains.push(self.direct(own(Vec::new())));
        }
        chains
    }

    /// The chain to the service itself.
    fn direct(&self, matching: Matching) -> TcpChain {
        let service = &self.wanted.service.0;
        // A listener on another port than the service's leads to the service's only port.
        let port = match &*service.ports {
            [only] => only.number,
            _ => self.wanted.port.number,
        };
        let cluster = names::outbound(port, "", &service.host);
        let bare = Port {
            name: Arc::from(""),
            number: port,
            protocol: self.wanted.protocol(),
        };
        let destination_rule = self.destination_rule(service);
        TcpChain {
            matching,
            rule: None,
            proxy: Proxy {
                stat_prefix: self.stat_prefix(service, "", &bare, &cluster),
                upstream: Upstream::Cluster(cluster),
                protocol: self.wanted.protocol(),
                policy: policy(destination_rule.as_deref(), ""),
            },
            resolves: (service.host.is_wildcard() && service.resolution == Resolution::DynamicDns)
                .then(|| service.host.clone()),
        }
    }

    /// The chain of a rule's route; `None` where every weight is zero.
    ///
    /// Istio: pilot/pkg/networking/core/networkfilter.go buildOutboundNetworkFilters, 1.32.
    fn routed(
        &self,
        rule: &Rule,
        routes: &[RouteDestination],
        matching: Matching,
    ) -> Option<TcpChain> {
        let first = routes.first()?.destination.as_ref()?;
        let service = self.service(&first.host);
        let destination_rule = service.as_ref().and_then(|s| self.destination_rule(s));
        let port = &self.wanted.port;
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
            let prefix = format!("{}.{}", rule.name.name, rule.name.namespace);
            let policy = policy(destination_rule.as_deref(), "");
            (prefix, Upstream::Weighted(weighted), policy)
        };
        Some(TcpChain {
            matching,
            rule: Some(rule.name.clone()),
            proxy: Proxy {
                stat_prefix,
                upstream,
                protocol: port.protocol,
                policy,
            },
            resolves: None,
        })
    }

    fn applies(&self, stated: &Static<'_>) -> bool {
        (stated.gateways.is_empty() || stated.gateways.iter().any(|g| g == MESH))
            && self.client.labels.matches_map(stated.labels)
            && (stated.port == 0 || stated.port == u32::from(self.wanted.port.number))
            && (stated.namespace.is_empty() || self.client.namespace == stated.namespace)
    }

    fn ranges(&self) -> Vec<String> {
        self.wanted.ranges.iter().map(ToString::to_string).collect()
    }

    /// The server names by which the service's connections are told from those of others: only where its address does
    /// not do that.
    fn server_names(&self) -> Vec<String> {
        let service = &self.wanted.service.0;
        let wildcard = wildcards(self.client.families)[0];
        let mut address: &str = &self.wanted.address;
        if address.contains('/') {
            address = "";
        }
        let only_v6 = self.client.families.v6 && !self.client.families.v4;
        if service.registry == Registry::External && only_v6 && address == WILDCARD_V4 {
            address = WILDCARD_V6;
        }
        let everywhere = address == wildcard && *self.wanted.bind == *wildcard;
        let resolves = service.host.is_wildcard() && service.resolution == Resolution::DynamicDns;
        if self.wanted.ranges.is_empty() && !address.is_empty() && !everywhere && !resolves {
            return Vec::new();
        }
        let mut names = vec![service.host.to_string()];
        for alias in service.aliases.iter() {
            names.push(alias.host.to_string());
            names.extend(alternative_hosts(
                &alias.host,
                &self.client.dns_domain,
                self.client.absolute_names,
            ));
        }
        names
    }

    fn service(&self, host: &str) -> Option<Arc<Service>> {
        self.scope.as_ref()?.service(host).cloned()
    }

    fn destination_rule(&self, service: &Service) -> Option<Arc<MergedRule>> {
        let client = Client {
            namespace: &self.client.namespace,
            labels: &self.client.labels,
            side: Side::Client,
        };
        destination_rule::rule_for(self.cx, client, &service.namespace, &service.host)
    }

    fn stat_prefix(&self, service: &Service, subset: &str, port: &Port, cluster: &str) -> String {
        match self.client.stat_name.as_str() {
            "" => cluster.to_owned(),
            pattern => names::stat_prefix(pattern, service, subset, port, 0),
        }
    }
}

/// The cluster of a destination.
///
/// Istio: pilot/pkg/networking/core/route/route.go GetDestinationCluster, 1.32.
pub(super) fn cluster(
    destination: &proto_istio::networking::Destination,
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
fn policy(rule: Option<&MergedRule>, subset: &str) -> Policy {
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
