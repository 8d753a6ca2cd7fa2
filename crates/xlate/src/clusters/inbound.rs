//! Clusters of the workload's own ports.
//!
//! Istio: pilot/pkg/networking/core/cluster.go buildInboundClusters, 1.32.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use model::labels::Labels;
use model::names::{Name, Namespace};
use model::own_port::is_answered;
use model::protocol::Protocol;
use model::service::{Port, Service};
use prost_types::Duration;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{
    DiscoveryType, LbConfig, LbPolicy, OriginalDstLbConfig,
};
use proto_envoy::envoy::config::core::v3::Address;
use proto_istio::mesh::mesh_config::inbound_traffic_policy::Mode as InboundMode;
use proto_istio::networking::{ConnectionPoolSettings, IstioIngressListener};
use store::{Reads, Snapshot};

use super::client::ClusterClient;
use super::draft::Draft;
use super::fixed;
use super::outbound::choose_protocol;
use super::{encode, metadata, traffic_policy};
use crate::load_assignment::groups;
use mesh::cluster_names;
use mesh::destination_rule::{Client, Policy, Side, rule_for, top_policy};
use mesh::scope::{ScopeKey, ScopeOf, SidecarScope};
use mesh::view::{Families, ServiceTarget};
use policy::envoy_filter::{Context, Patches};
use xds::Resource;

/// Connections to the workload are never cleaned up: the longest duration that Envoy takes.
const NEVER: Duration = Duration {
    seconds: 9_223_372_035,
    nanos: 0,
};
const LOOPBACK_V4: &str = "127.0.0.1";
const LOOPBACK_V6: &str = "::1";

/// The clusters of the ports of one workload.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct InboundClusters {
    pub(super) namespace: Namespace,
    pub(super) scope: ScopeKey,
    pub(super) targets: Arc<[ServiceTarget]>,
    pub(super) client: Arc<ClusterClient>,
    /// Whether nothing is intercepted: only ports that a Sidecar states are served.
    pub(super) none_mode: bool,
    /// Addresses of the workload, where a Sidecar sends to them.
    pub(super) addresses: Arc<[IpAddr]>,
    /// Patches that may concern them.
    pub(super) patches: Patches<Cluster>,
}

impl Query<Snapshot> for InboundClusters {
    type Value = Arc<[Arc<Resource>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let scope = cx.query(&ScopeOf(self.scope.clone()));
        let scope: &SidecarScope = &scope;
        let ingress = scope.sidecar.as_ref().map(|s| s.ingress.as_slice());
        let ports = match ingress.filter(|i| !i.is_empty()) {
            Some(ingress) => self.of_sidecar(ingress),
            None if self.none_mode => Vec::new(),
            None => self.of_targets(cx),
        };
        ports
            .iter()
            .filter_map(|port| {
                let cluster = self.cluster(cx, scope, port);
                let hosts: Vec<&str> = port.hosts.iter().map(|h| &**h).collect();
                encode(&self.patches, Context::SidecarInbound, cluster, &hosts)
            })
            .collect()
    }
}

/// One port of the workload.
struct InboundPort<'a> {
    /// The number in the cluster's name.
    number: u16,
    /// Where connections go; to where the client meant them where there is none.
    address: Option<Address>,
    loopback: bool,
    /// The port of the service, or that of the Sidecar.
    port: Port,
    /// The service that decides; `None` where a Sidecar states a port that none has.
    service: Option<&'a Service>,
    /// All services of the port, for telemetry.
    services: Vec<&'a Service>,
    /// The hosts by which patches find it.
    hosts: Vec<Arc<str>>,
}

