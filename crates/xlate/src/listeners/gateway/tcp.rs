//! TCP and TLS servers of Gateways: where rules lead their connections.
//!
//! Istio: pilot/pkg/networking/core/gateway.go createGatewayTCPFilterChainOpts, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mesh::cluster_names;
use mesh::destination_rule::Extent;
use mesh::gateways::{self, GatewayServer, Owners, OwnersAt, is_passthrough};
use mesh::scope::ScopeOf;
use mesh::virtual_service::{
    ResolvedVirtualService, Semantics, VirtualServiceHead, VirtualServiceOf, VirtualServicesFor,
};
use model::Kind;
use model::host::{server_name, subset_of};
use model::kinds::istio::VirtualService;
use model::protocol::Protocol;
use model::service::Port;
use prost::Message;
use proto_istio::networking::RouteDestination;
use proto_istio::networking::server_tls_settings::TlSmode as TlsMode;
use store::Reads;

use super::{Chain, Planning, Serves};
use crate::listeners::forward::{Forward, policy};
use crate::listeners::inbound::matching::MESH_ANY;
use crate::listeners::tcp::{Policy, Proxy, Upstream};

/// The server names that rules take, by port, with the address of the server.
pub(super) type Names = BTreeMap<u16, BTreeMap<String, String>>;

/// The chains of a server that does not speak HTTP.
pub(super) fn chains(
    planning: &Planning<'_>,
    server: &GatewayServer,
    listened: u16,
    names: &mut Names,
) -> Vec<Chain> {
    let spec = &server.server;
    let servers = Servers::new(planning, server);
    match spec.tls.as_ref().map(|tls| tls.mode()) {
        Some(TlsMode::AutoPassthrough) => servers.auto_passthrough(),
        _ if is_passthrough(spec) => servers.passthrough(names.entry(listened).or_default()),
        mode => {
            let chains = servers.terminated().into_iter();
            let chains = chains.map(|(server_names, proxy)| Chain {
                gateway: Some(server.gateway.clone()),
                server_names,
                alpn: &[],
                tls: planning.tls.of_server(server, false),
                serves: Serves::Tcp {
                    proxy,
                    exchange: mode == Some(TlsMode::IstioMutual),
                    guarded: true,
                    port: servers.port.number,
                },
            });
            chains.collect()
        }
    }
}

struct Servers<'a> {
    server: &'a GatewayServer,
    forward: Forward<'a>,
    planning: &'a Planning<'a>,
    /// Whose hosts are, where they have owners.
    owners: Option<Arc<Owners>>,
    /// The server's port as stated.
    port: Port,
}

impl<'a> Servers<'a> {
    fn new(planning: &'a Planning<'a>, server: &'a GatewayServer) -> Self {
        let (cx, proxy) = (planning.cx, planning.proxy);
        let stated = server.server.port.as_ref();
        Self {
            server,
            forward: Forward {
                cx,
                namespace: &proxy.parts.scope.namespace,
                labels: &proxy.labels,
                stat_name: planning.stat_name,
                scope: Some((*cx.query(&ScopeOf(proxy.parts.scope.clone()))).clone()),
            },
            planning,
            owners: (*cx.query(&OwnersAt(proxy.gateway.clone()))).clone(),
            port: Port {
                name: stated.map_or("", |p| p.name.as_str()).into(),
                number: server.port(),
                protocol: stated.map_or(Protocol::Unsupported, |p| Protocol::parse(&p.protocol)),
            },
        }
    }

    /// The rules for the server's hosts that route bytes, in the order in which they apply.
    fn rules(&self) -> Vec<(Arc<VirtualServiceHead>, Arc<ResolvedVirtualService>)> {
        let cx = self.planning.cx;
        let namespace = &self.planning.proxy.parts.scope.namespace;
        let lists = cx.query(&VirtualServicesFor {
            namespace: namespace.clone(),
            gateway: self.server.gateway_name.clone(),
        });
        lists
            .for_gateway(namespace)
            .filter(|head| head.layer4)
            .filter(|head| {
                let owners = self.owners.as_deref();
                !gateways::routed(cx, owners, &self.server.server.hosts, head).is_empty()
            })
            .filter_map(|head| {
                let rule = (*cx.query(&VirtualServiceOf(head.name.clone()))).clone()?;
                Some((head.clone(), rule))
            })
            .collect()
    }

