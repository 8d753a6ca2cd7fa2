//! Secondary indexes: which values an object is found under besides its name.
//!
//! A query that needs "the slices of this service" or "the workloads with this label" reads one bucket, and is
//! dirtied by what is in that bucket alone.

use std::net::IpAddr;
use std::sync::Arc;

use model::kinds::Kinded;
use model::kinds::istio::ServiceEntry;
use model::{Kind, Labels, Namespace, Object, ObjectKey};
use proto_istio::networking::service_entry::Resolution;

use crate::label_reader::{LabelReader, Reading};

/// What an index is over. The value's form stands with each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ObjectIndex {
    /// `namespace/label=value`, for every label of a workload (WorkloadEntry, Pod), and `/label=value` of a Namespace, which
    /// [`EVERY`] holds as well; [`DEFAULT_CLASS`] of an IngressClass.
    Label = 1,
    /// An IP address of the object.
    Address,
    /// A host that the object declares or configures (ServiceEntry, DestinationRule, VirtualService, both kinds of Ingress), or that
    /// a Service is another name of (`externalName`).
    Host,
    /// `namespace/name` of the Service that an EndpointSlice belongs to, or that an Ingress names.
    Service,
    /// `namespace/label=value` of the selector (of a Service or ServiceEntry), its first pair; `namespace/=` of a
    /// selector without any.
    Selector,
    /// [`UNALLOCATED`], or [`range_value`] of an address: ServiceEntries by what address allocation has to do with them.
    Allocation,
    /// Objects for which labels of workloads decide whom they concern: under their namespace, those of
    /// [`LabelReader::MESH_WIDE`] kinds under [`ANYWHERE`]. Under [`PLACE`] those that look at where a workload stands.
    LabelReader,
    /// [`reference_value`] of an object that a route or a ListenerSet attaches to.
    Parent,
    /// [`parent_host_value`] of an object that a route attaches to and a host of the route, `*` where it states none.
    ParentHost,
    /// [`reference_value`] of an object that a route sends requests to, or that a policy is about.
    Target,
    /// [`grant_value`] of who may refer to what by a ReferenceGrant.
    Grant,
    /// `namespace/name` of a Gateway that applies a VirtualService.
    Gateway,
    /// Their namespace: ServiceEntries that may be charged to its budget ([`model::budget`]).
    Charged,
    /// [`CLOSED`]: substitutes of objects that were rejected, of every kind.
    Closed,
}

/// The value of [`ObjectIndex::Closed`].
pub const CLOSED: &str = "closed";

/// The value of [`ObjectIndex::Label`] that holds all Namespaces.
pub const EVERY: &str = "?every";
/// The value of [`ObjectIndex::Label`] that holds the IngressClasses of Ingresses that name none.
pub const DEFAULT_CLASS: &str = "?default class";
/// The value of [`ObjectIndex::LabelReader`] for objects that concern workloads of any namespace.
pub const ANYWHERE: &str = "?anywhere";
/// The value of [`ObjectIndex::LabelReader`] for objects by which endpoints are ordered, or left out, by labels of the
/// client.
pub const PLACE: &str = "?place";

impl ObjectIndex {
    /// Its name, in the singular.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Address => "address",
            Self::Host => "host",
            Self::Service => "service",
            Self::Selector => "selector",
            Self::Allocation => "allocation",
            Self::LabelReader => "label reader",
            Self::Parent => "parent",
            Self::ParentHost => "parent and host",
            Self::Target => "target",
            Self::Grant => "grant",
            Self::Gateway => "gateway",
            Self::Charged => "charged",
            Self::Closed => "closed",
        }
    }
}

/// ServiceEntries that wait for an address.
pub const UNALLOCATED: &str = "unallocated";

/// A value within an index.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IndexEntry {
    /// Which index.
    pub index: ObjectIndex,
    /// Which value.
    pub value: Arc<str>,
}

/// A kind whose table may have indexes.
pub trait Indexed: Kinded {
    /// Calls `emit` with each index and value the object is found under.
    fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
        let _ = (object, emit);
    }
}