impl InboundClusters {
    fn of_targets(&self, cx: &Cx<'_, Snapshot>) -> Vec<InboundPort<'_>> {
        let mode = cx.settings().mesh.inbound_traffic_policy.as_ref();
        let to_loopback = mode.is_some_and(|m| m.mode == InboundMode::Localhost as i32);
        let mut by_port: BTreeMap<u16, Vec<&ServiceTarget>> = BTreeMap::new();
        for target in self.targets.iter() {
            by_port.entry(target.target_port).or_default().push(target);
        }
        by_port
            .into_iter()
            .filter_map(|(number, targets)| {
                let first = *targets.first()?;
                let of_port = targets
                    .iter()
                    .filter(|t| t.port.number == first.port.number);
                let mut services: Vec<&Service> = Vec::new();
                for service in of_port.map(|t| &*t.service) {
                    if services.iter().all(|s| s.host != service.host) {
                        services.push(service);
                    }
                }
                if to_loopback && is_answered(number) {
                    return None;
                }
                let loopback = loopback(self.client.families, true);
                Some(InboundPort {
                    number,
                    address: to_loopback.then(|| groups::socket(loopback, number)),
                    loopback: to_loopback,
                    port: first.port.clone(),
                    service: Some(&first.service),
                    services,
                    hosts: targets
                        .iter()
                        .map(|t| Arc::from(&*t.service.host))
                        .collect(),
                })
            })
            .collect()
    }

    fn of_sidecar(&self, ingress: &[IstioIngressListener]) -> Vec<InboundPort<'_>> {
        ingress
            .iter()
            .filter_map(|listener| {
                let port = listener.port.as_ref()?;
                let number = u16::try_from(port.number).ok()?;
                let (address, loopback) = self.default_endpoint(&listener.default_endpoint)?;
                let target = self.targets.iter().find(|t| t.target_port == number);
                let service = target.map(|t| &*t.service);
                Some(InboundPort {
                    number,
                    address,
                    loopback,
                    port: Port {
                        name: port.name.as_str().into(),
                        number,
                        protocol: Protocol::parse(&port.protocol),
                    },
                    service,
                    services: service.into_iter().collect(),
                    hosts: vec![match service {
                        Some(service) => Arc::from(&*service.host),
                        None => self.sidecar_host().into(),
                    }],
                })
            })
            .collect()
    }

    /// Where a Sidecar's listener sends to, and whether that is the loopback address; nothing where it cannot be read, or is
    /// where Envoy or its agent listens.
    fn default_endpoint(&self, text: &str) -> Option<(Option<Address>, bool)> {
        if text.is_empty() {
            return Some((None, false));
        }
        if text.starts_with("unix://") {
            return Some((Some(groups::pipe(text)), false));
        }
        let (host, port) = text.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        let own = |wanted: fn(&IpAddr) -> bool, fallback: &str| {
            let found = self.addresses.iter().find(|a| wanted(a));
            found.map_or_else(|| fallback.to_owned(), IpAddr::to_string)
        };
        let families = self.client.families;
        let host = match host.trim_start_matches('[').trim_end_matches(']') {
            "0.0.0.0" => own(IpAddr::is_ipv4, LOOPBACK_V4),
            "::" => own(IpAddr::is_ipv6, LOOPBACK_V6),
            LOOPBACK_V4 => loopback(families, true).to_owned(),
            LOOPBACK_V6 => loopback(families, false).to_owned(),
            // Anything else is refused by validation; connections go where they were meant.
            _ => return Some((None, false)),
        };
        let loopback = host == LOOPBACK_V4 || host == LOOPBACK_V6;
        if loopback && is_answered(port) {
            return None;
        }
        Some((Some(groups::socket(&host, port)), loopback))
    }

