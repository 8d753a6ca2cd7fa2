//! Clusters of services, as clients see them.
//!
//! Istio: pilot/pkg/networking/core/cluster.go and cluster_builder.go, 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use model::change::ServiceKey;
use model::hash_table;
use model::node::Role;
use model::protocol::Protocol;
use model::service::{Port, Registry, Resolution, Service};
use model::settings::Settings;
use prost_types::Duration;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{
    DiscoveryType, DnsLookupFamily, EdsClusterConfig, LbConfig, OriginalDstLbConfig,
};
use proto_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto_envoy::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, HealthStatus, HealthStatusSet,
    TypedExtensionConfig,
};
use proto_envoy::envoy::extensions::clusters::dynamic_forward_proxy::v3::ClusterConfig;
use proto_envoy::envoy::extensions::clusters::dynamic_forward_proxy::v3::cluster_config::ClusterImplementationSpecifier;
use proto_envoy::envoy::extensions::common::dynamic_forward_proxy::v3::DnsCacheConfig;
use proto_envoy::envoy::extensions::network::dns_resolver::cares::v3::CaresDnsResolverConfig;
use proto_istio::networking::Subset;
use proto_istio::networking::client_tls_settings::TlSmode;
use proto_istio::networking::load_balancer_settings::SimpleLb;
use store::{Reads, Snapshot};

use super::agent_dns::CARES;
use super::client::ClusterClient;
use super::draft::Draft;
use super::metadata::{self, text, truth};
use super::{ServiceKeyed, encode, load_balancer, metadata_exchange, tls, traffic_policy};
use crate::load_assignment::EndpointClient;
use crate::load_assignment::groups::Group;
use crate::load_assignment::select::{
    By, Known, PERSISTENT_SESSION, Selection, has_label, only_mutual_tls,
};
use mesh::cluster_names;
use mesh::destination_rule::{
    DestinationRuleKey, Extent, MergedDestinationRule, Policy, top_policy,
};
use mesh::limits;
use mesh::services::{AccountsOf, EndpointsOf};
use mesh::view::Families;
use policy::authn::{MutualTls, PeerPolicies};
use policy::envoy_filter::Patches;
use xds::{Resource, any};

/// Services with this label keep sessions by a header.
const PERSISTENT_SESSION_HEADER: &str = "istio.io/persistent-session-header";
/// How many queries a connection of the resolver carries.
const MAX_QUERIES: u32 = 100;
/// Spreads the queries of many proxies.
const DNS_JITTER: Duration = Duration {
    seconds: 0,
    nanos: 100_000_000,
};

/// Every cluster of a service for one kind of client: of each port, and of each subset of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ServiceClusters {
    pub(crate) service: ServiceKeyed,
    pub(crate) rule: Option<DestinationRuleKey>,
    pub(crate) client: Arc<ClusterClient>,
    /// The client of the endpoints, for clusters that carry them.
    pub(crate) endpoints: Option<Arc<EndpointClient>>,
    /// Whether clusters are made that pass TLS through by SNI, instead of the usual ones.
    pub(crate) sni: bool,
    /// Patches that may concern them.
    pub(crate) patches: Patches<Cluster>,
}

impl Query<Snapshot> for ServiceClusters {
    type Value = Arc<[Arc<Resource>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let service = &*self.service.0;
        // An alias takes the clusters of what it names.
        if service.resolution == Resolution::Alias {
            return Arc::from([]);
        }
        let reads_endpoints = carries_endpoints(service)
            || service.resolution == Resolution::Passthrough
            || self.rule.as_ref().is_some_and(|r| passes_through(&r.0));
        let known = reads_endpoints.then(|| Known::read(cx, service));
        let identities: Arc<Arc<[Arc<str>]>> = if self.sni {
            Arc::new(Arc::from([]))
        } else {
            cx.query(&AccountsOf(key_of(service)))
        };
        let accepts = cx.query(&PeerPolicies(service.namespace.clone()));
        let rule = self.rule.as_ref().map(|r| &*r.0);
        let names = identities.iter().map(|i| i.len()).sum();
        let mut extent = Extent::of(rule, service, names);
        if let Some(known) = known.as_ref().filter(|_| carries_endpoints(service)) {
            extent = extent.with_endpoints(rule, &known.endpoints);
        }
        if extent == Extent::Nothing {
            return Arc::from([]);
        }
        let builder = Builder {
            key: self,
            service,
            extent,
            rule,
            settings: cx.settings(),
            known: known.as_ref(),
            identities: &identities,
            accepts: accepts.of_namespace().unwrap_or(MutualTls::Permissive),
        };
        let mut made = Vec::new();
        let ports = service.cluster_ports().iter();
        for port in ports.filter(|p| p.protocol != Protocol::Udp) {
            builder.port(port, &mut made);
        }
        made.into()
    }
}