/// The value under which [`ObjectIndex::Label`] and [`ObjectIndex::Selector`] hold a pair.
pub fn label_value(namespace: &Namespace, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

/// The value under which [`ObjectIndex::Parent`] and [`ObjectIndex::Target`] hold an object.
pub fn reference_value(key: &ObjectKey) -> String {
    let ObjectKey { kind, name } = key;
    format!(
        "{}.{}/{}/{}",
        kind.name(),
        kind.group(),
        name.namespace,
        name.name
    )
}

/// The value under which [`ObjectIndex::ParentHost`] holds a host of an object.
pub fn parent_host_value(parent: &ObjectKey, host: &str) -> String {
    format!("{}/{}", reference_value(parent), host.to_ascii_lowercase())
}

/// The value under which [`ObjectIndex::Grant`] holds that objects of a kind in a namespace may refer to objects of a kind
/// in another.
pub fn grant_value(from: Kind, from_namespace: &str, to: Kind, to_namespace: &str) -> String {
    let (from_group, to_group) = (from.group(), to.group());
    let (from, to) = (from.name(), to.name());
    format!("{from}.{from_group}/{from_namespace}>{to}.{to_group}/{to_namespace}")
}

/// Whether hosts of a ServiceEntry may get allocated addresses: it has none, and the proxy would use them.
///
/// Istio: pilot/pkg/networking/serviceentry/ip_autoallocation.go, 1.32.
pub fn may_allocate(entry: &Object<ServiceEntry>) -> bool {
    entry.spec.addresses.is_empty()
        && entry.spec.resolution() != Resolution::None
        && !entry
            .meta
            .labels
            .get("networking.istio.io/enable-autoallocate-ip")
            .is_some_and(|v| v.eq_ignore_ascii_case("false"))
}

/// Whether a host of a ServiceEntry waits for an address: it may have one, and its status names none.
pub fn is_unallocated(entry: &Object<ServiceEntry>) -> bool {
    let waits = |host: &String| {
        let wildcard = host.starts_with('*') && entry.spec.resolution() != Resolution::DynamicDns;
        !wildcard && !entry.status.addresses.iter().any(|a| a.host == *host)
    };
    may_allocate(entry) && entry.spec.hosts.iter().any(waits)
}

/// The addresses that a controller gave a ServiceEntry, in its status.
pub fn given_addresses(entry: &Object<ServiceEntry>) -> impl Iterator<Item = IpAddr> {
    let status = entry.status.addresses.iter();
    status.filter_map(|a| a.value.parse().ok())
}

/// The addresses that the author of a ServiceEntry stated, also as a range of one address.
pub fn stated_addresses(entry: &Object<ServiceEntry>) -> impl Iterator<Item = IpAddr> {
    let spec = entry.spec.addresses.iter();
    spec.filter_map(|stated| {
        let (address, length) = stated.split_once('/').unwrap_or((stated, ""));
        let address: IpAddr = address.parse().ok()?;
        let one = match address {
            IpAddr::V4(_) => "32",
            IpAddr::V6(_) => "128",
        };
        (length.is_empty() || length == one).then_some(address)
    })
}

/// The value of [`ObjectIndex::Allocation`] for ServiceEntries with an address of the same /8, or /16 of IPv6.
pub fn range_value(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{}/8", address.octets()[0]),
        IpAddr::V6(address) => format!("{:x}::/16", address.segments()[0]),
    }
}

fn emit_labels(namespace: &Namespace, labels: &Labels, emit: &mut dyn FnMut(ObjectIndex, String)) {
    for (key, value) in labels.iter() {
        emit(ObjectIndex::Label, label_value(namespace, key, value));
    }
}

/// The value of [`ObjectIndex::Label`] that holds the services and Gateways that say which network lies behind them.
pub const NETWORK_GATEWAY: &str = "?network-gateway";

fn emit_network_gateway(labels: &Labels, emit: &mut dyn FnMut(ObjectIndex, String)) {
    if labels.contains("topology.istio.io/network") {
        emit(ObjectIndex::Label, NETWORK_GATEWAY.to_owned());
    }
}

/// The value of [`ObjectIndex::Host`] that holds rules whose wildcard is only a part of a label (`*foo.com`): the labels
/// of a host do not lead to them.
pub const ODD_WILDCARD: &str = "*?";

/// The pair of a selector under which it is indexed: the first by key. A workload looks under each of its labels.
fn emit_selector<'a>(
    namespace: &Namespace,
    mut pairs: impl Iterator<Item = (&'a str, &'a str)>,
    emit: &mut dyn FnMut(ObjectIndex, String),
) {
    if let Some((key, value)) = pairs.next() {
        emit(ObjectIndex::Selector, label_value(namespace, key, value));
    }
}

/// The values under which an object is found that reads labels of workloads.
fn emit_reader<T: LabelReader>(object: &Object<T>, emit: &mut dyn FnMut(ObjectIndex, String)) {
    let (mut selects, mut orders) = (false, false);
    T::labels_read(object, &mut |what, _| match what {
        Reading::Selection => selects = true,
        Reading::Place => orders = true,
    });
    if selects {
        let value = match T::MESH_WIDE {
            true => ANYWHERE,
            false => object.namespace(),
        };
        emit(ObjectIndex::LabelReader, value.to_owned());
    }
    if orders {
        emit(ObjectIndex::LabelReader, PLACE.to_owned());
    }
}

mod istio {
    use super::{Indexed, Object, ObjectIndex, emit_labels, emit_reader, emit_selector};
    use model::Labels;
    use model::kinds::istio::*;
    use model::names::gateway_name;