    /// Istio: buildInboundCluster.
    fn cluster(
        &self,
        cx: &Cx<'_, Snapshot>,
        scope: &SidecarScope,
        inbound: &InboundPort<'_>,
    ) -> Cluster {
        let settings = cx.settings();
        let mesh = &settings.mesh;
        let name = cluster_names::inbound(inbound.number);
        let ty = match inbound.address {
            Some(_) => DiscoveryType::Static,
            None => DiscoveryType::OriginalDst,
        };
        let mut draft = Draft::new(name, ty);
        let cluster = &mut draft.cluster;
        if let Some(address) = &inbound.address {
            cluster.load_assignment = Some(fixed::assignment(&cluster.name, address.clone()));
        } else {
            cluster.cleanup_interval = Some(NEVER);
            cluster.lb_policy = LbPolicy::ClusterProvided as i32;
            let override_port = inbound.service.and_then(|s| {
                let mut ports = s.passthrough_ports.iter();
                ports.find(|(own, _)| *own == inbound.port.number)
            });
            if let Some((_, target)) = override_port {
                cluster.lb_config = Some(LbConfig::OriginalDstLbConfig(OriginalDstLbConfig {
                    upstream_port_override: Some(u32::from(*target)),
                    ..OriginalDstLbConfig::default()
                }));
            }
        }
        choose_protocol(&mut draft, &self.client, &inbound.port);
        if inbound.service.is_some_and(|s| !s.mesh_external) {
            metadata::set_services(&mut draft.cluster, inbound.services.iter().copied());
        }
        let pattern = &mesh.inbound_cluster_stat_name;
        if !pattern.is_empty() {
            let prefix = self.stat_prefix(pattern, inbound);
            draft.cluster.alt_stat_name = cluster_names::stats(&prefix);
        }

        let rule = inbound.service.and_then(|service| {
            // A Sidecar that does not import the service does not import its rules.
            if scope.sidecar.is_some() && scope.service(&service.host).is_none() {
                return None;
            }
            let client = Client {
                namespace: &self.namespace,
                labels: &Labels::default(),
                side: Side::Server,
            };
            rule_for(cx, client, &service.namespace, &service.host)
        });
        let rule = rule.as_deref();
        let of_rule = Policy::of_port(top_policy(rule), inbound.port.number).0;
        if let Some(rule) = rule.filter(|r| top_policy(Some(r)).is_some())
            && draft.cluster.metadata.is_some()
        {
            metadata::set_rule(&mut draft.cluster, rule.name());
        }
        let policy = traffic_policy::with_mesh_default(mesh, of_rule).unwrap_or_default();
        let pool = sidecar_pool(scope, inbound.number).or(policy.connection_pool);
        traffic_policy::apply_connection_pool(&mut draft, mesh, pool, policy.retry_budget);
        if !inbound.loopback {
            draft.cluster.upstream_bind_config =
                Some(fixed::inbound_bind(settings, self.client.families));
        }
        draft.finish()
    }

    /// What stands for a host where a Sidecar states a port that no service has.
    fn sidecar_host(&self) -> String {
        let none = Name::default();
        let sidecar = self.scope.sidecar.as_ref();
        let name = sidecar.map_or(&none, |s| &s.name);
        format!("{name}.{}", self.namespace)
    }

    fn stat_prefix(&self, pattern: &str, inbound: &InboundPort<'_>) -> String {
        match inbound.service {
            Some(service) => {
                cluster_names::stat_prefix(pattern, service, "", &inbound.port, inbound.number)
            }
            None => {
                let host = self.sidecar_host();
                cluster_names::fill(
                    pattern,
                    [&host, &host, &host],
                    "",
                    &inbound.port,
                    inbound.number,
                )
            }
        }
    }
}

/// The loopback address of the wanted family, or of the one that the proxy has.
fn loopback(families: Families, v4: bool) -> &'static str {
    let v4 = if v4 {
        families.v4 || !families.v6
    } else {
        !families.v6
    };
    if v4 { LOOPBACK_V4 } else { LOOPBACK_V6 }
}

/// The pool that a Sidecar states for a port, else for all ports.
///
/// Istio: pilot/pkg/model/sidecar.go InboundConnectionPoolForPort, 1.32.
fn sidecar_pool(scope: &SidecarScope, port: u16) -> Option<&ConnectionPoolSettings> {
    let sidecar = scope.sidecar.as_ref()?;
    let of_port = sidecar
        .ingress
        .iter()
        .filter(|i| i.port.as_ref().is_some_and(|p| p.number == u32::from(port)))
        .find_map(|i| i.connection_pool.as_ref());
    of_port.or(sidecar.inbound_connection_pool.as_ref())
}
