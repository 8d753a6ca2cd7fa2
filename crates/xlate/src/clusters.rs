//! Clusters (CDS).
//!
//! ```text
//! DestinationRulesOf(host) ─▶ ServiceClusters{service, rule, client} ─┐ encoded once
//!                                                                     ├─▶ SharedClusters{scope, client} ─┐ shared by proxies
//! ScopeOf ────────────────────────────────────────────────────────────┘                                  │
//! InboundClusters{targets, Sidecar}, fixed clusters ─────────────────────────────────────────────────────┴─▶ ClustersOf
//! ```
//!
//! A change of one service or rule derives the clusters of that service again; the set is a concatenation. A change of
//! endpoints reaches clusters only through the identities of servers, and those that carry their endpoints.
//!
//! Istio: pilot/pkg/networking/core/cluster.go, 1.32.

mod agent_dns;
pub(crate) mod agentless;
mod calls;
mod client;
mod draft;
mod fixed;
mod hbone;
mod inbound;
mod load_balancer;
mod metadata;
mod options;
mod outbound;
mod outside;
pub(crate) mod sds;
mod standin;
mod tls;
mod traffic_policy;

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use client::ClusterClient;
use incr::{Changed, Cx, Query};
use mesh::capabilities::CertificateSource;
use mesh::capabilities::name::METADATA_EXCHANGE;
use mesh::destination_rule::{
    Client, DestinationRuleKey, HasDestinationRules, Side, rule_for, rule_for_all,
};
use mesh::gateways::{self, GatewayKey, MergedGatewayOf};
use mesh::label_names::Reader;
use mesh::proxy::Traits;
use mesh::scope::{ScopeKey, ScopeOf};
use mesh::view::ServiceTarget;
use model::labels::Labels;
use model::names::Namespace;
use model::node::{Interception, Role};
use model::service::Service;
use policy::envoy_filter;
use policy::envoy_filter::{ClusterPatchesOf, Context, Patches, SelectedBy};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use proto_envoy::envoy::config::cluster::v3::{Cluster, Filter};
use proto_envoy::udpa::r#type::v1::TypedStruct;
use proto_istio::mesh::mesh_config::outbound_traffic_policy::Mode as OutboundMode;
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet, any};

use crate::judged;
use crate::load_assignment::{EndpointClient, NetworkWays, Place};
use crate::shared::{Gathering, Part, Shareable, Shared};

pub(crate) use agent_dns::AgentDns;
pub(crate) use fixed::allow_any_dns_cache;
pub(crate) use hbone::CONNECT_ORIGINATE;
pub(crate) use load_balancer::{apply_hash, even_out};
pub(crate) use outbound::{
    ServiceClusters, carries_endpoints, carries_sessions, cluster_count, extent, is_dynamic, kept,
    key_of, lets_pass, uses_eds,
};

/// Proxies that have the same clusters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClustersOf {
    /// What of them clusters of services depend on.
    outbound: Outbound,
    client: Arc<ClusterClient>,
    /// The DNS server of the agent beside a sidecar.
    agent_dns: Option<AgentDns>,
    /// Which patches they get.
    pub(crate) patched: SelectedBy,
    /// The workload behind a sidecar.
    inbound: Option<Workload>,
    /// The Gateways of a gateway that has clusters which stand in for others.
    gateway: Option<GatewayKey>,
    /// The Gateways of a gateway that can send calls of Dubbo.
    calls: Option<GatewayKey>,
    /// The Gateways of a gateway, whose routes may ask services outside of the mesh.
    asking: Option<GatewayKey>,
}

/// What clusters of a workload's own ports depend on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Workload {
    /// The service ports that it serves.
    targets: Arc<[ServiceTarget]>,
    /// Whether nothing is intercepted: only ports that a Sidecar states are served.
    none_mode: bool,
    /// Its addresses, where a Sidecar sends to them.
    addresses: Arc<[IpAddr]>,
}