    impl Indexed for VirtualService {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            for host in &object.spec.hosts {
                emit(ObjectIndex::Host, host.to_ascii_lowercase());
            }
            for gateway in &object.spec.gateways {
                let full = gateway_name(gateway, object.namespace());
                emit(
                    ObjectIndex::Gateway,
                    full.unwrap_or_else(|| gateway.clone()),
                );
            }
            emit_reader(object, emit);
        }
    }
    impl Indexed for DestinationRule {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            let host = object.spec.host.to_ascii_lowercase();
            if host.starts_with('*') && host.len() > 1 && !host.starts_with("*.") {
                emit(ObjectIndex::Host, super::ODD_WILDCARD.to_owned());
            }
            emit(ObjectIndex::Host, host);
            emit_reader(object, emit);
        }
    }
    impl Indexed for ServiceEntry {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            for host in &object.spec.hosts {
                emit(ObjectIndex::Host, host.to_ascii_lowercase());
            }
            for endpoint in &object.spec.endpoints {
                emit(ObjectIndex::Address, endpoint.address.clone());
            }
            if model::budget::may_pay(&object.spec) {
                emit(ObjectIndex::Charged, object.namespace().to_string());
            }
            if super::is_unallocated(object) {
                emit(ObjectIndex::Allocation, super::UNALLOCATED.to_owned());
            }
            let given = super::given_addresses(object);
            for address in given.chain(super::stated_addresses(object)) {
                emit(ObjectIndex::Allocation, super::range_value(address));
            }
            if let Some(selector) = &object.spec.workload_selector {
                let pairs = selector
                    .labels
                    .iter()
                    .map(|(k, v)| (k.as_str(), v.as_str()));
                emit_selector(object.namespace(), pairs, emit);
                if selector.labels.is_empty() {
                    emit(
                        ObjectIndex::Selector,
                        super::label_value(object.namespace(), "", ""),
                    );
                }
            }
            emit_reader(object, emit);
        }
    }
    impl Indexed for WorkloadEntry {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            emit(ObjectIndex::Address, object.spec.address.clone());
            // Selectors see the labels of the spec and, where it has none of that name, those of the object.
            emit_labels(
                object.namespace(),
                &Labels::from(&*object.spec.labels),
                emit,
            );
            emit_labels(object.namespace(), &object.meta.labels, emit);
        }
    }
    impl Indexed for Gateway {}
    impl Indexed for WorkloadGroup {}
    impl Indexed for ProxyConfig {}
    macro_rules! found_by_labels_alone {
        ($($kind:ty),+) => {$(
            impl Indexed for $kind {
                fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
                    emit_reader(object, emit);
                }
            }
        )+};
    }
    found_by_labels_alone!(
        Sidecar,
        EnvoyFilter,
        AuthorizationPolicy,
        PeerAuthentication,
        RequestAuthentication,
        Telemetry,
        WasmPlugin,
        TrafficExtension
    );
}

mod kube {
    use super::{Indexed, Object, ObjectIndex, emit_labels, emit_reader, emit_selector};
    use model::kinds::kube::*;

    impl Indexed for Service {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            super::emit_network_gateway(&object.meta.labels, emit);
            let pairs = object.spec.selector.iter().map(|(k, v)| (&**k, &**v));
            emit_selector(object.namespace(), pairs, emit);
            if object.spec.selector.is_empty() {
                emit(
                    ObjectIndex::Selector,
                    super::label_value(object.namespace(), "", ""),
                );
            }
            if &*object.spec.service_type == "ExternalName" && !object.spec.external_name.is_empty()
            {
                emit(
                    ObjectIndex::Host,
                    object.spec.external_name.to_ascii_lowercase(),
                );
            }
            emit_reader(object, emit);
        }
    }
    impl Indexed for EndpointSlice {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            if let Some(service) = object.meta.labels.get("kubernetes.io/service-name") {
                let namespace = object.namespace();
                emit(ObjectIndex::Service, format!("{namespace}/{service}"));
            }
        }
    }
    impl Indexed for Pod {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            emit_labels(object.namespace(), &object.meta.labels, emit);
            for address in object.status.addresses() {
                emit(ObjectIndex::Address, address.to_string());
            }
        }
    }
    impl Indexed for Node {}
    impl Indexed for NamespaceSpec {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            emit_labels(object.namespace(), &object.meta.labels, emit);
            emit(ObjectIndex::Label, super::EVERY.to_owned());
            emit_reader(object, emit);
        }
    }
    impl Indexed for Secret {}
    impl Indexed for ConfigMap {}
    impl Indexed for Ingress {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            for host in object.hosts() {
                emit(ObjectIndex::Host, host.to_string());
            }
            for service in object.spec.services() {
                emit(
                    ObjectIndex::Service,
                    format!("{}/{service}", object.namespace()),
                );
            }
        }
    }
    impl Indexed for IngressClass {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            let annotations = &object.meta.annotations;
            if annotations.get("ingressclass.kubernetes.io/is-default-class") == Some("true") {
                emit(ObjectIndex::Label, super::DEFAULT_CLASS.to_owned());
            }
        }
    }
    impl Indexed for Deployment {}
    impl Indexed for MutatingWebhookConfiguration {}
    impl Indexed for ValidatingWebhookConfiguration {}
    impl Indexed for CustomResourceDefinition {}
}