    /// Whether a rule may take connections for a name.
    fn may_take(&self, head: &VirtualServiceHead, name: &str) -> bool {
        let owners = self.owners.as_deref();
        owners.is_none_or(|owners| owners.lets(self.planning.cx, head, name))
    }

    fn applies(&self, port: u32, gateways: &[String]) -> bool {
        (port == 0 || port == u32::from(self.port.number))
            && (gateways.is_empty() || gateways.iter().any(|g| **g == *self.server.gateway_name))
    }

    fn routed(&self, rule: &ResolvedVirtualService, routes: &[RouteDestination]) -> Option<Proxy> {
        self.forward.routed(&rule.name, routes, &self.port)
    }

    /// Where bytes go, in the clear or out of TLS that ends here, by server names: those of TLSRoutes go where these lead, and
    /// the first rule that routes bytes whatever their name takes the others.
    ///
    /// Istio has one chain, for all names of the server, that leads where the first TLSRoute does.
    fn terminated(&self) -> Vec<(Vec<String>, Proxy)> {
        let all = &self.server.sni_hosts;
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut chains = Vec::new();
        for (head, rule) in self.rules() {
            let tcp = rule.spec.tcp.iter().find(|route| {
                let stated = &route.r#match;
                !route.route.is_empty()
                    && (stated.is_empty()
                        || stated.iter().any(|m| self.applies(m.port, &m.gateways)))
            });
            if let Some(route) = tcp {
                let names: Vec<String> = all
                    .iter()
                    .filter(|n| !taken.contains(*n))
                    .cloned()
                    .collect();
                let is_left = match all.is_empty() {
                    true => taken.insert(String::new()),
                    false => !names.is_empty(),
                };
                if is_left {
                    let proxy = self.routed(&rule, &route.route);
                    chains.extend(proxy.map(|proxy| (names, proxy)));
                }
                return chains;
            }
            if !self.is_of_tls_route(&rule) {
                continue;
            }
            for route in rule.spec.tls.iter().filter(|r| !r.route.is_empty()) {
                let weight = route.route.iter().map(Message::encoded_len).sum::<usize>();
                let stated = route.r#match.iter();
                for stated in stated.filter(|m| self.applies(m.port, &m.gateways)) {
                    let hosts = &stated.sni_hosts;
                    let is_any = hosts.is_empty() || hosts.iter().any(|host| host == "*");
                    let named: Vec<String> = match is_any {
                        true => all.clone(),
                        false => hosts.iter().filter_map(|h| server_name(h)).collect(),
                    };
                    let names = named.into_iter().filter(|n| self.may_take(&head, n));
                    let names: Vec<String> = names.filter(|n| taken.insert(n.clone())).collect();
                    // A chain without names takes all that the server has no other for.
                    let takes_rest = is_any && all.is_empty() && taken.insert(String::new());
                    if names.is_empty() && !takes_rest {
                        continue;
                    }
                    let said = stated.encoded_len() + 2 * weight;
                    if !chains.is_empty() && !self.planning.may_add(self.server, said) {
                        return chains;
                    }
                    let proxy = self.routed(&rule, &route.route);
                    chains.extend(proxy.map(|proxy| (names, proxy)));
                }
            }
        }
        chains
    }

    /// Whether a rule was made from a `TLSRoute`, which counts for TLS that ends here too.
    fn is_of_tls_route(&self, rule: &ResolvedVirtualService) -> bool {
        rule.semantics == Semantics::Gateway
            && self
                .planning
                .cx
                .get::<VirtualService>(&rule.name)
                .is_some_and(|o| {
                    let derived = o.meta.derived.as_ref();
                    derived.is_some_and(|d| d.is_from(Kind::TlsRoute))
                })
    }

