//! Endpoints grouped by locality, while they are weighed and ordered; and their encoding.

use std::collections::BTreeMap;

use mesh::network_gateways::NetworkGateway;
use model::service::{Address, Endpoint, Health, Locality};
use prost_types::Struct;
use prost_types::value::Kind;
use proto_envoy::envoy::config::core::v3 as core;
use proto_envoy::envoy::config::core::v3::address::Address as EnvoyAddress;
use proto_envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use proto_envoy::envoy::config::core::v3::{HealthStatus, Metadata, Pipe, SocketAddress};
use proto_envoy::envoy::config::endpoint::v3::endpoint::AdditionalAddress;
use proto_envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use proto_envoy::envoy::config::endpoint::v3::{self as envoy, LbEndpoint, LocalityLbEndpoints};

use super::locality::PLACE;

/// Endpoints with a value for this label are shutting down.
const DRAINING: &str = "istio.io/draining";

/// Endpoints of one locality, or of one priority within it.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    pub(super) locality: &'a Locality,
    pub(super) priority: u32,
    /// The weight of the group among its siblings.
    pub(super) weight: Option<u32>,
    pub(crate) members: Vec<Member<'a>>,
}

/// One endpoint as a client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) target: Target<'a>,
    pub(super) weight: u32,
    /// Whether the client should speak mutual TLS with it.
    pub(super) mutual_tls: bool,
    /// Whether its further addresses are sent too.
    pub(super) all_addresses: bool,
}

/// Where the client connects to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// The workload itself.
    Workload(&'a Endpoint),
    /// A gateway of the workload's network.
    Gateway(&'a NetworkGateway),
}

impl Group<'_> {
    /// Sets the weight to the sum of those of the members.
    pub(crate) fn weigh(&mut self) {
        let weights = self.members.iter().map(|m| m.weight);
        let sum = weights.fold(0, u32::saturating_add);
        self.weight = (!self.members.is_empty()).then_some(sum);
    }
}

impl Member<'_> {
    /// A label of the workload; of a gateway, those that say where it stands.
    pub(super) fn label(&self, name: &str) -> &str {
        match self.target {
            Target::Workload(endpoint) => endpoint.labels.get(name).unwrap_or_default(),
            Target::Gateway(gateway) => {
                let [_, _, _, network, cluster, _] = PLACE;
                match name {
                    n if n == network => &gateway.network,
                    n if n == cluster => &gateway.cluster,
                    _ => "",
                }
            }
        }
    }
}

