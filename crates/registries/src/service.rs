//! What a service of a registry becomes: a ServiceEntry, and a DestinationRule where it speaks TLS.
// Higress: registry/nacos/watcher.go generateServiceEntry, registry/direct/watcher.go, 2.1. Unlike there, fractions of weights
// count, what is unhealthy or weighs nothing gets no requests, and endpoints do not repeat the port of their service.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use model::object::Origin;
use model::{Age, Meta, Namespace, Object, ObjectKey, ObjectName, Owner};
use proto_istio::networking::client_tls_settings::TlSmode;
use proto_istio::networking::service_entry::{Location, Resolution};
use proto_istio::networking::{
    ClientTlsSettings, DestinationRule, ServiceEntry, ServicePort, TrafficPolicy, WorkloadEntry,
};

use crate::limits::Limits;
use crate::protocol::Protocol;
use crate::report::Instance;

/// The namespace of what registries have.
pub const NAMESPACE: &str = "mcp";
/// The label with the kind of the registry.
pub const TYPE_LABEL: &str = "higress-registry-type";
/// The label with the name of the registry.
pub const NAME_LABEL: &str = "higress-registry-name";

/// A weight that is more than this is this much.
const HEAVIEST: f64 = 10_000.0;
/// What weights are counted in where any of them is a fraction.
const PARTS: f64 = 100.0;

/// Ports that stand for those of services.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualPorts {
    /// Of every service that is not listed.
    pub default: Option<u16>,
    /// By host.
    pub services: BTreeMap<Arc<str>, u16>,
}

impl VirtualPorts {
    fn of(&self, host: &str) -> Option<u16> {
        self.services.get(host).copied().or(self.default)
    }
}

/// How services of one registry are made into objects.
#[derive(Clone, Debug)]
pub struct Making {
    /// Whose the objects are.
    pub owner: Owner,
    /// The kind of the registry.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What services speak that do not say so.
    pub protocol: Protocol,
    /// The server name that TLS asks for; where it is empty, the host of each request.
    pub sni: Arc<str>,
    /// Ports that stand for those of services.
    pub ports: VirtualPorts,
    /// The only namespace whose proxies are to know the services; where absent, all do.
    pub only_in: Option<Namespace>,
}

/// What a service became.
#[derive(Clone, Debug)]
pub struct Made {
    /// The service.
    pub entry: Arc<Object<ServiceEntry>>,
    /// How proxies speak with it, where that is not in the clear.
    pub rule: Option<Arc<Object<DestinationRule>>>,
}

impl Made {
    /// Whether generation would see no difference.
    pub fn means_the_same(&self, other: &Self) -> bool {
        let rules = match (&self.rule, &other.rule) {
            (None, None) => true,
            (Some(a), Some(b)) => a.means_the_same(b),
            _ => false,
        };
        rules && self.entry.means_the_same(&other.entry)
    }

    /// The same service with no instance.
    pub fn emptied(&self) -> Self {
        let mut entry = Object::clone(&self.entry);
        entry.spec.endpoints.clear();
        Self {
            entry: Arc::new(entry),
            rule: self.rule.clone(),
        }
    }
}

/// An instance that can get requests, or could if it were healthy.
struct Usable<'a> {
    instance: &'a Instance,
    weight: f64,
}

impl Making {
    /// Makes the objects of a service. None where nothing says which port it has.
    pub fn make(&self, host: &Arc<str>, instances: &[Instance], limits: &Limits) -> Option<Made> {
        let mut named: Vec<&Instance> = instances.iter().filter(|i| is_reachable(i)).collect();
        named.sort_by(|a, b| order(a, b));
        let mut usable: Vec<Usable<'_>> = named
            .iter()
            .filter(|i| i.healthy)
            .filter_map(|instance| {
                let weight = weight(instance.weight)?;
                Some(Usable { instance, weight })
            })
            .collect();
        usable.dedup_by(|b, a| {
            (&a.instance.address, a.instance.port) == (&b.instance.address, b.instance.port)
        });
        usable.truncate(limits.instances);
        let speaking = |i: &Instance| self.protocol_of(i);
        // What nobody can get at the moment still says what the service is.
        let telling: Vec<&Instance> = match usable.is_empty() {
            true => named,
            false => usable.iter().map(|u| u.instance).collect(),
        };
        let protocol = most(telling.iter().map(|i| speaking(i)))?;
        let number = match self.ports.of(host) {
            Some(number) => number,
            None => most(telling.iter().map(|i| i.port))?,
        };
        let is_static = usable
            .iter()
            .all(|u| u.instance.address.parse::<IpAddr>().is_ok());
        let weights = weights(&usable);
        let endpoints = usable.iter().zip(weights);
        let mut endpoints: Vec<WorkloadEntry> = endpoints
            .map(|(u, weight)| endpoint(u.instance, (protocol, number), weight, limits))
            .collect();
        // Most say the same of themselves, and it is more than all else of them.
        proto_istio::share(endpoints.iter_mut().map(|e| &mut e.labels));
        let resolution = if is_static {
            Resolution::Static
        } else {
            Resolution::Dns
        };
        let spec = ServiceEntry {
            hosts: vec![host.to_string()],
            ports: vec![ServicePort {
                number: number.into(),
                protocol: protocol.of_port().to_owned(),
                name: protocol.port_name().to_owned(),
                target_port: 0,
            }],
            location: Location::MeshInternal as i32,
            resolution: resolution as i32,
            endpoints,
            export_to: self.export_to(),
            ..ServiceEntry::default()
        };
        let rule = protocol.is_tls().then(|| self.rule(host));
        Some(Made {
            entry: Arc::new(self.object(host, spec)),
            rule: rule.map(|spec| Arc::new(self.object(host, spec))),
        })
    }