/// Which clusters of a service are made under a rule.
pub(crate) fn extent(
    cx: &Cx<'_, Snapshot>,
    service: &Service,
    rule: &MergedDestinationRule,
) -> Extent {
    let names = cx.query(&AccountsOf(key_of(service)));
    let names = names.iter().map(|i| i.len()).sum();
    let endpoints = cx.query(&EndpointsOf(key_of(service)));
    Extent::of(Some(rule), service, names).with_endpoints(Some(rule), &endpoints)
}

/// How many clusters a service has under a rule: one for each port, and for each subset of it.
pub(crate) fn cluster_count(service: &Service, rule: Option<&MergedDestinationRule>) -> usize {
    let subsets = rule.map_or(0, |rule| rule.spec().subsets.len());
    limits::product([service.cluster_ports().len(), subsets + 1])
}

pub(crate) fn key_of(service: &Service) -> ServiceKey {
    ServiceKey {
        namespace: service.namespace.clone(),
        host: service.host.clone(),
    }
}

/// Whether the cluster holds its endpoints itself, as names to resolve.
pub(crate) fn carries_endpoints(service: &Service) -> bool {
    matches!(
        service.resolution,
        Resolution::Dns | Resolution::DnsRoundRobin
    )
}

/// Whether a rule lets some connections go where the client meant to go.
fn passes_through(rule: &MergedDestinationRule) -> bool {
    let spec = rule.spec();
    let subsets = spec
        .subsets
        .iter()
        .filter_map(|s| s.traffic_policy.as_ref());
    spec.traffic_policy
        .iter()
        .chain(subsets)
        .any(|p| load_balancer::simple(p.load_balancer.as_ref()) == SimpleLb::Passthrough)
}

/// Istio: convertResolution.
fn discovery(settings: &Settings, service: &Service, role: Role) -> DiscoveryType {
    match service.resolution {
        Resolution::Dns if service.race_first_connect => DiscoveryType::LogicalDns,
        Resolution::Dns => DiscoveryType::StrictDns,
        Resolution::DnsRoundRobin => DiscoveryType::LogicalDns,
        Resolution::Passthrough if role != Role::Router => {
            let headless = service.registry == Registry::Kubernetes;
            if headless && settings.features.eds_for_headless {
                DiscoveryType::Eds
            } else {
                DiscoveryType::OriginalDst
            }
        }
        _ => DiscoveryType::Eds,
    }
}

/// Whether the clusters of a service get their endpoints by EDS, unless a rule lets connections pass. gRPC libraries know no
/// other clusters.
pub(crate) fn uses_eds(settings: &Settings, service: &Service, role: Role, grpc: bool) -> bool {
    service.resolution != Resolution::Alias
        && !is_dynamic(service)
        && (grpc || discovery(settings, service, role) == DiscoveryType::Eds)
}

/// Whether a policy lets connections go where the client meant to go.
pub(crate) fn lets_pass(policy: Option<Policy<'_>>) -> bool {
    load_balancer::simple(policy.and_then(|p| p.load_balancer)) == SimpleLb::Passthrough
}

/// Whether hosts are resolved as requests come.
pub(crate) fn is_dynamic(service: &Service) -> bool {
    service.resolution == Resolution::DynamicDns && service.host.is_wildcard()
}

/// Istio: SelectDNSLookupFamily.
pub(super) fn lookup_family(settings: &Settings, families: Families) -> DnsLookupFamily {
    match (families.v4, families.v6) {
        (false, true) => DnsLookupFamily::V6Only,
        (true, true) if settings.features.dual_stack => DnsLookupFamily::All,
        _ => DnsLookupFamily::V4Only,
    }
}

struct Builder<'a> {
    key: &'a ServiceClusters,
    extent: Extent,
    service: &'a Service,
    rule: Option<&'a MergedDestinationRule>,
    settings: &'a Settings,
    known: Option<&'a Known>,
    identities: &'a [Arc<str>],
    accepts: MutualTls,
}

