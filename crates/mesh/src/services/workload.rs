//! Workloads that selectors choose: Pods, WorkloadEntries, and the endpoints written into a ServiceEntry.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use model::Labels;
use model::kinds::istio::WorkloadEntry;
use model::kinds::kube::Pod;
use model::names::{ClusterId, Namespace, Network};
use model::object::{Meta, Object, ObjectName};
use model::service::{Address, Endpoint, Locality};
use model::spiffe::SpiffeId;
use store::index::label_value;
use store::snapshot::Stored;
use store::{ObjectIndex, Reads, Snapshot};

use super::entry::port_number;
use super::network::{NETWORK_LABEL, network_of};
use super::pod::WorkloadOfPod;

/// The label that says whether a workload takes Istio mutual TLS.
pub(super) const TLS_MODE_LABEL: &str = "security.istio.io/tlsMode";

/// A workload, before it is known which service's port it serves.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name in its kind.
    pub name: ObjectName,
    /// Everything of an endpoint but the ports.
    pub endpoint: Endpoint,
    /// Where it listens for service ports of these names; of a Pod, the ports that its containers name.
    pub ports: BTreeMap<Arc<str>, u16>,
    /// Reached by a name or a Unix socket, so only services whose names are resolved by the proxy can use it.
    pub named: bool,
}

/// The labels of topology that selectors may ask for though the object has them not.
const TOPOLOGY: [&str; 6] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.istio.io/subzone",
    "topology.istio.io/cluster",
    "kubernetes.io/hostname",
    NETWORK_LABEL,
];

/// Whether a label may be on an endpoint without being on the object it was made from.
pub(super) fn is_topology_label(key: &str) -> bool {
    TOPOLOGY.contains(&key)
}

/// What of a workload's surroundings stands in the labels of its endpoints.
pub struct Topology<'a> {
    /// Its cluster.
    pub cluster: &'a ClusterId,
    /// Its locality.
    pub locality: &'a Locality,
    /// The name of its node.
    pub node: &'a str,
    /// Its network.
    pub network: &'a Network,
}

/// Labels with those of the topology.
///
/// Istio: pilot/pkg/serviceregistry/util/label/label.go AugmentLabels, 1.32.
pub fn with_topology(labels: &Labels, topology: &Topology<'_>) -> Labels {
    let locality = topology.locality;
    let known: [(&str, &str); 5] = [
        (TOPOLOGY[0], &locality.region),
        (TOPOLOGY[1], &locality.zone),
        (TOPOLOGY[2], &locality.subzone),
        (TOPOLOGY[3], topology.cluster),
        (TOPOLOGY[4], topology.node),
    ];
    let mut pairs: BTreeMap<Arc<str>, Arc<str>> =
        labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    for (key, value) in known {
        if !value.is_empty() {
            pairs.insert(Arc::from(key), Arc::from(value));
        }
    }
    let unnamed = labels.get(NETWORK_LABEL).is_none_or(str::is_empty);
    if unnamed && !topology.network.is_empty() {
        pairs.insert(Arc::from(NETWORK_LABEL), topology.network.as_arc().clone());
    }
    pairs.into_iter().collect()
}

/// The locality that labels state: `/` or, where there is none, `.` separates the parts.
pub(super) fn locality_label(labels: &Labels) -> Option<Locality> {
    let text = labels
        .get("topology.istio.io/locality")
        .or_else(|| labels.get("istio-locality"))
        .filter(|text| !text.is_empty())?;
    if text.contains('/') {
        Some(Locality::parse(text))
    } else {
        Some(Locality::parse(&text.replace('.', "/")))
    }
}

/// The SPIFFE identity of a service account.
pub(super) fn identity(trust_domain: &str, namespace: &str, account: &str) -> Arc<str> {
    SpiffeId::new(trust_domain, namespace, account)
        .to_string()
        .into()
}

/// A WorkloadEntry as a workload; `None` while it is not there, its probes fail, or it is in a remote cluster and those
/// do not count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WorkloadOfEntry(pub ObjectName);

impl Query<Snapshot> for WorkloadOfEntry {
    type Value = Option<Arc<Workload>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<Workload>> {
        let entry = cx.get::<WorkloadEntry>(&self.0)?;
        let features = &cx.settings().features;
        let elsewhere = self.0.cluster.is_some() && !features.cross_cluster_workload_entries;
        if elsewhere || features.workload_entry_health_checks && !is_healthy(&entry) {
            return None;
        }
        // The labels of the object win over those of its spec.
        let labels: Labels = Labels::from(&*entry.spec.labels)
            .iter()
            .chain(entry.meta.labels.iter())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let workload = from_entry(
            cx,
            &entry.spec,
            &labels,
            &entry.meta.name,
            Some(&entry.meta),
        );
        Some(Arc::new(workload))
    }
}