mod gateway_api {
    use super::{Indexed, Object, ObjectIndex, grant_value, parent_host_value, reference_value};
    use model::kinds::gateway_api::*;
    use model::{Kind, Namespace};

    impl Indexed for GatewayClass {}
    impl Indexed for Gateway {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            super::emit_network_gateway(&object.meta.labels, emit);
        }
    }
    impl Indexed for ListenerSet {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            if let Some(parent) = object.spec.parent_ref.key(object.namespace()) {
                emit(ObjectIndex::Parent, reference_value(&parent));
            }
        }
    }

    fn index_route<T: Route>(object: &Object<T>, emit: &mut dyn FnMut(ObjectIndex, String)) {
        let namespace = object.namespace();
        let parents = object.spec.parent_refs().iter();
        for parent in parents.filter_map(|parent| parent.key(namespace)) {
            emit(ObjectIndex::Parent, reference_value(&parent));
            for host in object.spec.hostnames() {
                emit(ObjectIndex::ParentHost, parent_host_value(&parent, host));
            }
            if object.spec.hostnames().is_empty() {
                emit(ObjectIndex::ParentHost, parent_host_value(&parent, "*"));
            }
        }
        object.spec.backends(&mut |backend| {
            if let Some(backend) = backend.key(namespace) {
                emit(ObjectIndex::Target, reference_value(&backend));
            }
        });
    }

    macro_rules! routes {
        ($($kind:ty),+) => {$(
            impl Indexed for $kind {
                fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
                    index_route(object, emit);
                }
            }
        )+};
    }
    routes!(HttpRoute, GrpcRoute, TlsRoute, TcpRoute, UdpRoute);

    impl Indexed for ReferenceGrant {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            for from in &object.spec.from {
                let Some(by) = Kind::find(&from.group, &from.kind) else {
                    continue;
                };
                for to in &object.spec.to {
                    if let Some(to) = Kind::find(&to.group, &to.kind) {
                        let value = grant_value(by, &from.namespace, to, object.namespace());
                        emit(ObjectIndex::Grant, value);
                    }
                }
            }
        }
    }

    fn emit_target(
        namespace: &Namespace,
        (group, kind, name): (&str, &str, &str),
        emit: &mut dyn FnMut(ObjectIndex, String),
    ) {
        let target = Reference {
            group,
            kind,
            namespace: None,
            name,
        };
        if let Some(target) = target.key(namespace) {
            emit(ObjectIndex::Target, reference_value(&target));
        }
    }
    impl Indexed for BackendTlsPolicy {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            for to in &object.spec.target_refs {
                emit_target(object.namespace(), (&to.group, &to.kind, &to.name), emit);
            }
        }
    }
    impl Indexed for XBackendTrafficPolicy {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            for to in &object.spec.target_refs {
                emit_target(object.namespace(), (&to.group, &to.kind, &to.name), emit);
            }
        }
    }
    impl Indexed for XBackend {}
    impl Indexed for XMesh {}
    impl Indexed for InferencePool {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            let (namespace, name) = (object.namespace(), &object.meta.name.name);
            let service = pool_service_name(name);
            emit(ObjectIndex::Service, format!("{namespace}/{service}"));
            let pairs = object.spec.selector.match_labels.iter();
            super::emit_selector(namespace, pairs.map(|(k, v)| (&**k, &**v)), emit);
        }
    }
}

mod multicluster {
    use super::Indexed;
    use model::kinds::multicluster::*;

    impl Indexed for ServiceExport {}
    impl Indexed for ServiceImport {}
}

mod knative {
    use super::{Indexed, Object, ObjectIndex};
    use model::kinds::knative::*;

    impl Indexed for Ingress {
        fn index(object: &Object<Self>, emit: &mut dyn FnMut(ObjectIndex, String)) {
            let hosts = object.spec.hosts().into_iter();
            let hosts: std::collections::BTreeSet<_> = hosts.map(|(_, host)| host).collect();
            for host in hosts {
                emit(ObjectIndex::Host, host.to_string());
            }
        }
    }
}

mod higress {
    use super::Indexed;
    use model::kinds::higress::*;

    impl Indexed for McpBridge {}
    impl Indexed for Http2Rpc {}
    impl Indexed for WasmPlugin {}
}
