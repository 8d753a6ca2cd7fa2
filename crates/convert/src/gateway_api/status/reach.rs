//! Whether anything answers behind the services of a gateway, and where clients reach it.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/{context.go ResolveGatewayInstances,conversion.go SetProgrammedCondition}, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::kinds::istio::ServiceEntry;
use model::kinds::kube::{EndpointSlice, Service};
use model::{Namespace, Object, ObjectName};
use proto_istio::networking::service_entry::Resolution;
use store::index::ObjectIndex;

use super::Conditions;
use crate::reader::{Derive, Reader};
use crate::service::outside_addresses;
use crate::strata::Routes;

/// Says of a Service that it was made for a Gateway.
const MANAGED: &str = "gateway.istio.io/managed";

/// What there is behind the services of a gateway.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Reach {
    /// `host:port` of what answers.
    pub(super) answering: BTreeSet<String>,
    /// The hosts that answer on some port.
    pub(super) assigned: BTreeSet<Arc<str>>,
    /// Those of them that wait for an address of a load balancer.
    pub(super) pending: BTreeSet<Arc<str>>,
    /// Addresses within the cluster.
    pub(super) inside: BTreeSet<Arc<str>>,
    /// Addresses from outside.
    pub(super) outside: BTreeSet<Arc<str>>,
    /// What is not as the Gateway wants it.
    pub(super) warnings: BTreeSet<String>,
    /// Whether a service is not there, or lacks a port.
    pub(super) is_unusable: bool,
}

/// What is known of the service of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Known {
    /// Its ports; to each the ports of ready endpoints.
    ports: BTreeMap<u16, BTreeSet<u16>>,
    /// Whether it was made for the Gateway.
    is_managed: bool,
    /// Whether a load balancer gives it an address.
    is_balanced: bool,
    inside: BTreeSet<Arc<str>>,
    outside: BTreeSet<Arc<str>>,
}

/// What is known of the service of a host in a namespace; `None` where it is not there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct KnownOf {
    host: Arc<str>,
    namespace: Namespace,
}

impl Derive for KnownOf {
    type Stratum = Routes;
    type Value = Option<Known>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let suffix = format!(".{}.svc.{}", self.namespace, read.settings().domain);
        if let Some(name) = self.host.strip_suffix(&suffix) {
            return of_service(read, &ObjectName::new(self.namespace.clone(), name));
        }
        let entries = read.list_by::<ServiceEntry>(ObjectIndex::Host, &self.host);
        let entry = entries
            .iter()
            .find(|entry| *entry.namespace() == self.namespace)?;
        Some(of_entry(&entry.spec))
    }
}

fn of_service(read: &Reader<'_, '_, Routes>, name: &ObjectName) -> Option<Known> {
    let all = read.namesakes::<Service>(name);
    let first = all.first()?;
    let mut known = Known {
        is_managed: first.meta.labels.contains(MANAGED),
        is_balanced: &*first.spec.service_type == "LoadBalancer",
        ..Known::default()
    };
    for service in &all {
        known.outside.extend(outside_addresses(service));
    }
    let own = all
        .iter()
        .filter(|service| service.meta.name.cluster.is_none());
    for service in own {
        let first = std::iter::once(&service.spec.cluster_ip);
        let inside = first.chain(&service.spec.cluster_ips);
        known.inside.extend(
            inside
                .filter(|ip| !ip.is_empty() && &***ip != "None")
                .cloned(),
        );
    }
    let value = format!("{}/{}", name.namespace, name.name);
    let slices = read.list_by::<EndpointSlice>(ObjectIndex::Service, &value);
    for port in &first.spec.ports {
        let Ok(number) = u16::try_from(port.port) else {
            continue;
        };
        let ready = slices
            .iter()
            .flat_map(|slice| ready_ports(slice, &port.name, first));
        known.ports.entry(number).or_default().extend(ready);
    }
    Some(known)
}

/// The numbers of a port in a slice that has ready endpoints.
fn ready_ports<'a>(
    slice: &'a Object<EndpointSlice>,
    name: &'a str,
    service: &Object<Service>,
) -> impl Iterator<Item = u16> + 'a {
    let any_state = service.spec.publish_not_ready_addresses;
    let mut endpoints = slice.spec.endpoints.iter();
    let is_ready = endpoints.any(|endpoint| {
        !endpoint.addresses.is_empty() && (any_state || endpoint.conditions.ready != Some(false))
    });
    let ports = slice.spec.ports.iter().filter(move |_| is_ready);
    let named = ports.filter(move |port| port.name.as_deref().unwrap_or_default() == name);
    named.map(|port| {
        port.port
            .and_then(|port| u16::try_from(port).ok())
            .unwrap_or_default()
    })
}