/// Raises weights that are small beside the sum of all, so that it is at most about so many times each of them.
pub(crate) fn even_out(groups: &mut [Group<'_>], times: u64) {
    let (mut sum, mut most) = (0, 0);
    for member in groups.iter().flat_map(|group| &group.members) {
        sum += u64::from(member.weight);
        most = most.max(member.weight);
    }
    let least = u32::try_from(sum / times.max(1)).map_or(most, |least| least.min(most));
    // Weights of zero stay as they are where nothing is raised.
    if least < 2 {
        return;
    }
    for group in groups {
        for member in &mut group.members {
            member.weight = member.weight.max(least);
        }
        if group.weight.is_some() {
            group.weigh();
        }
    }
}

/// The message for each group.
pub(crate) fn encode(groups: &[Group<'_>]) -> Vec<LocalityLbEndpoints> {
    groups
        .iter()
        .map(|group| LocalityLbEndpoints {
            locality: Some(core::Locality {
                region: group.locality.region.to_string(),
                zone: group.locality.zone.to_string(),
                sub_zone: group.locality.subzone.to_string(),
            }),
            lb_endpoints: group.members.iter().map(encode_member).collect(),
            load_balancing_weight: group.weight,
            priority: group.priority,
            ..LocalityLbEndpoints::default()
        })
        .collect()
}

fn encode_member(member: &Member<'_>) -> LbEndpoint {
    let (health, endpoint, telemetry) = match member.target {
        Target::Workload(workload) => (
            health(workload),
            address_of(&workload.address, member.all_addresses),
            telemetry_label(workload),
        ),
        Target::Gateway(gateway) => (
            HealthStatus::Unknown,
            envoy::Endpoint {
                address: Some(socket(&gateway.address, gateway.port)),
                ..envoy::Endpoint::default()
            },
            format!(";;;;{}", gateway.cluster),
        ),
    };
    let field = |key: &str, value: String| {
        let value = prost_types::Value {
            kind: Some(Kind::StringValue(value)),
        };
        Struct {
            fields: BTreeMap::from([(key.to_owned(), value)]),
        }
    };
    let mut metadata = Metadata::default();
    let mut set = |filter: &str, value| {
        metadata.filter_metadata.insert(filter.to_owned(), value);
    };
    set("istio", field("workload", telemetry));
    if member.mutual_tls {
        set(
            "envoy.transport_socket_match",
            field("tlsMode", "istio".to_owned()),
        );
    }
    LbEndpoint {
        health_status: health as i32,
        metadata: Some(metadata),
        load_balancing_weight: Some(member.weight),
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
    }
}

fn health(endpoint: &Endpoint) -> HealthStatus {
    if is_draining(endpoint) {
        return HealthStatus::Draining;
    }
    match endpoint.health {
        Health::Healthy => HealthStatus::Healthy,
        Health::Unhealthy => HealthStatus::Unhealthy,
        Health::Unknown | Health::Draining | Health::Terminating => HealthStatus::Unknown,
    }
}

/// Whether an endpoint is shutting down and only keeps the sessions it has.
pub(super) fn is_draining(endpoint: &Endpoint) -> bool {
    let label = endpoint.labels.get(DRAINING);
    endpoint.health == Health::Draining || label.is_some_and(|v| !v.is_empty())
}

fn address_of(address: &Address, all: bool) -> envoy::Endpoint {
    let mut endpoint = envoy::Endpoint::default();
    match address {
        Address::Unix(path) => endpoint.address = Some(pipe(path)),
        Address::Socket { hosts, port } => {
            let mut addresses = hosts.iter().map(|host| socket(host, *port));
            endpoint.address = addresses.next();
            if all {
                let more = |address| AdditionalAddress {
                    address: Some(address),
                };
                endpoint.additional_addresses = addresses.map(more).collect();
            }
        }
    }
    endpoint
}

/// A TCP address; a path where there is no port.
///
/// Istio: pilot/pkg/networking/util/util.go BuildAddress, 1.32.
pub(crate) fn socket(host: &str, port: u16) -> core::Address {
    if port == 0 {
        return pipe(host);
    }
    core::Address {
        address: Some(EnvoyAddress::SocketAddress(SocketAddress {
            address: host.to_owned(),
            port_specifier: Some(PortSpecifier::PortValue(u32::from(port))),
            ..SocketAddress::default()
        })),
    }
}

/// The path of a Unix socket, with or without `unix://`.
pub(crate) fn pipe(path: &str) -> core::Address {
    core::Address {
        address: Some(EnvoyAddress::Pipe(Pipe {
            path: path.strip_prefix("unix://").unwrap_or(path).to_owned(),
            ..Pipe::default()
        })),
    }
}

/// `workload;namespace;canonical name;canonical revision;cluster`: for metrics of clients whose servers say nothing.
///
/// Istio: pilot/pkg/networking/util/util.go AppendLbEndpointMetadata, 1.32.
fn telemetry_label(endpoint: &Endpoint) -> String {
    let first = |names: [&str; 3]| names.into_iter().find_map(|n| endpoint.labels.get(n));
    let name = first([
        "service.istio.io/canonical-name",
        "app.kubernetes.io/name",
        "app",
    ]);
    let revision = first([
        "service.istio.io/canonical-revision",
        "app.kubernetes.io/version",
        "version",
    ]);
    format!(
        "{};{};{};{};{}",
        endpoint.workload,
        endpoint.namespace,
        name.unwrap_or(&endpoint.workload),
        // The default is not worth its bytes.
        revision.filter(|r| *r != "latest").unwrap_or_default(),
        endpoint.cluster,
    )
}