/// Whether a WorkloadEntry takes traffic: its health is not checked, or its status says that it is healthy.
///
/// Istio: pilot/pkg/serviceregistry/serviceentry/conversion.go isHealthy, 1.32.
fn is_healthy(entry: &Object<WorkloadEntry>) -> bool {
    let checked = entry
        .meta
        .annotations
        .get("proxy.istio.io/health-checks-enabled");
    if !matches!(checked, Some("1" | "t" | "T" | "true" | "TRUE" | "True")) {
        return true;
    }
    let mut conditions = entry.status.conditions.iter();
    conditions.any(|c| c.r#type == "Healthy" && c.status.eq_ignore_ascii_case("true"))
}

/// A workload of what a WorkloadEntry, or an endpoint of a ServiceEntry, says. `meta` is that of the WorkloadEntry.
///
/// Istio: pilot/pkg/serviceregistry/serviceentry/conversion.go convertWorkloadEntryToWorkloadInstance, 1.32.
pub(super) fn from_entry(
    cx: &Cx<'_, Snapshot>,
    spec: &WorkloadEntry,
    labels: &Labels,
    name: &ObjectName,
    meta: Option<&Meta>,
) -> Workload {
    let settings = cx.settings();
    let unix = spec.address.strip_prefix("unix://");
    let is_name = !spec.address.is_empty() && spec.address.parse::<IpAddr>().is_err();
    let locality = if spec.locality.is_empty() {
        locality_label(labels).unwrap_or_default()
    } else {
        Locality::parse(&spec.locality)
    };
    let network = if spec.network.is_empty() {
        network_of(cx, name.cluster.as_ref(), &spec.address, labels)
    } else {
        spec.network.as_str().into()
    };
    let topology = Topology {
        cluster: settings.cluster_of(name),
        locality: &locality,
        node: "",
        network: &network,
    };
    let service_account = if spec.service_account.is_empty() {
        Arc::from("")
    } else {
        let trust_domain = &settings.mesh.trust_domain;
        identity(trust_domain, &name.namespace, &spec.service_account)
    };
    let mutual_tls = match labels.get(TLS_MODE_LABEL) {
        Some(mode) => mode == "istio",
        None => !spec.service_account.is_empty(),
    };
    let endpoint = Endpoint {
        address: match unix {
            Some(path) => Address::Unix(Arc::from(path)),
            None => Address::Socket {
                hosts: Arc::from([Arc::from(spec.address.as_str())]),
                port: 0,
            },
        },
        labels: with_topology(labels, &topology),
        service_account,
        // Not the one found by address: that stands in the labels only.
        network: spec.network.as_str().into(),
        locality,
        cluster: settings.cluster_of(name).clone(),
        weight: spec.weight,
        mutual_tls,
        workload: workload_name(name, meta),
        namespace: name.namespace.clone(),
        ..Endpoint::default()
    };
    Workload {
        name: name.clone(),
        endpoint,
        ports: spec
            .ports
            .iter()
            .map(|(name, number)| (Arc::from(name.as_str()), port_number(*number)))
            .collect(),
        named: is_name,
    }
}

/// The workload's name for telemetry.
///
/// Istio: pkg/kube/labels/labels.go WorkloadNameFromWorkloadEntry, 1.32.
fn workload_name(name: &ObjectName, meta: Option<&Meta>) -> Arc<str> {
    let group = |m: &Meta| {
        m.annotations
            .get("istio.io/autoRegistrationGroup")
            .map(Arc::from)
    };
    let label = |m: &Meta| {
        m.labels
            .get("service.istio.io/workload-name")
            .map(Arc::from)
    };
    meta.and_then(|m| group(m).or_else(|| label(m)))
        .unwrap_or_else(|| name.name.as_arc().clone())
}

/// The workloads of a namespace, in any cluster, that a selector chooses: Pods, then WorkloadEntries, both by name. An
/// empty selector chooses all.
pub(super) fn selected(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    selector: &Labels,
) -> Vec<Arc<Workload>> {
    let pods = names::<Pod>(cx, namespace, selector)
        .into_iter()
        .filter_map(|name| (*cx.query(&WorkloadOfPod(name))).clone());
    let mut chosen: Vec<_> = pods
        .filter(|workload| workload.endpoint.labels.matches(selector))
        .collect();
    chosen.extend(selected_entries(cx, namespace, selector));
    chosen
}

/// As [`selected`], WorkloadEntries only.
pub(super) fn selected_entries(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    selector: &Labels,
) -> impl Iterator<Item = Arc<Workload>> {
    names::<WorkloadEntry>(cx, namespace, selector)
        .into_iter()
        .filter_map(|name| (*cx.query(&WorkloadOfEntry(name))).clone())
        .filter(|workload| workload.endpoint.labels.matches(selector))
}

/// How many WorkloadEntries a selector may choose, at most.
pub(super) fn most_entries(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    selector: &Labels,
) -> usize {
    names::<WorkloadEntry>(cx, namespace, selector).len()
}

/// The objects that a selector may choose. A label of the objects themselves finds them in the index; what selects by
/// topology alone looks at all.
fn names<T: Stored>(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    selector: &Labels,
) -> Vec<ObjectName> {
    let own = selector.iter().find(|(key, _)| !is_topology_label(key));
    match own {
        Some((key, value)) => {
            cx.names_by::<T>(ObjectIndex::Label, &label_value(namespace, key, value))
        }
        None => cx.names_in::<T>(namespace),
    }
}