/// One cluster to make.
struct Variant<'a> {
    port: &'a Port,
    /// Empty for the cluster of the whole service.
    subset: &'a str,
    policy: Option<Policy<'a>>,
    accepts: Option<MutualTls>,
    /// Whether connections go where the client meant to go from the start.
    original: bool,
}

impl<'a> Builder<'a> {
    fn port(&self, port: &'a Port, made: &mut Vec<Arc<Resource>>) {
        let of_rule = Policy::of_port(top_policy(self.rule), port.number).0;
        let policy = traffic_policy::with_mesh_default(&self.settings.mesh, of_rule);
        let whole = Variant {
            port,
            subset: "",
            policy,
            accepts: self.accepts_of(top_policy(self.rule), port),
            original: false,
        };
        let Some(mut draft) = self.draft(&whole) else {
            return;
        };
        if !self.key.sni && carries_sessions(self.service) {
            keep_draining(&mut draft);
        }
        self.apply(&mut draft, &whole);
        if self.service.mesh_external && !self.key.sni {
            metadata::set(&mut draft.cluster, "external", truth());
        }
        if let Some(rule) = self.rule {
            metadata::set_rule(&mut draft.cluster, rule.name());
            keep_alpn(&mut draft, policy);
        }
        let picked = self.service.picker.is_some() && !self.key.sni;
        if picked && self.key.client.role == Role::Router {
            load_balancer::follow_picker(&mut draft);
        }
        self.add(draft, made);

        if is_dynamic(self.service) || self.extent != Extent::All {
            return;
        }
        let Some(rule) = self.rule else { return };
        for subset in &rule.spec().subsets {
            if let Some(draft) = self.subset(port, policy, subset, rule) {
                self.add(draft, made);
            }
        }
    }

