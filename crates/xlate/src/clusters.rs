//! Clusters of a view (CDS).
//!
//! ```text
//! ScopeOf ─┬─▶ for each service: RulesOf(host) ─▶ ServiceClusters{service, rule, client} ─┐ encoded once, shared by
//!          │                                                                            │ every view that agrees
//!          └─▶ InboundClusters{targets, Sidecar}, fixed clusters ───────────────────────┴─▶ set of a view
//! ```
//!
//! A change of one service or rule derives the clusters of that service again; the set is a concatenation. A change of
//! endpoints reaches clusters only through the identities of servers, and those that carry their endpoints.
//!
//! Istio: pilot/pkg/networking/core/cluster.go, 1.32.

mod client;
mod draft;
mod fixed;
mod inbound;
mod load_balancer;
mod metadata;
pub mod names;
mod outbound;
mod policy;
mod sds;
mod tls;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::Gateway;
use model::labels::Labels;
use model::node::{Interception, Role};
use model::service::{Service, TrafficDistribution};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use proto_envoy::envoy::config::cluster::v3::{Cluster, Filter};
use proto_envoy::udpa::r#type::v1::TypedStruct;
use proto_istio::mesh::mesh_config::outbound_traffic_policy::Mode as OutboundMode;
use proto_istio::networking::server_tls_settings::TlSmode;
use store::{Reads, Snapshot};

use crate::destination_rule::{Client, RuleKey, Side, rule_for};
use crate::endpoints::{EndpointClient, NetworkGateways};
use crate::resource::{Resource, ResourceSet, any};
use crate::scope::{ScopeKey, ScopeOf, SidecarScope};
use crate::view::View;
use client::ClusterClient;

pub(crate) use fixed::allow_any_dns_cache;
pub(crate) use outbound::{ServiceClusters, carries_endpoints, lets_pass, uses_eds};
pub(crate) use policy::always_sends_unhealthy;

/// The filter that tells the other side's proxy who this one is; Istio's own.
const METADATA_EXCHANGE: &str = "istio.metadata_exchange";

/// Clusters that proxies of a view should have.
pub fn set(cx: &Cx<'_, Snapshot>, view: &View) -> ResourceSet {
    let outbound = Outbound::of(cx, view);
    let settings = cx.settings();
    let client = Arc::new(ClusterClient::of(view, settings));
    let mut resources: Vec<Arc<Resource>> = Vec::new();
    for entry in outbound.entries(cx, view) {
        let carries = carries_endpoints(&entry.service.0);
        let endpoints = carries.then(|| entry.endpoint_client(cx, view));
        let mut add = |sni: bool| {
            let clusters = cx.query(&ServiceClusters {
                service: entry.service.clone(),
                rule: entry.rule.clone(),
                client: client.clone(),
                endpoints: endpoints.clone(),
                sni,
            });
            resources.extend(clusters.iter().cloned());
        };
        add(false);
        if outbound.sni && !entry.service.0.mesh_external {
            add(true);
        }
    }
    let mut fix = |cluster: Resource| resources.push(Arc::new(cluster));
    fix(fixed::black_hole(settings));
    if view.metadata.get("credential") == Some("true") {
        fix(fixed::external_sds(settings));
    }
    if view.role == Role::Sidecar {
        fix(fixed::passthrough(settings, &client));
        fix(fixed::inbound_passthrough(settings, &client));
        if outbound.allows_any_dynamic_dns() {
            let cache = allow_any_dns_cache(settings, view.families);
            fix(fixed::allow_any_dynamic_dns(settings, &client, cache));
        }
        let inbound = cx.query(&inbound::InboundClusters {
            namespace: view.namespace.clone(),
            scope: outbound.key.clone(),
            targets: view.targets.clone(),
            client: client.clone(),
            none_mode: view.interception == Interception::None,
            addresses: addresses(view),
        });
        resources.extend(inbound.iter().cloned());
    }
    ResourceSet::new(resources)
}

/// The addresses that the proxy says it has.
fn addresses(view: &View) -> Arc<[IpAddr]> {
    let stated = view.metadata.get("INSTANCE_IPS").unwrap_or_default();
    stated
        .split(',')
        .filter_map(|a| a.trim().parse().ok())
        .collect()
}

/// What a view sends to: its services, each with the rule in force.
pub(crate) struct Outbound {
    key: ScopeKey,
    scope: Arc<Arc<SidecarScope>>,
    /// Whether there are clusters that pass TLS through by SNI.
    pub(crate) sni: bool,
    multi_network: bool,
    /// The client of endpoints where nothing of its place decides.
    anywhere: Arc<EndpointClient>,
}

/// A service and its rule.
pub(crate) struct Entry<'a> {
    outbound: &'a Outbound,
    pub(crate) service: ServiceKeyed,
    pub(crate) rule: Option<RuleKey>,
}

impl Outbound {
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, view: &View) -> Self {
        let key = crate::scope::key_of(cx, view);
        let scope = cx.query(&ScopeOf(key.clone()));
        let multi_network = cx.query(&NetworkGateways).any(false);
        let sni = view.role == Role::Router && *cx.query(&PassesTls(view.labels.clone()));
        let anywhere = EndpointClient::anywhere(view, multi_network);
        Self {
            key,
            scope,
            sni,
            multi_network,
            anywhere: Arc::new(anywhere),
        }
    }

    pub(crate) fn entries<'a>(
        &'a self,
        cx: &'a Cx<'_, Snapshot>,
        view: &'a View,
    ) -> impl Iterator<Item = Entry<'a>> {
        self.scope.services.iter().map(move |service| {
            let client = Client {
                namespace: &view.namespace,
                labels: &view.labels,
                side: Side::Client,
            };
            Entry {
                outbound: self,
                service: ServiceKeyed(service.clone()),
                rule: rule_for(cx, client, &service.namespace, &service.host).map(RuleKey),
            }
        })
    }

    fn allows_any_dynamic_dns(&self) -> bool {
        let policy = self.scope.outbound_policy.as_ref();
        policy.is_some_and(|p| p.mode == OutboundMode::AllowAnyDynamicDns as i32)
    }
}

impl Entry<'_> {
    /// The proxy as far as the endpoints of this service depend on it.
    pub(crate) fn endpoint_client(
        &self,
        cx: &Cx<'_, Snapshot>,
        view: &View,
    ) -> Arc<EndpointClient> {
        let service = &self.service.0;
        let settings = cx.settings();
        let plain = self.rule.is_none()
            && service.kube.traffic_distribution == TrafficDistribution::Any
            && !service.kube.node_local
            && !EndpointClient::mesh_decides(&settings.mesh);
        if plain {
            return self.outbound.anywhere.clone();
        }
        let rule = self.rule.as_ref().map(|r| &*r.0);
        Arc::new(EndpointClient::of(
            view,
            settings,
            self.outbound.multi_network,
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

/// Whether a Gateway that selects these labels passes TLS through to services by SNI.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PassesTls(Labels);

impl Query<Snapshot> for PassesTls {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        cx.list::<Gateway>().iter().any(|gateway| {
            self.0.matches_map(&gateway.spec.selector)
                && gateway.spec.servers.iter().any(|server| {
                    let mode = server.tls.as_ref().map(|t| t.mode);
                    mode == Some(TlSmode::AutoPassthrough as i32)
                })
        })
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
