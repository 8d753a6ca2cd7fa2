//! From a Kubernetes Service to a service.
//!
//! Istio: pilot/pkg/serviceregistry/kube/conversion.go ConvertService, 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::kube::{self, NamespaceSpec, Node};
use model::names::{ClusterId, Namespace};
use model::object::{Object, ObjectName};
use model::protocol::Protocol;
use model::service::{
    KubeAttributes, PerCluster, Port, Registry, Resolution, Service, TrafficDistribution,
    Visibility,
};
use model::{Hostname, Labels};
use store::{Reads, Snapshot};

use super::charge::service_is_over;
use super::entry::UNSPECIFIED;
use super::pool::Pool;
use super::trust_domain::trust_domain;
use super::workload::identity;
use super::{alias, visibility};

/// Node ports of gateways are reached at the nodes that this annotation selects.
const NODE_SELECTOR: &str = "traffic.istio.io/nodeSelector";

/// A Kubernetes Service, or an InferencePool under the name of the Service that stands for it, as a service; `None` while
/// no cluster has it. Where several clusters have it, it is one service
/// with the addresses and identities of each, and else what the first of them says: the configured cluster, or that whose
/// name sorts first.
///
/// Istio: pilot/pkg/serviceregistry/aggregate/controller.go mergeService, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KubeService(pub ObjectName);

impl Query<Snapshot> for KubeService {
    type Value = Option<Arc<Service>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<Service>> {
        let pool = Pool::find(cx, &self.0);
        let all = objects(cx, &self.0, pool.as_ref());
        let (first, others) = all.split_first()?;
        let mut service = convert(cx, first);
        if let Some(pool) = pool {
            service.object = pool.key();
            service.picker = Some(pool.picker);
        }
        for other in others {
            let other = convert(cx, other);
            let mut accounts = service.service_accounts.to_vec();
            let known = |account: &&Arc<str>| !service.service_accounts.contains(*account);
            accounts.extend(other.service_accounts.iter().filter(known).cloned());
            service.service_accounts = accounts.into();
            merge(&mut service.cluster_vips, &other.cluster_vips);
            let (kube, of_other) = (&mut service.kube, &other.kube);
            merge(&mut kube.external_addresses, &of_other.external_addresses);
            merge(&mut kube.external_ports, &of_other.external_ports);
        }
        Some(Arc::new(service))
    }
}

/// The Services of a name in all clusters, but for those that are over the budget. In the configured one a pool comes before the Service that may be written for it.
pub(super) fn objects(
    cx: &Cx<'_, Snapshot>,
    name: &ObjectName,
    pool: Option<&Pool>,
) -> Vec<Arc<Object<kube::Service>>> {
    let mut all = cx.namesakes::<kube::Service>(name);
    all.retain(|object| !service_is_over(cx, object));
    if let Some(pool) = pool {
        all.retain(|object| object.meta.name.cluster.is_some());
        all.insert(0, pool.service.clone());
    }
    all
}

/// What one cluster alone says of a Service; `None` while it has none of the name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClusterService(pub ObjectName);

impl Query<Snapshot> for ClusterService {
    type Value = Option<Arc<Service>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<Service>> {
        let pool = Pool::find(cx, &self.0);
        let all = objects(cx, &self.0, pool.as_ref());
        let own = all.iter().find(|o| o.meta.name == self.0)?;
        if all.len() == 1 {
            return (*cx.query(&KubeService(self.0.in_cluster(None)))).clone();
        }
        Some(Arc::new(convert(cx, own)))
    }
}

/// The values of one cluster; none where there are none.
fn of_cluster<T>(cluster: &ClusterId, values: Vec<T>) -> PerCluster<T> {
    match values.is_empty() {
        true => Arc::from([]),
        false => Arc::from([(cluster.clone(), Arc::from(values))]),
    }
}

/// Adds the values of other clusters.
fn merge<T: Clone>(values: &mut PerCluster<T>, others: &PerCluster<T>) {
    let mut all: Vec<_> = values.iter().chain(others.iter()).cloned().collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    *values = all.into();
}

/// The host of a Kubernetes Service.
pub fn host_of(name: &ObjectName, domain: &str) -> Hostname {
    format!("{}.{}.svc.{domain}", name.name, name.namespace).into()
}