    fn subset(
        &self,
        port: &'a Port,
        base: Option<Policy<'a>>,
        subset: &'a Subset,
        rule: &MergedDestinationRule,
    ) -> Option<Draft<'a>> {
        let over = subset.traffic_policy.as_ref();
        let policy = Policy::with_subset(base, over, port.number);
        let variant = Variant {
            port,
            subset: &subset.name,
            policy,
            accepts: self.accepts_of(over, port),
            // A subset cannot take back what the rule lets pass.
            original: lets_pass(base)
                || load_balancer::simple(over.and_then(|p| p.load_balancer.as_ref()))
                    == SimpleLb::Passthrough,
        };
        let mut draft = self.draft(&variant)?;
        self.apply(&mut draft, &variant);
        metadata::set_rule(&mut draft.cluster, rule.name());
        metadata::set(&mut draft.cluster, "subset", text(&*subset.name));
        keep_alpn(&mut draft, policy);
        Some(draft)
    }

    fn add(&self, mut draft: Draft<'_>, made: &mut Vec<Arc<Resource>>) {
        if let Some(options) = &self.key.client.options {
            options.limit(&mut draft, self.key.sni);
        }
        let context = self.key.client.context();
        made.extend(encode(&self.key.patches, context, draft.finish(), &[]));
    }

    /// Istio: buildCluster; buildDFPCluster.
    fn draft(&self, variant: &Variant<'a>) -> Option<Draft<'a>> {
        let (service, port) = (self.service, variant.port);
        let name = match self.key.sni {
            true => cluster_names::outbound_sni(port.number, variant.subset, &service.host),
            false => cluster_names::outbound(port.number, variant.subset, &service.host),
        };
        if is_dynamic(service) {
            return self.dynamic(name, port);
        }
        let ty = if variant.original {
            DiscoveryType::OriginalDst
        } else {
            discovery(self.settings, service, self.key.client.role)
        };
        let mut draft = Draft::new(name, ty);
        match ty {
            DiscoveryType::StrictDns | DiscoveryType::LogicalDns => {
                let mut groups = self.selection()?.groups(port, variant.subset, By::Number);
                if self.key.sni {
                    only_mutual_tls(&mut groups);
                }
                if groups.is_empty() {
                    return None;
                }
                if ty == DiscoveryType::LogicalDns && !is_one(&groups) {
                    // Envoy refuses such a cluster with more or fewer endpoints than one.
                    draft.find_by(DiscoveryType::StrictDns);
                }
                draft.groups = Some(groups);
                self.apply_dns(&mut draft);
            }
            DiscoveryType::OriginalDst => {
                let target = service.passthrough_ports.iter();
                let target = target.copied().find(|(own, _)| *own == port.number);
                if let Some((_, target)) = target {
                    let config = OriginalDstLbConfig {
                        upstream_port_override: Some(u32::from(target)),
                        ..OriginalDstLbConfig::default()
                    };
                    draft.cluster.lb_config = Some(LbConfig::OriginalDstLbConfig(config));
                }
            }
            DiscoveryType::Static | DiscoveryType::Eds => {}
        }
        choose_protocol(&mut draft, &self.key.client, port);
        if let Some(options) = &self.key.client.options {
            options.choose_protocol(&mut draft, &service.host, port);
        }
        metadata::set_services(&mut draft.cluster, std::iter::once(service));
        let pattern = &self.settings.mesh.outbound_cluster_stat_name;
        if !pattern.is_empty() {
            let prefix = cluster_names::stat_prefix(pattern, service, variant.subset, port, 0);
            draft.cluster.alt_stat_name = cluster_names::stats(&prefix);
        }
        Some(draft)
    }

    fn dynamic(&self, name: String, port: &Port) -> Option<Draft<'a>> {
        let protocols = [
            Protocol::Http,
            Protocol::Tls,
            Protocol::Grpc,
            Protocol::Http2,
        ];
        if !protocols.contains(&port.protocol) {
            return None;
        }
        let cache = DnsCacheConfig {
            name: cluster_names::dns_cache(&self.service.host),
            dns_lookup_family: lookup_family(self.settings, self.key.client.families) as i32,
            ..DnsCacheConfig::default()
        };
        let config = ClusterConfig {
            cluster_implementation_specifier: Some(ClusterImplementationSpecifier::DnsCacheConfig(
                cache,
            )),
            ..ClusterConfig::default()
        };
        let mut draft = Draft::dynamic(name, config);
        choose_protocol(&mut draft, &self.key.client, port);
        Some(draft)
    }

    fn selection(&self) -> Option<Selection<'a>> {
        Some(Selection {
            service: self.service,
            rule: self.rule,
            client: self.key.endpoints.as_ref()?,
            settings: self.settings,
            known: self.known?,
        })
    }

    #[expect(deprecated, reason = "what Istio's proxies of all versions understand")]
    fn apply_dns(&self, draft: &mut Draft<'_>) {
        let is_logical = draft.discovery() == Some(DiscoveryType::LogicalDns);
        let cluster = &mut draft.cluster;
        let races = self.service.race_first_connect && self.service.resolution == Resolution::Dns;
        // Without one host for all addresses nothing races, and addresses of a family that the client lacks are of no use.
        let family = match races && is_logical {
            true => DnsLookupFamily::All,
            false => lookup_family(self.settings, self.key.client.families),
        };
        cluster.dns_lookup_family = family as i32;
        cluster.dns_jitter = Some(DNS_JITTER);
        cluster.dns_refresh_rate = self.settings.mesh.dns_refresh_rate.map(|d| d.0);
        cluster.respect_dns_ttl = true;
        if self.key.client.cares {
            cluster.typed_dns_resolver_config = Some(TypedExtensionConfig {
                name: CARES.to_owned(),
                typed_config: Some(any(&CaresDnsResolverConfig {
                    udp_max_queries: Some(MAX_QUERIES),
                    ..CaresDnsResolverConfig::default()
                })),
            });
        }
    }

    /// Istio: applyTrafficPolicy.
    fn apply(&self, draft: &mut Draft<'_>, variant: &Variant<'_>) {
        let (settings, service) = (self.settings, self.service);
        let mesh = &settings.mesh;
        let policy = variant.policy.unwrap_or_default();
        traffic_policy::apply_upgrade(draft, mesh, variant.port, policy.connection_pool);
        traffic_policy::apply_connection_pool(
            draft,
            mesh,
            policy.connection_pool,
            policy.retry_budget,
        );
        let clusters = cluster_count(service, self.rule);
        if let Some(outlier) = policy.outlier_detection {
            let of = (service, clusters);
            traffic_policy::apply_outlier_detection(draft, settings, of, outlier);
        }
        let client = self.key.endpoints.as_deref();
        let most_hashed = hash_table::most(clusters);
        let of = (service, variant.port.protocol, most_hashed);
        load_balancer::apply(draft, settings, of, policy.load_balancer, client);
        if !self.key.sni {
            let dynamic = draft.dynamic.is_some();
            let sni = if dynamic {
                String::new()
            } else {
                cluster_names::outbound_sni(variant.port.number, variant.subset, &service.host)
            };
            let peer = tls::Peer {
                identities: if dynamic { &[] } else { self.identities },
                sni: &sni,
                external: service.mesh_external,
                registry: service.registry,
                accepts: variant.accepts,
                selected: self.rule.is_some_and(|r| r.selector().is_some()),
            };
            tls::apply(draft, &self.key.client, mesh, policy.tls, &peer);
            if let Some(proxy) = policy.proxy_protocol {
                tls::apply_proxy_protocol(draft, proxy.version);
            }
        }
        apply_eds(draft);
        metadata_exchange(&mut draft.cluster, self.key.client.metadata_exchange);
    }

    /// What the servers of a port accept; `None` where that does not matter or is not known.
    ///
    /// Istio: pilot/pkg/model/push_context.go BestEffortInferServiceMTLSMode, 1.32.
    fn accepts_of(
        &self,
        policy: Option<&proto_istio::networking::TrafficPolicy>,
        port: &Port,
    ) -> Option<MutualTls> {
        if self.key.sni || self.service.mesh_external {
            return None;
        }
        let lb = policy.and_then(|p| p.load_balancer.as_ref());
        let passes = self.service.resolution == Resolution::Passthrough
            || load_balancer::simple(lb) == SimpleLb::Passthrough;
        if passes {
            // The proxy cannot tell endpoints apart there: all of them or none.
            let mut of_port = self
                .known?
                .endpoints
                .iter()
                .filter(|e| match e.service_port {
                    _ if self.service.picker.is_some() => true,
                    0 => e.port_name == port.name,
                    number => number == port.number,
                })
                .peekable();
            if of_port.peek().is_none() || of_port.any(|e| !e.mutual_tls) {
                return Some(MutualTls::Disable);
            }
        }
        Some(self.accepts)
    }
}

