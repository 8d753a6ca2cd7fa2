//! Services, their ports and their endpoints, whatever they were derived from.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::age::Age;
use crate::host::Hostname;
use crate::labels::Labels;
use crate::names::{ClusterId, Name, Namespace, Network};
use crate::object::ObjectKey;
use crate::protocol::Protocol;

/// Values by cluster, sorted by its name.
pub type PerCluster<T> = Arc<[(ClusterId, Arc<[T]>)]>;

/// How the addresses behind a service are found by the proxy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resolution {
    /// Endpoints are given (EDS). Istio: `ClientSideLB`.
    ClientSide,
    /// The proxy resolves the endpoints' names and uses every address. Istio: `DNSLB`.
    Dns,
    /// The proxy resolves one name and uses the first address. Istio: `DNSRoundRobinLB`.
    DnsRoundRobin,
    /// The proxy goes to the address the client dialled. Istio: `Passthrough`.
    Passthrough,
    /// Names resolved as requests come (dynamic forward proxy). Istio: `DynamicDNS`.
    DynamicDns,
    /// Another name of a service; takes its endpoints. Istio: `Alias`.
    Alias,
}

/// Which registry a service comes from; decides precedence and some defaults.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Registry {
    /// A Kubernetes Service.
    Kubernetes,
    /// A ServiceEntry, or a registry that speaks in ServiceEntries.
    External,
}

/// A port of a service.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Port {
    /// Its name; unique within the service.
    pub name: Arc<str>,
    /// The port clients dial.
    pub number: u16,
    /// What it speaks.
    pub protocol: Protocol,
}

/// A service as generation sees it: everything but its endpoints.
///
/// A ServiceEntry with several addresses is several services of one host that differ in [`Service::default_address`],
/// as in Istio. Two equal values make equal resources; a change of endpoints alone leaves the service equal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Service {
    /// Fully qualified host.
    pub host: Hostname,
    /// The namespace it lives in.
    pub namespace: Namespace,
    /// Name of the Kubernetes Service; for a ServiceEntry, its host.
    pub name: Name,
    /// The object it was derived from.
    pub object: ObjectKey,
    /// Where it comes from.
    pub registry: Registry,
    /// Its ports, in the order written.
    pub ports: Arc<[Port]>,
    /// How endpoints are found.
    pub resolution: Resolution,
    /// The first virtual IP or `0.0.0.0`; for a ServiceEntry the address (IP or CIDR) that this service stands for.
    pub default_address: Arc<str>,
    /// Virtual IPs by cluster; none for a ServiceEntry.
    pub cluster_vips: PerCluster<Arc<str>>,
    /// Automatically allocated address for IPv4, if any.
    pub auto_ipv4: Option<IpAddr>,
    /// Automatically allocated address for IPv6, if any.
    pub auto_ipv6: Option<IpAddr>,
    /// `MESH_EXTERNAL`.
    pub mesh_external: bool,
    /// Who may see it; already resolved from annotation, spec and mesh default.
    pub export_to: Visibility,
    /// Labels of the object (not of its workloads).
    pub labels: Labels,
    /// Labels that select its workloads; empty where nothing is selected.
    pub selector: Labels,
    /// When it was created.
    pub created: Age,
    /// Identities stated on the service itself (`subjectAltNames`, annotations), as written.
    pub service_accounts: Arc<[Arc<str>]>,
    /// Hosts that name this service as their alias (ExternalName services that point here), sorted.
    pub aliases: Arc<[ServiceAlias]>,
    /// Target ports by port where the proxy goes to the address that the client dialled, sorted.
    pub passthrough_ports: Arc<[(u16, u16)]>,
    /// Whether all addresses of a name are raced for (`istio.io/connect-strategy`).
    pub race_first_connect: bool,
    /// Kubernetes attributes; defaults for a ServiceEntry.
    pub kube: KubeAttributes,
    /// Who picks the endpoint of each request, of those of all its ports together: for an InferencePool.
    pub picker: Option<Arc<Picker>>,
}

/// An endpoint picker: a server of Envoy's `ext_proc`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Picker {
    /// The host of its service.
    pub host: Hostname,
    /// The port of that.
    pub port: u16,
    /// Whether requests go to any endpoint while it does not answer.
    pub fails_open: bool,
}

/// Another name of a service.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ServiceAlias {
    /// The alias's namespace.
    pub namespace: Namespace,
    /// The alias's host.
    pub host: Hostname,
}

/// What only a Kubernetes Service has.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct KubeAttributes {
    /// `spec.type`, empty for the default `ClusterIP`.
    pub service_type: Arc<str>,
    /// The target of an `ExternalName` service.
    pub external_name: Arc<str>,
    /// `internalTrafficPolicy: Local`.
    pub node_local: bool,
    /// `trafficDistribution` or its annotation.
    pub traffic_distribution: TrafficDistribution,
    /// `publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// Load balancer addresses and external IPs by cluster.
    pub external_addresses: PerCluster<Arc<str>>,
    /// Service port to node port, by cluster.
    pub external_ports: PerCluster<(u16, u16)>,
    /// The name of the ServiceEntry; empty for a Service, whose name says it.
    pub object_name: Name,
}