/// Whatever a ServiceEntry stands for is taken to be there, unless it lists endpoints and has none.
fn of_entry(entry: &ServiceEntry) -> Known {
    let listed = entry.resolution() == Resolution::Static && entry.workload_selector.is_none();
    let is_empty = listed && entry.endpoints.is_empty();
    let ports = entry.ports.iter().filter_map(|port| {
        let number = u16::try_from(port.number).ok()?;
        let target = u16::try_from(port.target_port)
            .ok()
            .filter(|target| *target != 0);
        let ready = (!is_empty).then(|| target.unwrap_or(number));
        Some((number, ready.into_iter().collect()))
    });
    Known {
        ports: ports.collect(),
        inside: entry
            .addresses
            .iter()
            .map(|address| address.as_str().into())
            .collect(),
        ..Known::default()
    }
}

impl Reach {
    /// What there is behind services of a namespace on those ports.
    pub(super) fn of(
        read: &Reader<'_, '_, Routes>,
        namespace: &Namespace,
        services: &[Arc<str>],
        ports: &BTreeSet<u16>,
    ) -> Self {
        let mut reach = Self::default();
        for host in services {
            let known = read.derived(KnownOf {
                host: host.clone(),
                namespace: namespace.clone(),
            });
            match &*known {
                Some(known) => reach.add(host, known, ports),
                None => {
                    reach.is_unusable = true;
                    let message =
                        format!("there is no service {host} in the namespace {namespace}");
                    reach.warnings.insert(message);
                }
            }
        }
        reach
    }

    fn add(&mut self, host: &Arc<str>, known: &Known, ports: &BTreeSet<u16>) {
        for port in ports {
            let ready = known.ports.get(port);
            if ready.is_some_and(|ready| !ready.is_empty()) {
                self.answering.insert(format!("{host}:{port}"));
                self.assigned.insert(host.clone());
                self.inside.extend(known.inside.iter().cloned());
                self.outside.extend(known.outside.iter().cloned());
                if known.is_balanced && known.outside.is_empty() {
                    self.pending.insert(host.clone());
                    self.warnings
                        .insert(format!("{host} waits for an address of a load balancer"));
                }
                continue;
            }
            if known.ports.values().all(BTreeSet::is_empty) {
                self.warnings
                    .insert(format!("no ready endpoint is behind {host}"));
                continue;
            }
            let meant = known.ports.iter().filter(|(_, ready)| ready.contains(port));
            let meant: Vec<String> = meant.map(|(number, _)| number.to_string()).collect();
            // The endpoints of a port that a managed Service just got are not known yet.
            if meant.is_empty() && known.is_managed && ready.is_some() {
                continue;
            }
            self.is_unusable = true;
            let hint = match meant.is_empty() {
                true => String::new(),
                false => format!(
                    "; it is a port of the pods, did you mean {}?",
                    meant.join(" or ")
                ),
            };
            self.warnings
                .insert(format!("{host} has no port {port}{hint}"));
        }
    }
}

/// Says whether proxies are there that can serve.
pub(super) fn tell_of_programming(
    conditions: &mut Conditions,
    services: &[Arc<str>],
    reach: &Reach,
) {
    const KIND: &str = "Programmed";
    let listed = |texts: &BTreeSet<String>, between: &str| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        texts.join(between)
    };
    let answering = listed(&reach.answering, ", ");
    if services.is_empty() {
        let message = "none of the addresses can be used";
        return conditions.fails(KIND, "UnsupportedAddress", message);
    }
    if reach.warnings.is_empty() {
        let message = match reach.answering.is_empty() {
            true => "the Gateway has no port to serve".to_owned(),
            false => format!("served at {answering}"),
        };
        return conditions.holds(KIND, "Programmed", message);
    }
    let reason = match reach.is_unusable {
        true => "AddressNotUsable",
        false => "AddressNotAssigned",
    };
    let mut message = listed(&reach.warnings, "; ");
    if !reach.answering.is_empty() {
        message = format!("served at {answering}, but {message}");
    }
    conditions.fails(KIND, reason, message);
}