/// The Kubernetes Service that would have that host.
pub fn name_of(host: &str, domain: &str) -> Option<ObjectName> {
    let (name, namespace) = host
        .strip_suffix(domain)?
        .strip_suffix(".svc.")?
        .split_once('.')?;
    let is_name = !name.is_empty() && !namespace.is_empty() && !namespace.contains('.');
    is_name.then(|| ObjectName::new(namespace, name))
}

fn convert(cx: &Cx<'_, Snapshot>, object: &Object<kube::Service>) -> Service {
    let settings = cx.settings();
    let (spec, meta) = (&object.spec, &object.meta);
    let cluster = settings.cluster_of(&meta.name);
    let remote = meta.name.cluster.as_ref();
    let resolution = resolution(spec);
    let external = is_external(spec);
    let headless = is_headless(spec);
    let addresses: Arc<[Arc<str>]> = if headless || spec.cluster_ip.is_empty() {
        Arc::from([Arc::from(UNSPECIFIED)])
    } else if spec.cluster_ips.len() > 1 {
        Arc::from(&*spec.cluster_ips)
    } else {
        Arc::from([spec.cluster_ip.clone()])
    };
    let host = host_of(&meta.name, &settings.domain);
    Service {
        namespace: meta.namespace().clone(),
        name: meta.name.name.clone(),
        object: object.key(),
        registry: Registry::Kubernetes,
        ports: spec.ports.iter().map(port).collect(),
        resolution,
        default_address: addresses[0].clone(),
        cluster_vips: Arc::from([(cluster.clone(), addresses)]),
        auto_ipv4: None,
        auto_ipv6: None,
        mesh_external: external,
        export_to: export_to(cx, meta.namespace(), &meta.annotations),
        labels: meta.labels.clone(),
        selector: spec.selector.clone(),
        created: meta.created,
        service_accounts: service_accounts(
            &meta.annotations,
            meta.namespace(),
            &trust_domain(cx, remote),
        ),
        aliases: alias::aliases_of(cx, &host),
        passthrough_ports: Arc::from([]),
        race_first_connect: false,
        kube: KubeAttributes {
            service_type: spec.service_type.clone(),
            external_name: if external {
                spec.external_name.clone()
            } else {
                Arc::from("")
            },
            node_local: &*spec.internal_traffic_policy == "Local",
            traffic_distribution: traffic_distribution(
                cx,
                &spec.traffic_distribution,
                &meta.annotations,
                (meta.namespace(), remote),
            ),
            publish_not_ready: spec.publish_not_ready_addresses,
            external_addresses: of_cluster(cluster, external_addresses(cx, object)),
            external_ports: of_cluster(cluster, external_ports(object)),
            object_name: Default::default(),
        },
        picker: None,
        host,
    }
}

fn is_headless(spec: &kube::Service) -> bool {
    &*spec.cluster_ip == "None"
}

fn is_external(spec: &kube::Service) -> bool {
    &*spec.service_type == "ExternalName" && !spec.external_name.is_empty()
}

/// How the addresses behind a Service are found.
pub(super) fn resolution(spec: &kube::Service) -> Resolution {
    match (is_headless(spec), is_external(spec)) {
        (true, _) => Resolution::Passthrough,
        (false, true) => Resolution::Alias,
        (false, false) => Resolution::ClientSide,
    }
}

fn port(port: &kube::ServicePort) -> Port {
    Port {
        name: port.name.clone(),
        number: u16::try_from(port.port).unwrap_or(0),
        protocol: protocol(port),
    }
}

/// What a port speaks.
pub fn protocol(port: &kube::ServicePort) -> Protocol {
    Protocol::of_kube_port(
        port.port,
        &port.name,
        &port.protocol,
        port.app_protocol.as_deref(),
    )
}

fn export_to(cx: &Cx<'_, Snapshot>, namespace: &Namespace, annotations: &Labels) -> Visibility {
    let written = annotations
        .get("networking.istio.io/exportTo")
        .unwrap_or_default();
    let list: Vec<&str> = if written.is_empty() {
        Vec::new()
    } else {
        written.split(',').map(str::trim).collect()
    };
    visibility::resolve(cx, namespace, list.into_iter())
}

fn service_accounts(annotations: &Labels, namespace: &str, trust_domain: &str) -> Arc<[Arc<str>]> {
    let listed = |key: &str| {
        annotations
            .get(key)
            .filter(|list| !list.is_empty())
            .into_iter()
            .flat_map(|list| list.split(','))
    };
    let canonical = listed("alpha.istio.io/canonical-serviceaccounts").map(Arc::from);
    let kubernetes = listed("alpha.istio.io/kubernetes-serviceaccounts")
        .map(|account| identity(trust_domain, namespace, account));
    canonical.chain(kubernetes).collect()
}

