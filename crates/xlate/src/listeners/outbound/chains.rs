//! The TCP and TLS chains of a service, by the rules about it or straight to it.
//!
//! Istio: pilot/pkg/networking/core/tls.go, 1.32.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, KeyedSet};
use model::host::{Hostname, subset_of};
use model::labels::Labels;
use model::names::Namespace;
use model::object::ObjectName;
use model::service::{Port, Registry, Resolution};
use proto_istio::networking::RouteDestination;
use store::{Reads, Snapshot};

use super::entry::TcpChains;
use super::matching::Matching;
use crate::listeners::forward::{Forward, policy};
use crate::listeners::tcp::{Proxy, Upstream};
use crate::routes::alternative_hosts;
use mesh::address::{WILDCARD_V4, WILDCARD_V6, wildcards};
use mesh::cluster_names;
use mesh::root::is_root;
use mesh::scope::{ScopeKey, ScopeOf};
use mesh::view::Families;
use mesh::virtual_service::{
    MESH, RefusedVirtualService, ResolvedVirtualService, VirtualServiceOf,
};

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
    let rules: Vec<Arc<ResolvedVirtualService>> = wanted
        .rules
        .iter()
        .filter_map(|followed| match followed.refused {
            true => (*cx.query(&RefusedVirtualService(followed.rule.clone()))).clone(),
            false => (*cx.query(&VirtualServiceOf(followed.rule.clone()))).clone(),
        })
        .collect();
    let scope = client
        .scope
        .as_ref()
        .map(|key| (*cx.query(&ScopeOf(key.clone()))).clone());
    let expansion = Expansion {
        client,
        wanted,
        forward: Forward {
            cx,
            namespace: &client.namespace,
            labels: &client.labels,
            stat_name: &client.stat_name,
            scope,
        },
    };
    if wanted.protocol().is_tls() {
        expansion.tls(&rules)
    } else {
        expansion.tcp(&rules)
    }
}

struct Expansion<'a> {
    client: &'a ClientKey,
    wanted: &'a TcpChains,
    forward: Forward<'a>,
}

/// The parts of a match that are decided here rather than by the proxy.
struct Static<'a> {
    gateways: &'a [String],
    labels: &'a BTreeMap<String, String>,
    port: u32,
    namespace: &'a str,
}

impl Expansion<'_> {
    /// Whether a rule may take connections for names: where hosts have owners, a rule of another namespace may only for the
    /// service that it is about.
    fn may_take(&self, rule: &ResolvedVirtualService, names: &[String]) -> bool {
        let service = &self.wanted.service.0;
        let is_near = rule.made_from.is_some() || *rule.namespace() == self.client.namespace;
        is_near
            || !self.forward.cx.settings().features.owned_hosts
            || is_root(self.forward.cx, rule.namespace())
            || names.iter().all(|name| subset_of(name, &service.host))
    }

    fn tls(&self, rules: &[Arc<ResolvedVirtualService>]) -> Vec<TcpChain> {
        let mut chains = Vec::new();
        // The first of several matches that a proxy cannot tell apart wins.
        let mut seen = KeyedSet::default();
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
                    if !self.may_take(rule, &stated.sni_hosts) {
                        continue;
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
            // The address of an endpoint tells services apart without their names.
            let server_names = match self.wanted.by_endpoint {
                true => Vec::new(),
                false => self.server_names(),
            };
            chains.push(self.direct(Matching {
                server_names,
                ranges,
                detected_http: false,
            }));
        }
        chains
    }

    fn tcp(&self, rules: &[Arc<ResolvedVirtualService>]) -> Vec<TcpChain> {
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
        let cluster = cluster_names::outbound(port, "", &service.host);
        let bare = Port {
            name: Arc::from(""),
            number: port,
            protocol: self.wanted.protocol(),
        };
        let destination_rule = self.forward.destination_rule(service);
        TcpChain {
            matching,
            rule: None,
            proxy: Proxy {
                stat_prefix: self.forward.stat_prefix(service, "", &bare, &cluster),
                upstream: Upstream::Cluster(cluster),
                protocol: self.wanted.protocol(),
                policy: policy(destination_rule.as_deref(), ""),
            },
            resolves: (service.host.is_wildcard() && service.resolution == Resolution::DynamicDns)
                .then(|| service.host.clone()),
        }
    }

    /// The chain of a rule's route; `None` where every weight is zero.
    fn routed(
        &self,
        rule: &ResolvedVirtualService,
        routes: &[RouteDestination],
        matching: Matching,
    ) -> Option<TcpChain> {
        Some(TcpChain {
            matching,
            rule: Some(rule.name.clone()),
            proxy: self.forward.routed(&rule.name, routes, &self.wanted.port)?,
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
}
