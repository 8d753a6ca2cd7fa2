//! Clusters of services: each gets its endpoints by EDS, and says no more than gRPC libraries read.
//!
//! Istio: pilot/pkg/networking/grpcgen/cds.go, 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::cluster_names;
use mesh::destination_rule::{
    Client, DestinationRuleKey, Extent, MergedDestinationRule, Policy, Side, rule_for,
};
use mesh::label_names::Reader;
use mesh::proxy::Traits;
use mesh::scope::{ScopeKey, ScopeOf};
use mesh::services::AccountsOf;
use model::hash_table;
use model::labels::Labels;
use model::protocol::Protocol;
use model::service::{Resolution, Service};
use proto_envoy::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use proto_envoy::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, DiscoveryType, EdsClusterConfig, LbPolicy,
};
use proto_envoy::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use proto_envoy::envoy::config::core::v3::TransportSocket;
use proto_istio::networking::client_tls_settings::TlSmode;
use proto_istio::networking::load_balancer_settings::{LbPolicy as Wanted, SimpleLb};
use proto_istio::networking::{ClientTlsSettings, ConnectionPoolSettings, LoadBalancerSettings};
use store::Snapshot;
use xds::{Resource, ResourceSet};

use super::{by_name, tls};
use crate::clusters::{self, ServiceKeyed};
use crate::judged;

/// What decides the clusters of gRPC libraries, and the query for them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GrpcClusters {
    scope: ScopeKey,
    /// Their labels by which DestinationRules select.
    labels: Labels,
}

impl GrpcClusters {
    /// What decides those of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            scope: proxy.scope.clone(),
            labels: proxy.labels_for(cx, Reader::DestinationRules),
        }
    }
}

impl Query<Snapshot> for GrpcClusters {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let scope = cx.query(&ScopeOf(self.scope.clone()));
        let client = Client {
            namespace: &self.scope.namespace,
            labels: &self.labels,
            side: Side::Client,
        };
        let mut found = Vec::new();
        for service in scope.services.iter() {
            // An alias takes the clusters of what it names, and nothing resolves hosts as requests come.
            if service.resolution == Resolution::Alias || clusters::is_dynamic(service) {
                continue;
            }
            let rule = rule_for(cx, client, &service.namespace, &service.host);
            let of_service = cx.query(&GrpcServiceClusters {
                service: ServiceKeyed(service.clone()),
                rule: rule.map(DestinationRuleKey),
            });
            found.extend(of_service.iter().cloned());
        }
        ResourceSet::new(found)
    }
}

/// The clusters of a service: of each port, and of each subset of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct GrpcServiceClusters {
    service: ServiceKeyed,
    rule: Option<DestinationRuleKey>,
}

impl Query<Snapshot> for GrpcServiceClusters {
    type Value = Arc<[Arc<Resource>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let service = &*self.service.0;
        let rule = self.rule.as_ref().map(|rule| &*rule.0);
        let identities: Arc<[Arc<str>]> = match rule {
            Some(_) => (*cx.query(&AccountsOf(clusters::key_of(service)))).clone(),
            None => Arc::from([]),
        };
        let extent = Extent::of(rule, service, identities.iter().map(|i| i.len()).sum());
        if extent == Extent::Nothing {
            return Arc::from([]);
        }
        let by_name = by_name();
        let mut made = Vec::new();
        for port in service.cluster_ports() {
            if port.protocol == Protocol::Udp {
                continue;
            }
            for subset in subsets(rule.filter(|_| extent == Extent::All)) {
                let cluster = Builder {
                    service,
                    identities: &identities,
                    policy: Policy::of_rule(rule, subset, port.number),
                };
                let name = cluster_names::outbound(port.number, subset, &service.host);
                let cluster = cluster.build(name, subset.is_empty());
                let resource = judged::grpc_cluster(cluster, Vec::new());
                made.extend(resource.map(|resource| {
                    Arc::new(Arc::unwrap_or_clone(resource).with_subscription_rule(by_name.clone()))
                }));
            }
        }
        made.into()
    }
}

/// The names of subsets, with that of the whole service, which is empty.
fn subsets(rule: Option<&MergedDestinationRule>) -> impl Iterator<Item = &str> {
    let subsets = rule.into_iter().flat_map(|rule| rule.spec().subsets.iter());
    std::iter::once("").chain(subsets.map(|subset| subset.name.as_str()))
}

/// One cluster to make.
struct Builder<'a> {
    service: &'a Service,
    /// The identities of its servers, sorted.
    identities: &'a [Arc<str>],
    policy: Option<Policy<'a>>,
}

impl Builder<'_> {
    fn build(&self, name: String, is_whole: bool) -> Cluster {
        let policy = self.policy.unwrap_or_default();
        let mut cluster = Cluster {
            alt_stat_name: cluster_names::stats(&name),
            cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
            eds_cluster_config: Some(EdsClusterConfig {
                service_name: name.clone(),
                eds_config: Some(super::ads()),
            }),
            transport_socket: policy.tls.and_then(|tls| self.socket(tls)),
            circuit_breakers: policy.connection_pool.and_then(most_requests),
            name,
            ..Cluster::default()
        };
        if is_whole && clusters::carries_sessions(self.service) {
            cluster.common_lb_config = Some(CommonLbConfig {
                override_host_status: Some(clusters::kept()),
                ..CommonLbConfig::default()
            });
        }
        if let Some(wanted) = policy.load_balancer {
            balance(&mut cluster, wanted);
        }
        cluster
    }

    /// Only mutual TLS of the mesh is said to libraries. With other modes they connect as the application says.
    ///
    /// Istio: applyTLS.
    fn socket(&self, settings: &ClientTlsSettings) -> Option<TransportSocket> {
        if settings.mode != TlSmode::IstioMutual as i32 {
            return None;
        }
        let stated = &settings.subject_alt_names;
        Some(match stated.is_empty() {
            true => tls::upstream(self.identities.iter().map(|identity| &**identity)),
            false => tls::upstream(stated.iter().map(String::as_str)),
        })
    }
}

/// Istio: applyLoadBalancing.
fn balance(cluster: &mut Cluster, wanted: &LoadBalancerSettings) {
    match &wanted.lb_policy {
        Some(Wanted::ConsistentHash(hash)) => {
            clusters::apply_hash(cluster, hash, hash_table::LARGEST)
        }
        Some(Wanted::Simple(simple)) if *simple == SimpleLb::LeastRequest as i32 => {
            cluster.lb_policy = LbPolicy::LeastRequest as i32;
        }
        // One after the other, as libraries do it by themselves.
        _ => {}
    }
}

/// The one circuit breaker that libraries have (<https://github.com/grpc/proposal/blob/master/A32-xds-circuit-breaking.md>).
fn most_requests(pool: &ConnectionPoolSettings) -> Option<CircuitBreakers> {
    let most = pool.http.as_ref()?.http2_max_requests;
    let most = u32::try_from(most).ok().filter(|most| *most > 0)?;
    Some(CircuitBreakers {
        thresholds: vec![Thresholds {
            max_requests: Some(most),
            ..Thresholds::default()
        }],
        ..CircuitBreakers::default()
    })
}