impl ClustersOf {
    /// What decides the clusters of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let is_sidecar = proxy.node.role == Role::Sidecar;
        Self {
            outbound: Outbound::of(cx, proxy),
            client: Arc::new(ClusterClient::of(cx, proxy)),
            agent_dns: AgentDns::of(proxy).filter(|_| is_sidecar),
            patched: SelectedBy::of(cx, proxy),
            inbound: is_sidecar.then(|| Workload {
                targets: proxy.targets.clone(),
                none_mode: proxy.interception() == Interception::None,
                addresses: proxy.own_addresses(cx),
            }),
            gateway: standin::gateway(cx, proxy),
            calls: calls::gateway(cx, proxy),
            asking: outside::gateway(cx, proxy),
        }
    }

    /// Where their own certificate comes from.
    pub(crate) fn certificates(&self) -> CertificateSource {
        self.client.certificate
    }

    /// Their clusters.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let (outbound, client) = (&self.outbound, &self.client);
        let patches = cx.query(&ClusterPatchesOf(self.patched.clone()));
        let shared = cx.query(&SharedClusters {
            scope: outbound.scope.clone(),
            client: client.clone(),
            sni: outbound.sni,
            patches: patches.of_hosts(client.context()),
        });
        let mut resources = Vec::new();
        for service in shared.own.values() {
            let rule = outbound.rule(cx, service);
            let carries = carries_endpoints(service);
            let endpoints = carries.then(|| outbound.endpoint_client(cx, service, rule.as_ref()));
            let key = ServiceClusters {
                service: ServiceKeyed(service.clone()),
                rule,
                client: client.clone(),
                endpoints,
                sni: false,
                patches: patches.of_host(client.context(), &service.host),
            };
            clusters_of(cx, key, outbound.sni, |part| {
                resources.extend_from_slice(part);
            });
        }
        let sidecar = client.is_sidecar();
        let any_dynamic_dns = sidecar && allows_any_dynamic_dns(cx, &outbound.scope);
        let fixed = cx.query(&fixed::FixedClusters {
            patches: patches.of_fixed(),
            any_dynamic_dns,
            agent_dns: self.agent_dns.filter(|_| any_dynamic_dns),
            client: client.clone(),
        });
        resources.extend(fixed.iter().cloned());
        if let Some(workload) = &self.inbound {
            let inbound = cx.query(&inbound::InboundClusters {
                namespace: outbound.scope.namespace.clone(),
                scope: outbound.scope.clone(),
                targets: workload.targets.clone(),
                client: client.clone(),
                none_mode: workload.none_mode,
                addresses: workload.addresses.clone(),
                patches: patches.of_hosts(Context::SidecarInbound),
            });
            resources.extend(inbound.iter().cloned());
        }
        if let Some(gateway) = &self.gateway {
            resources.extend(standin::clusters(cx, gateway));
        }
        if let Some(gateway) = &self.asking {
            resources.extend(outside::clusters(cx, gateway, client));
        }
        let contexts = match sidecar {
            true => &[Context::SidecarOutbound, Context::SidecarInbound][..],
            false => &[Context::Gateway],
        };
        for cluster in contexts
            .iter()
            .flat_map(|c| envoy_filter::cluster::added(&patches, *c))
        {
            resources.extend(judged::cluster(cluster, Vec::new()));
        }
        let all = shared.set.and(resources);
        match &self.calls {
            Some(gateway) => all.and(calls::clusters(cx, gateway, &all)),
            None => all,
        }
    }
}

/// A cluster, encoded as the patches leave it.
fn encode(
    patches: &Patches<Cluster>,
    context: Context,
    cluster: Cluster,
    hosts: &[&str],
) -> Option<Arc<Resource>> {
    let mut found = Vec::new();
    let cluster = envoy_filter::cluster::apply(patches, context, cluster, hosts, &mut found)?;
    judged::cluster(&cluster, found)
}

/// The clusters of a service, and those that pass TLS through by SNI where they are wanted.
fn clusters_of(
    cx: &Cx<'_, Snapshot>,
    mut key: ServiceClusters,
    sni: bool,
    mut take: impl FnMut(&[Arc<Resource>]),
) {
    take(&cx.query(&key));
    if sni && !key.service.0.mesh_external {
        key.sni = true;
        take(&cx.query(&key));
    }
}

/// The clusters of a scope that are the same for all its proxies of a kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SharedClusters {
    scope: ScopeKey,
    client: Arc<ClusterClient>,
    sni: bool,
    patches: Patches<Cluster>,
}

impl Query<Snapshot> for SharedClusters {
    type Value = Arc<Shared>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Shared> {
        let scope = cx.query(&ScopeOf(self.scope.clone()));
        let mut gathering = Gathering::default();
        for service in scope.services.iter() {
            if carries_endpoints(service) {
                gathering.leave(service);
            } else if *cx.query(&HasDestinationRules(service.host.clone())) {
                let ruled = cx.query(&RuledClusters {
                    namespace: self.scope.namespace.clone(),
                    service: ServiceKeyed(service.clone()),
                    client: self.client.clone(),
                    sni: self.sni,
                    patches: self.patches.of_host(self.client.context(), &service.host),
                });
                match &*ruled {
                    Some(part) => gathering.share(part),
                    None => gathering.leave(service),
                }
            } else {
                let key = ServiceClusters {
                    service: ServiceKeyed(service.clone()),
                    rule: None,
                    client: self.client.clone(),
                    endpoints: None,
                    sni: false,
                    patches: self.patches.of_host(self.client.context(), &service.host),
                };
                clusters_of(cx, key, self.sni, |part| gathering.share(part));
            }
        }
        gathering.finish()
    }

    fn has_members(ty: TypeId) -> bool {
        ty == TypeId::of::<ServiceClusters>() || ty == TypeId::of::<RuledClusters>()
    }

