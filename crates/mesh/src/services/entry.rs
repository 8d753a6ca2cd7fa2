//! From a ServiceEntry to its services.
//!
//! Istio: pilot/pkg/serviceregistry/serviceentry/conversion.go convertServices, 1.32.

use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use ipnet::IpNet;
use model::diagnostic::Diagnostic;
use model::host::canonical;
use model::kinds::Kind;
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::ANY_HOST;
use model::names::Name;
use model::object::{Object, ObjectName};
use model::protocol::Protocol;
use model::service::{KubeAttributes, Port, Registry, Resolution, Service};
use model::{Hostname, Labels};
use proto_istio::networking::service_entry;
use store::{Reads, Snapshot};

use super::charge::entry_is_over;
use super::{ServiceList, alias, allocation, kube, visibility};
use crate::limits;

/// Whether a host is `*`. Istio's webhook refuses it; with warnings only it would stand twice in each configuration of routes, which
/// Envoy then refuses whole.
fn is_everything(host: &str) -> bool {
    *canonical(host) == *ANY_HOST
}

/// The address of a service that has none.
pub(super) const UNSPECIFIED: &str = "0.0.0.0";

/// The services of a ServiceEntry: for each of its hosts one for each of its addresses, or one where it has none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EntryServices(pub ObjectName);

impl Query<Snapshot> for EntryServices {
    type Value = ServiceList;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ServiceList {
        match cx.get::<ServiceEntry>(&self.0) {
            Some(entry) if excess(&entry).is_none() && !entry_is_over(cx, &entry) => {
                convert(cx, &entry)
            }
            Some(_) => Arc::from([]),
            None => Arc::from([]),
        }
    }
}

/// Why a ServiceEntry has no services: what it says multiplies beyond a limit.
pub fn excess(entry: &Object<ServiceEntry>) -> Option<Diagnostic> {
    let spec = &entry.spec;
    let of = (Kind::ServiceEntry, &entry.meta.name);
    let served = spec.hosts.len().saturating_mul(spec.ports.len());
    let ports = served.saturating_mul(spec.addresses.len().max(1));
    if ports > limits::ENTRY_PORTS {
        let why = format!(
            "it has no services: hosts, times addresses, times ports are {ports}, more than {}",
            limits::ENTRY_PORTS
        );
        return Some(limits::exceeded(of, "spec.hosts", why));
    }
    let names: usize = spec.subject_alt_names.iter().map(String::len).sum();
    (names.saturating_mul(served) > limits::ENTRY_NAME_BYTES).then(|| {
        let why = format!(
            "it has no services: names of servers, times hosts, times ports are more than {} MiB",
            limits::ENTRY_NAME_BYTES >> 20
        );
        limits::exceeded(of, "spec.subjectAltNames", why)
    })
}

/// How many endpoints a ServiceEntry has with so many workloads, where they are more than it may have.
pub fn too_many_endpoints(spec: &ServiceEntry, workloads: usize) -> Option<usize> {
    let addresses = spec.addresses.len().max(1);
    let factors = [spec.hosts.len(), addresses, spec.ports.len(), workloads];
    let count = limits::product(factors);
    (count > limits::ENTRY_ENDPOINTS).then_some(count)
}

fn convert(cx: &Cx<'_, Snapshot>, entry: &Object<ServiceEntry>) -> ServiceList {
    let spec = &entry.spec;
    let meta = &entry.meta;
    let resolution = resolution(spec);
    let ports: Arc<[Port]> = spec.ports.iter().map(port).collect();
    let service = Service {
        host: Hostname::default(),
        namespace: meta.namespace().clone(),
        name: Name::default(),
        object: entry.key(),
        registry: Registry::External,
        ports,
        resolution,
        default_address: Arc::from(UNSPECIFIED),
        cluster_vips: Arc::from([]),
        auto_ipv4: None,
        auto_ipv6: None,
        mesh_external: spec.location() == service_entry::Location::MeshExternal,
        export_to: visibility::of_entry(cx, meta.namespace(), &spec.export_to),
        labels: labels(cx, entry),
        selector: spec
            .workload_selector
            .as_ref()
            .map(|s| Labels::from(&s.labels))
            .unwrap_or_default(),
        created: meta.created,
        service_accounts: spec
            .subject_alt_names
            .iter()
            .map(|san| Arc::from(san.as_str()))
            .collect(),
        aliases: Arc::from([]),
        passthrough_ports: passthrough_ports(spec, resolution),
        race_first_connect: meta
            .annotations
            .get("istio.io/connect-strategy")
            .is_some_and(|s| s.eq_ignore_ascii_case("RACE_FIRST_TCP_CONNECT")),
        picker: None,
        kube: KubeAttributes {
            traffic_distribution: kube::traffic_distribution(
                cx,
                "",
                &meta.annotations,
                (meta.namespace(), None),
            ),
            object_name: meta.name.name.clone(),
            ..KubeAttributes::default()
        },
    };
    let addresses = own_addresses(cx, entry);
    let mut services = Vec::with_capacity(spec.hosts.len() * addresses.len().max(1));
    for host in spec.hosts.iter().filter(|host| !is_everything(host)) {
        let service = Service {
            host: host.as_str().into(),
            name: host.as_str().into(),
            aliases: alias::aliases_of(cx, host),
            ..service.clone()
        };
        if spec.addresses.is_empty() {
            let (auto_ipv4, auto_ipv6) = allocation::addresses_of(cx, entry, host);
            services.push(Arc::new(Service {
                auto_ipv4,
                auto_ipv6,
                ..service
            }));
            continue;
        }
        services.extend(addresses.iter().map(|address| {
            Arc::new(Service {
                default_address: address.clone(),
                ..service.clone()
            })
        }));
    }
    services.into()
}