/// Which endpoints are preferred: as the field says, else the object's annotation, else that of its namespace, of the
/// cluster that the object is in.
///
/// Istio: pilot/pkg/model/service.go GetTrafficDistribution, 1.32.
pub(super) fn traffic_distribution(
    cx: &Cx<'_, Snapshot>,
    field: &str,
    annotations: &Labels,
    (namespace, cluster): (&Namespace, Option<&ClusterId>),
) -> TrafficDistribution {
    const ANNOTATION: &str = "networking.istio.io/traffic-distribution";
    match field {
        "PreferSameZone" | "PreferClose" => return TrafficDistribution::PreferSameZone,
        "PreferSameNode" => return TrafficDistribution::PreferSameNode,
        _ => {}
    }
    let read = |text: &str| match text.to_ascii_lowercase().as_str() {
        "preferclose" | "prefersamezone" => TrafficDistribution::PreferSameZone,
        "prefersamenode" => TrafficDistribution::PreferSameNode,
        _ => TrafficDistribution::Any,
    };
    if let Some(own) = annotations.get(ANNOTATION).filter(|a| !a.is_empty()) {
        return read(own);
    }
    let namespace = ObjectName::new("", namespace.as_str()).in_cluster(cluster);
    let namespace = cx.get::<NamespaceSpec>(&namespace);
    namespace
        .and_then(|ns| ns.meta.annotations.get(ANNOTATION).map(read))
        .unwrap_or_default()
}

/// Addresses by which the service is reached from outside of its cluster.
pub(crate) fn external_addresses(
    cx: &Cx<'_, Snapshot>,
    object: &Object<kube::Service>,
) -> Vec<Arc<str>> {
    let mut addresses: Vec<Arc<str>> = Vec::new();
    match &*object.spec.service_type {
        "LoadBalancer" => {
            for ingress in &object.status.load_balancer.ingress {
                if !ingress.ip.is_empty() {
                    addresses.push(ingress.ip.clone());
                } else if !ingress.hostname.is_empty() {
                    addresses.push(ingress.hostname.clone());
                }
            }
            addresses.extend(object.spec.external_ips.iter().cloned());
        }
        "NodePort" if object.meta.annotations.contains(NODE_SELECTOR) => {
            if object.spec.external_ips.is_empty() {
                addresses.extend(node_addresses(cx, object));
            } else {
                addresses.extend(object.spec.external_ips.iter().cloned());
            }
        }
        _ => addresses.extend(object.spec.external_ips.iter().cloned()),
    }
    addresses
}

/// The external addresses of the nodes of its cluster that a Service's annotation selects.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/controller.go updateServiceNodePortAddresses, 1.32.
fn node_addresses(cx: &Cx<'_, Snapshot>, object: &Object<kube::Service>) -> Vec<Arc<str>> {
    let selector = object
        .meta
        .annotations
        .get(NODE_SELECTOR)
        .unwrap_or_default();
    let selector: std::collections::BTreeMap<String, String> =
        serde_json::from_str(selector).unwrap_or_default();
    let external = |node: &Arc<Object<Node>>| {
        let mut addresses = node.status.addresses.iter();
        addresses
            .find(|a| &*a.address_type == "ExternalIP" && !a.address.is_empty())
            .map(|a| a.address.clone())
    };
    cx.list::<Node>()
        .iter()
        .filter(|node| node.meta.name.cluster == object.meta.name.cluster)
        .filter(|node| node.meta.labels.matches_map(&selector))
        .filter_map(external)
        .collect()
}

/// Ports of a Service that is reached at nodes, with those of the nodes, sorted.
pub(crate) fn external_ports(object: &Object<kube::Service>) -> Vec<(u16, u16)> {
    let gateway =
        &*object.spec.service_type == "NodePort" && object.meta.annotations.contains(NODE_SELECTOR);
    if !gateway {
        return Vec::new();
    }
    let number = |port: i32| u16::try_from(port).unwrap_or(0);
    let mut ports: Vec<(u16, u16)> = object
        .spec
        .ports
        .iter()
        .map(|p| (number(p.port), number(p.node_port)))
        .collect();
    ports.sort_unstable();
    ports
}