/// Preference for near endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum TrafficDistribution {
    /// No preference.
    #[default]
    Any,
    /// Same zone first.
    PreferSameZone,
    /// Same node first.
    PreferSameNode,
    /// Same network first.
    PreferSameNetwork,
}

/// The namespaces that may see an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Visibility {
    /// Everybody.
    Public,
    /// Only the namespaces listed (own namespace already written out), sorted; empty is nobody (`~`).
    Namespaces(Arc<[Namespace]>),
}

impl Service {
    /// The ports that have clusters. Of a service with an endpoint picker that is the first, with the endpoints of all.
    ///
    /// Istio: pilot/pkg/networking/core/cluster.go buildOutboundClusters, 1.32.
    pub fn cluster_ports(&self) -> &[Port] {
        match self.picker {
            Some(_) => self.ports.get(..1).unwrap_or_default(),
            None => &self.ports,
        }
    }
}

impl Visibility {
    /// Whether `namespace` may see it.
    pub fn allows(&self, namespace: &Namespace) -> bool {
        match self {
            Visibility::Public => true,
            Visibility::Namespaces(list) => list.binary_search(namespace).is_ok(),
        }
    }
}

/// Region, zone and sub-zone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Locality {
    /// Region; empty is unknown.
    pub region: Arc<str>,
    /// Zone.
    pub zone: Arc<str>,
    /// Sub-zone.
    pub subzone: Arc<str>,
}

impl Locality {
    /// Reads `region/zone/subzone`, later parts optional; what follows them is dropped.
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split('/');
        let mut next = || Arc::from(parts.next().unwrap_or(""));
        Self {
            region: next(),
            zone: next(),
            subzone: next(),
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.region.is_empty() && self.zone.is_empty() && self.subzone.is_empty()
    }
}

impl fmt::Display for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.region)?;
        for part in [&self.zone, &self.subzone] {
            if part.is_empty() {
                break;
            }
            write!(f, "/{part}")?;
        }
        Ok(())
    }
}

/// Whether an endpoint should get traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Health {
    /// Nobody says; counts as ready.
    #[default]
    Unknown,
    /// Ready.
    Healthy,
    /// Not ready.
    Unhealthy,
    /// Shutting down, still serving what it has (persistent sessions).
    Draining,
    /// Shutting down.
    Terminating,
}

/// Where an endpoint listens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// An IP address, or a host name where the service resolves names; with its port.
    Socket {
        /// IP or host name. The first is the primary one; others are further families of the same workload.
        hosts: Arc<[Arc<str>]>,
        /// Target port.
        port: u16,
    },
    /// A Unix domain socket.
    Unix(Arc<str>),
}

impl Address {
    /// The primary IP address or host name; the path of a socket.
    pub fn primary(&self) -> &str {
        match self {
            Address::Socket { hosts, .. } => hosts.first().map_or("", |h| h),
            Address::Unix(path) => path,
        }
    }
}

impl Default for Address {
    fn default() -> Self {
        Address::Socket {
            hosts: Arc::from([]),
            port: 0,
        }
    }
}

/// One endpoint of one port of a service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Endpoint {
    /// Where it listens.
    pub address: Address,
    /// The name of the service port it serves; what EDS selects by.
    pub port_name: Arc<str>,
    /// The number of the port of the ServiceEntry it was made for, 0 where only the name counts; what clusters that
    /// carry their endpoints select by. Istio: `LegacyClusterPortKey`.
    pub service_port: u16,
    /// Labels of the workload, with those of its topology (region, zone, cluster, node, network).
    pub labels: Labels,
    /// Its identity, `spiffe://...`; empty if unknown.
    pub service_account: Arc<str>,
    /// Its network; empty for the default one.
    pub network: Network,
    /// Where it runs.
    pub locality: Locality,
    /// The cluster it runs in.
    pub cluster: ClusterId,
    /// Load-balancing weight; 0 where none is given.
    pub weight: u32,
    /// Whether it should get traffic.
    pub health: Health,
    /// Whether it takes Istio mutual TLS (`security.istio.io/tlsMode: istio`).
    pub mutual_tls: bool,
    /// Name of the workload, for telemetry.
    pub workload: Arc<str>,
    /// Namespace of the workload.
    pub namespace: Namespace,
    /// Node it runs on; empty if unknown.
    pub node: Arc<str>,
    /// Pod's host name and subdomain, for headless names.
    pub hostname: Arc<str>,
    /// Subdomain.
    pub subdomain: Arc<str>,
    /// Whether only clients of the same cluster may use it.
    pub cluster_local: bool,
}