/// Whether the groups hold a single endpoint.
fn is_one(groups: &[Group<'_>]) -> bool {
    matches!(groups, [group] if group.members.len() == 1)
}

/// Sessions may stick to endpoints that are shutting down.
pub(crate) fn carries_sessions(service: &Service) -> bool {
    has_label(service, PERSISTENT_SESSION) || has_label(service, PERSISTENT_SESSION_HEADER)
}

fn keep_draining(draft: &mut Draft<'_>) {
    if draft.dynamic.is_some() {
        return;
    }
    draft.common_lb().override_host_status = Some(kept());
}

/// Endpoints in these states keep their sessions.
pub(crate) fn kept() -> HealthStatusSet {
    let kept = [
        HealthStatus::Healthy,
        HealthStatus::Draining,
        HealthStatus::Unknown,
        HealthStatus::Degraded,
    ];
    HealthStatusSet {
        statuses: kept.iter().map(|s| *s as i32).collect(),
    }
}

/// Connections that users encrypt keep the ALPN that they have.
fn keep_alpn(draft: &mut Draft<'_>, policy: Option<Policy<'_>>) {
    let mode = policy.and_then(|p| p.tls).map(|t| t.mode);
    if [TlSmode::Simple as i32, TlSmode::Mutual as i32]
        .iter()
        .any(|m| mode == Some(*m))
    {
        metadata::set(&mut draft.cluster, "alpn_override", text("false"));
    }
}

/// Istio: setUpstreamProtocol.
pub(super) fn choose_protocol(draft: &mut Draft<'_>, client: &ClusterClient, port: &Port) {
    if port.protocol.is_http2() {
        draft.speak_http2();
        return;
    }
    let sniffed = port.protocol.is_unsupported();
    if client.keep_header_case && (port.protocol.is_http() || sniffed) {
        draft.keep_header_case();
    }
    // Gateways do not look into what they get, and offer HTTP/2 to everybody.
    if sniffed && matches!(client.role, Role::Sidecar | Role::Waypoint) {
        draft.speak_as_client();
    }
}

/// Istio: maybeApplyEdsConfig.
fn apply_eds(draft: &mut Draft<'_>) {
    if draft.discovery() != Some(DiscoveryType::Eds) {
        return;
    }
    draft.cluster.eds_cluster_config = Some(EdsClusterConfig {
        service_name: draft.cluster.name.clone(),
        eds_config: Some(ConfigSource {
            config_source_specifier: Some(ConfigSourceSpecifier::Ads(
                AggregatedConfigSource::default(),
            )),
            initial_fetch_timeout: Some(Duration::default()),
            resource_api_version: ApiVersion::V3 as i32,
            ..ConfigSource::default()
        }),
    });
}

/// For providers without a registry of their own.
pub(super) const NO_REGISTRY: Registry = Registry::Kubernetes;