    /// The key of what a service becomes.
    pub fn key(host: &Arc<str>, kind: model::Kind) -> ObjectKey {
        ObjectKey {
            kind,
            name: ObjectName::new(NAMESPACE, host.clone()),
        }
    }

    fn protocol_of(&self, instance: &Instance) -> Protocol {
        let stated = instance.metadata.get("protocol");
        let stated = stated.or(instance.protocol.as_ref());
        stated
            .and_then(|word| Protocol::parse(word))
            .unwrap_or(self.protocol)
    }

    fn export_to(&self) -> Vec<String> {
        self.only_in.iter().map(ToString::to_string).collect()
    }

    fn rule(&self, host: &str) -> DestinationRule {
        let tls = ClientTlsSettings {
            mode: TlSmode::Simple as i32,
            sni: self.sni.to_string(),
            ..ClientTlsSettings::default()
        };
        DestinationRule {
            host: host.to_owned(),
            export_to: self.export_to(),
            traffic_policy: Some(TrafficPolicy {
                tls: Some(tls),
                ..TrafficPolicy::default()
            }),
            ..DestinationRule::default()
        }
    }

    fn object<T: model::kinds::Kinded<Status = S>, S: Default>(
        &self,
        host: &Arc<str>,
        spec: T,
    ) -> Object<T> {
        let labels = [(TYPE_LABEL, &*self.kind), (NAME_LABEL, &*self.name)];
        Object {
            meta: Meta {
                labels: labels.into_iter().collect(),
                created: Age::First,
                ..Meta::new(
                    ObjectName::new(NAMESPACE, host.clone()),
                    Origin::Source(self.owner.source.clone()),
                )
            },
            spec,
            status: S::default(),
        }
    }
}

/// Whether proxies could connect to it: it has a port, and an address that is an IP address or a name.
fn is_reachable(instance: &Instance) -> bool {
    let address = &*instance.address;
    let is_name = || {
        let mut labels = address.strip_suffix('.').unwrap_or(address).split('.');
        address.len() <= 253
            && labels.all(|label| {
                let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
                !label.is_empty() && label.len() <= 63 && label.bytes().all(is_word)
            })
    };
    instance.port > 0 && (address.parse::<IpAddr>().is_ok() || is_name())
}

/// One order for all, whichever the registry lists them in.
fn order(a: &Instance, b: &Instance) -> std::cmp::Ordering {
    (&a.address, a.port, &a.metadata, &a.protocol)
        .cmp(&(&b.address, b.port, &b.metadata, &b.protocol))
        .then(b.weight.total_cmp(&a.weight))
}

/// What an instance weighs: nothing where it says 0; 1 where it says what makes no sense.
fn weight(stated: f64) -> Option<f64> {
    match stated {
        0.0 => None,
        w if w.is_nan() || w < 0.0 => Some(1.0),
        w => Some(w.min(HEAVIEST)),
    }
}

/// The weights of endpoints. Where any is a fraction all are counted in hundredths, so that none becomes nothing.
fn weights(usable: &[Usable<'_>]) -> Vec<u32> {
    let whole = usable.iter().all(|u| u.weight.fract() == 0.0);
    let scale = if whole { 1.0 } else { PARTS };
    // At most `HEAVIEST * PARTS`, so nothing is cut off.
    let scaled = |u: &Usable<'_>| (u.weight * scale).round().max(1.0) as u32;
    usable.iter().map(scaled).collect()
}

/// An endpoint of a service with a port. It names its own where that is another: a map costs more than all else of it.
fn endpoint(
    instance: &Instance,
    (protocol, number): (Protocol, u16),
    weight: u32,
    limits: &Limits,
) -> WorkloadEntry {
    let fits = |(k, v): &(&Arc<str>, &Arc<str>)| {
        k.len() <= limits.key_bytes && v.len() <= limits.value_bytes
    };
    let labels = instance.metadata.iter().filter(fits).take(limits.pairs);
    WorkloadEntry {
        address: instance.address.to_string(),
        ports: (instance.port != number)
            .then(|| (protocol.port_name().to_owned(), instance.port.into()))
            .into_iter()
            .collect(),
        labels: labels
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect(),
        weight,
        ..WorkloadEntry::default()
    }
}

/// What there is most of; of equally many, the least.
fn most<T: Ord + Copy>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    let best = counts.values().max().copied()?;
    counts.into_iter().find(|(_, n)| *n == best).map(|(t, _)| t)
}

#[cfg(test)]
mod tests;
