//! What a cluster leads to.

use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use proto_envoy::envoy::config::core::v3::HealthStatus;
use proto_envoy::envoy::config::core::v3::address::Address as Form;
use proto_envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use proto_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use proto_envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;

use crate::location::Location;
use crate::resources::Resources;

/// A cluster that a request may be sent to.
#[derive(Clone, PartialEq, Debug)]
pub struct Destination {
    /// Its name.
    pub cluster: String,
    /// Its share of the requests, of `total`.
    pub weight: u32,
    /// The sum of the weights of all destinations.
    pub total: u32,
    /// Whether the proxy has the cluster.
    pub known: bool,
    /// How its endpoints are found: `EDS`, `STRICT_DNS`, `ORIGINAL_DST`.
    pub discovery: String,
    /// How one of them is chosen: `ROUND_ROBIN`.
    pub load_balancer: String,
    /// Its endpoints, those of the first priority first.
    pub endpoints: Vec<Endpoint>,
    /// Where it and its endpoints stand in the proxy's resources, as far as they do.
    pub at: Vec<Location>,
}

/// An endpoint of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Address and port, or the path of a socket.
    pub address: String,
    /// `region/zone/subzone`, as far as known.
    pub locality: String,
    /// 0 is chosen from first.
    pub priority: u32,
    /// Its weight among those of its locality.
    pub weight: u32,
    /// What the control plane says of its health.
    pub health: Health,
}

/// What the control plane says of an endpoint's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// Nothing against it.
    Healthy,
    /// It takes no new connections.
    Draining,
    /// It cannot be used.
    Unhealthy,
}

impl Destination {
    /// A cluster with its share.
    pub(crate) fn of(resources: &Resources, name: &str, weight: u32, total: u32) -> Self {
        let cluster = resources.clusters.get(name);
        let assignment = cluster.and_then(|c| assignment(resources, c));
        let mut at: Vec<Location> = cluster.iter().map(|_| Location::cluster(name)).collect();
        if let Some(assignment) = assignment
            && cluster.is_some_and(|c| c.load_assignment.is_none())
        {
            at.push(Location::endpoints(&assignment.cluster_name));
        }
        let mut endpoints: Vec<Endpoint> = assignment.map(endpoints).unwrap_or_default();
        endpoints.sort_by_key(|e| e.priority);
        Self {
            cluster: name.to_owned(),
            weight,
            total,
            known: cluster.is_some(),
            discovery: cluster.map(discovery).unwrap_or_default(),
            load_balancer: cluster.map(load_balancer).unwrap_or_default(),
            endpoints,
            at,
        }
    }
}

fn load_balancer(cluster: &Cluster) -> String {
    cluster.lb_policy().as_str_name().to_owned()
}

fn discovery(cluster: &Cluster) -> String {
    match &cluster.cluster_discovery_type {
        Some(ClusterDiscoveryType::Type(kind)) => DiscoveryType::try_from(*kind)
            .map(|d| d.as_str_name().to_owned())
            .unwrap_or_default(),
        Some(ClusterDiscoveryType::ClusterType(custom)) => custom.name.clone(),
        None => DiscoveryType::Static.as_str_name().to_owned(),
    }
}

fn assignment<'a>(
    resources: &'a Resources,
    cluster: &'a Cluster,
) -> Option<&'a ClusterLoadAssignment> {
    if cluster.load_assignment.is_some() {
        return cluster.load_assignment.as_ref();
    }
    let service = cluster.eds_cluster_config.as_ref()?.service_name.as_str();
    let name = if service.is_empty() {
        &cluster.name
    } else {
        service
    };
    resources.endpoints.get(name)
}

fn endpoints(assignment: &ClusterLoadAssignment) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for group in &assignment.endpoints {
        let locality = group.locality.as_ref().map(|l| {
            let parts = [&l.region, &l.zone, &l.sub_zone];
            let parts: Vec<&str> = parts.into_iter().map(String::as_str).collect();
            parts.join("/").trim_end_matches('/').to_owned()
        });
        for endpoint in &group.lb_endpoints {
            let Some(HostIdentifier::Endpoint(host)) = &endpoint.host_identifier else {
                continue;
            };
            let address = host.address.as_ref().and_then(|a| a.address.as_ref());
            found.push(Endpoint {
                address: address.map(shown).unwrap_or_default(),
                locality: locality.clone().unwrap_or_default(),
                priority: group.priority,
                weight: endpoint.load_balancing_weight.unwrap_or(1),
                health: match endpoint.health_status() {
                    HealthStatus::Unknown | HealthStatus::Healthy => Health::Healthy,
                    HealthStatus::Draining => Health::Draining,
                    HealthStatus::Unhealthy | HealthStatus::Timeout | HealthStatus::Degraded => {
                        Health::Unhealthy
                    }
                },
            });
        }
    }
    found
}

fn shown(address: &Form) -> String {
    match address {
        Form::SocketAddress(socket) => {
            let host = &socket.address;
            let port = match &socket.port_specifier {
                Some(PortSpecifier::PortValue(port)) => port.to_string(),
                Some(PortSpecifier::NamedPort(name)) => name.clone(),
                None => String::new(),
            };
            if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            }
        }
        Form::Pipe(pipe) => pipe.path.clone(),
        Form::EnvoyInternalAddress(_) => "internal".to_owned(),
    }
}