    /// Chains by the server names that rules state.
    fn passthrough(&self, names: &mut BTreeMap<String, String>) -> Vec<Chain> {
        let bind = &self.server.server.bind;
        let mut chains = Vec::new();
        for (head, rule) in self.rules() {
            for route in rule.spec.tls.iter().filter(|r| !r.route.is_empty()) {
                let weight = route.route.iter().map(Message::encoded_len).sum::<usize>();
                for stated in &route.r#match {
                    if !self.applies(stated.port, &stated.gateways) {
                        continue;
                    }
                    let hosts = stated.sni_hosts.iter();
                    let hosts = hosts.filter_map(|h| server_name(h));
                    let hosts: Vec<String> = hosts.filter(|h| self.may_take(&head, h)).collect();
                    // Envoy refuses two chains that take the same. One without names would take everything.
                    let taken = |n: &String| names.get(n).is_some_and(|on| on == bind);
                    if hosts.iter().any(taken) || hosts.is_empty() {
                        continue;
                    }
                    // The cluster names the chain's statistics too.
                    let said = stated.encoded_len() + 2 * weight;
                    if !self.planning.may_add(self.server, said) {
                        return chains;
                    }
                    names.extend(hosts.iter().map(|n| (n.clone(), bind.clone())));
                    let proxy = self.routed(&rule, &route.route);
                    chains.extend(proxy.map(|proxy| Chain {
                        gateway: Some(self.server.gateway.clone()),
                        server_names: hosts.clone(),
                        alpn: &[],
                        tls: None,
                        serves: Serves::Tcp {
                            proxy,
                            exchange: false,
                            guarded: true,
                            port: self.port.number,
                        },
                    }));
                }
            }
        }
        chains
    }

    /// A chain for each cluster of the mesh, by its name in the SNI. The ALPN of mutual TLS of the mesh is asked for, and
    /// only endpoints that take it are sent: nobody gets in without a certificate, though it is not looked at here.
    ///
    /// Istio: builtAutoPassthroughFilterChains.
    fn auto_passthrough(&self) -> Vec<Chain> {
        let hosts = &self.server.sni_hosts;
        let mut chains = Vec::new();
        let services = self.forward.scope.iter().flat_map(|s| s.services.iter());
        for service in services.filter(|s| !s.mesh_external) {
            if !hosts.iter().any(|host| subset_of(&service.host, host)) {
                continue;
            }
            let rule = self.forward.destination_rule(service);
            let extent = Extent::of(rule.as_deref(), service, 0);
            if extent == Extent::Nothing {
                continue;
            }
            let followed = rule.iter().filter(|_| extent == Extent::All);
            let subsets = followed.flat_map(|r| &r.spec().subsets);
            let subsets: Vec<&str> = std::iter::once("")
                .chain(subsets.map(|s| s.name.as_str()))
                .collect();
            for port in service.ports.iter().filter(|p| p.protocol != Protocol::Udp) {
                for subset in &subsets {
                    if !self.planning.may_add(self.server, 0) {
                        return chains;
                    }
                    let cluster = cluster_names::outbound_sni(port.number, subset, &service.host);
                    let proxy = Proxy {
                        stat_prefix: self.forward.stat_prefix(service, subset, port, &cluster),
                        upstream: Upstream::Cluster(cluster.clone()),
                        protocol: port.protocol,
                        policy: Policy {
                            tunnel: None,
                            ..policy(rule.as_deref(), subset)
                        },
                    };
                    chains.push(Chain {
                        gateway: Some(self.server.gateway.clone()),
                        server_names: vec![cluster],
                        alpn: MESH_ANY,
                        tls: None,
                        serves: Serves::Tcp {
                            proxy,
                            exchange: false,
                            guarded: false,
                            port: port.number,
                        },
                    });
                }
            }
        }
        chains
    }
}