/// The addresses that an entry states, without those that were allocated to older entries of other namespaces.
fn own_addresses(cx: &Cx<'_, Snapshot>, entry: &Object<ServiceEntry>) -> Vec<Arc<str>> {
    let mut addresses = addresses(&entry.spec);
    if addresses.is_empty() {
        return addresses;
    }
    let displaced = cx.query(&allocation::Displaced);
    if let Some(refused) = displaced.refused(&entry.meta.name) {
        addresses.retain(|address| {
            let address = address.parse::<IpAddr>();
            !address.is_ok_and(|address| refused.contains_key(&address))
        });
    }
    addresses
}

/// The labels of the object, with those that name the canonical service where that is asked for.
///
/// Istio: pilot/pkg/serviceregistry/serviceentry/conversion.go ensureCanonicalServiceLabels, 1.32.
fn labels(cx: &Cx<'_, Snapshot>, entry: &Object<ServiceEntry>) -> Labels {
    const NAMES: [&str; 3] = [
        "service.istio.io/canonical-name",
        "app.kubernetes.io/name",
        "app",
    ];
    const REVISIONS: [&str; 3] = [
        "service.istio.io/canonical-revision",
        "app.kubernetes.io/version",
        "version",
    ];
    let own = &entry.meta.labels;
    let external = entry.spec.location() == service_entry::Location::MeshExternal;
    if !external || !cx.settings().features.canonical_external {
        return own.clone();
    }
    let first = |keys: &[&str]| keys.iter().find_map(|key| own.get(key)).map(Arc::from);
    let name = first(&NAMES).unwrap_or_else(|| entry.meta.name.name.as_arc().clone());
    let revision = first(&REVISIONS).unwrap_or_else(|| Arc::from("latest"));
    own.iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .chain([
            (Arc::from(NAMES[0]), name),
            (Arc::from(REVISIONS[0]), revision),
        ])
        .collect()
}

pub(super) fn resolution(spec: &ServiceEntry) -> Resolution {
    match spec.resolution() {
        service_entry::Resolution::None => Resolution::Passthrough,
        service_entry::Resolution::Static => Resolution::ClientSide,
        service_entry::Resolution::Dns => Resolution::Dns,
        service_entry::Resolution::DnsRoundRobin => Resolution::DnsRoundRobin,
        service_entry::Resolution::DynamicDns => Resolution::DynamicDns,
    }
}

/// Whether proxies resolve the names of the endpoints.
pub(super) fn resolves_names(resolution: Resolution) -> bool {
    matches!(resolution, Resolution::Dns | Resolution::DnsRoundRobin)
}

fn port(port: &proto_istio::networking::ServicePort) -> Port {
    Port {
        name: Arc::from(port.name.as_str()),
        number: port_number(port.number),
        protocol: Protocol::parse(&port.protocol),
    }
}

/// Numbers that are no port are 0.
pub(super) fn port_number(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

fn passthrough_ports(spec: &ServiceEntry, resolution: Resolution) -> Arc<[(u16, u16)]> {
    if resolution != Resolution::Passthrough {
        return Arc::from([]);
    }
    let mut ports: Vec<_> = spec
        .ports
        .iter()
        .filter(|p| p.target_port != 0)
        .map(|p| (port_number(p.number), port_number(p.target_port)))
        .collect();
    ports.sort_unstable();
    ports.dedup_by_key(|p| p.0);
    ports.into()
}

/// The addresses that are IPs or ranges of them; a range of one address is that address.
fn addresses(spec: &ServiceEntry) -> Vec<Arc<str>> {
    let read = |address: &String| -> Option<Arc<str>> {
        if address.parse::<IpAddr>().is_ok() {
            return Some(Arc::from(address.as_str()));
        }
        let net: IpNet = address.parse().ok()?;
        if net.prefix_len() == net.max_prefix_len() {
            return Some(Arc::from(net.addr().to_string()));
        }
        Some(Arc::from(address.as_str()))
    };
    spec.addresses.iter().filter_map(read).collect()
}