    fn update(&self, former: &Arc<Shared>, changed: &Changed<'_, Snapshot>) -> Option<Arc<Shared>> {
        Some(former.updated::<ServiceClusters, RuledClusters>(changed))
    }
}

/// The clusters of a service that rules concern, where all clients of a namespace have the same rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RuledClusters {
    namespace: Namespace,
    service: ServiceKeyed,
    client: Arc<ClusterClient>,
    sni: bool,
    patches: Patches<Cluster>,
}

impl Query<Snapshot> for RuledClusters {
    type Value = Option<Part>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Part> {
        let service = &*self.service.0;
        let rule = rule_for_all(cx, &self.namespace, &service.namespace, &service.host).ok()?;
        let key = ServiceClusters {
            service: self.service.clone(),
            rule: rule.map(DestinationRuleKey),
            client: self.client.clone(),
            endpoints: None,
            sni: false,
            patches: self.patches.clone(),
        };
        let mut found = Vec::new();
        clusters_of(cx, key, self.sni, |part| found.extend_from_slice(part));
        Some(found.into())
    }
}

impl Shareable for RuledClusters {
    fn service(&self) -> &Arc<Service> {
        &self.service.0
    }
}

/// What of a proxy decides the clusters and endpoints of services.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Outbound {
    /// What it may see.
    pub(crate) scope: ScopeKey,
    /// Whether there are clusters that pass TLS through by SNI.
    pub(crate) sni: bool,
    /// Its labels by which DestinationRules select.
    labels: Labels,
    /// Where it stands among endpoints.
    pub(crate) place: Arc<Place>,
}

impl Outbound {
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let gateway = proxy.node.role == Role::Router;
        Self {
            scope: proxy.scope.clone(),
            sni: gateway && *cx.query(&PassesTls(gateways::key_of(cx, proxy))),
            labels: proxy.labels_for(cx, Reader::DestinationRules),
            place: Arc::new(Place::of(cx, proxy)),
        }
    }

    /// The rule in force for a service.
    pub(crate) fn rule(
        &self,
        cx: &Cx<'_, Snapshot>,
        service: &Service,
    ) -> Option<DestinationRuleKey> {
        let client = Client {
            namespace: &self.scope.namespace,
            labels: &self.labels,
            side: Side::Client,
        };
        rule_for(cx, client, &service.namespace, &service.host).map(DestinationRuleKey)
    }

    /// The proxy as far as the endpoints of a service depend on it.
    pub(crate) fn endpoint_client(
        &self,
        cx: &Cx<'_, Snapshot>,
        service: &Service,
        rule: Option<&DestinationRuleKey>,
    ) -> Arc<EndpointClient> {
        let rule = rule.map(|r| &*r.0);
        let multi = cx.query(&NetworkWays).any(false);
        let settings = cx.settings();
        Arc::new(EndpointClient::of(
            &self.place,
            settings,
            multi,
            service,
            rule,
        ))
    }
}

/// A service as part of a key: cheap to hash, equal where the services are.
#[derive(Clone)]
pub(crate) struct ServiceKeyed(pub(crate) Arc<Service>);

impl PartialEq for ServiceKeyed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for ServiceKeyed {}

impl Hash for ServiceKeyed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.host.hash(state);
        self.0.namespace.hash(state);
    }
}

impl fmt::Debug for ServiceKeyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.namespace, self.0.host)
    }
}

fn allows_any_dynamic_dns(cx: &Cx<'_, Snapshot>, scope: &ScopeKey) -> bool {
    let scope = cx.query(&ScopeOf(scope.clone()));
    let policy = scope.outbound_policy.as_ref();
    policy.is_some_and(|p| p.mode == OutboundMode::AllowAnyDynamicDns as i32)
}

/// Whether a gateway passes TLS through to services by SNI.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PassesTls(GatewayKey);

impl Query<Snapshot> for PassesTls {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        let merged = cx.query(&MergedGatewayOf(self.0.clone()));
        merged
            .as_ref()
            .as_ref()
            .is_some_and(|merged| merged.auto_passthrough)
    }
}

/// Adds the metadata exchange, for proxies that have it.
fn metadata_exchange(cluster: &mut Cluster, has: bool) {
    if !has {
        return;
    }
    let fields = [
        ("enable_discovery", Kind::BoolValue(true)),
        (
            "protocol",
            Kind::StringValue("istio-peer-exchange".to_owned()),
        ),
    ];
    let value = |kind| Value { kind: Some(kind) };
    let config = TypedStruct {
        type_url: "type.googleapis.com/envoy.tcp.metadataexchange.config.MetadataExchange"
            .to_owned(),
        value: Some(Struct {
            fields: fields
                .into_iter()
                .map(|(name, kind)| (name.to_owned(), value(kind)))
                .collect(),
        }),
    };
    cluster.filters.push(Filter {
        name: METADATA_EXCHANGE.to_owned(),
        typed_config: Some(any(&config)),
        ..Filter::default()
    });
}
