//! Workloads of a namespace by their labels: pods, and those that Deployments will make.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::WorkloadEntry;
use model::kinds::kube::{Container, Deployment, NamespaceSpec, Node, Pod};
use model::{Labels, Name, Namespace, Object, ObjectName};
use rustc_hash::FxHashMap;
use store::index::label_value;
use store::{ObjectIndex, Reads, Snapshot};

/// The name of the container that injection adds.
pub(crate) const PROXY: &str = "istio-proxy";

/// A pod, or what a Deployment will make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Workload {
    /// Of the pod or the Deployment.
    pub(crate) name: ObjectName,
    /// What people know it by: the Deployment, or whatever else made the pod.
    pub(crate) instance_of: Name,
    /// Its labels.
    pub(crate) labels: Labels,
    /// Whether a sidecar is, or will be, beside it.
    pub(crate) in_mesh: bool,
    /// Whether ztunnel takes its traffic.
    pub(crate) ambient: bool,
    /// The node it runs on.
    pub(crate) node: Arc<str>,
}

/// The workloads of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    pub(crate) list: Vec<Workload>,
    by_label: FxHashMap<(Arc<str>, Arc<str>), Vec<u32>>,
}

impl PartialEq for Workloads {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Workloads {
    /// The workloads that have every pair; all of them where there is no pair.
    pub(crate) fn matching<'a, K: AsRef<str> + 'a, V: AsRef<str> + 'a>(
        &'a self,
        selector: impl IntoIterator<Item = (K, V)>,
    ) -> Box<dyn Iterator<Item = &'a Workload> + 'a> {
        let pairs: Vec<(K, V)> = selector.into_iter().collect();
        let narrowest = pairs
            .iter()
            .map(|(k, v)| {
                let key = (Arc::from(k.as_ref()), Arc::from(v.as_ref()));
                self.by_label.get(&key).map_or(&[][..], Vec::as_slice)
            })
            .min_by_key(|list| list.len());
        let all = move |workload: &&Workload| {
            let has = |(k, v): &(K, V)| workload.labels.get(k.as_ref()) == Some(v.as_ref());
            pairs.iter().all(has)
        };
        match narrowest {
            None => Box::new(self.list.iter()),
            Some(list) => Box::new(list.iter().map(|i| &self.list[*i as usize]).filter(all)),
        }
    }
}

/// The workloads of a namespace, in the order of their names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WorkloadsIn(pub(crate) Namespace);

impl Query<Snapshot> for WorkloadsIn {
    type Value = Workloads;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Workloads {
        let namespace = cx.query(&NamespaceLabels(self.0.clone()));
        let mut list: Vec<Workload> = cx
            .list_in::<Pod>(&self.0)
            .iter()
            .map(|pod| {
                let (labels, annotations) = (&pod.meta.labels, &pod.meta.annotations);
                let spec = &pod.spec;
                let containers = spec.containers.iter().chain(&spec.init_containers);
                Workload {
                    name: pod.meta.name.clone(),
                    instance_of: (&*pod.workload()).into(),
                    in_mesh: in_mesh(labels, annotations, containers, namespace.as_ref().as_ref()),
                    ambient: annotations.get("ambient.istio.io/redirection") == Some("enabled"),
                    labels: labels.clone(),
                    node: spec.node_name.clone(),
                }
            })
            .collect();
        let pods = Workloads::of(std::mem::take(&mut list));
        let planned: Vec<Workload> = cx
            .list_in::<Deployment>(&self.0)
            .iter()
            .filter_map(|deployment| {
                let template = &deployment.spec.template;
                let labels = &template.metadata.labels;
                // Its pods speak for themselves where they are there.
                if labels.is_empty() || pods.matching(labels.iter()).next().is_some() {
                    return None;
                }
                let containers = template.spec.containers.iter();
                let annotations = &template.metadata.annotations;
                Some(Workload {
                    name: deployment.meta.name.clone(),
                    instance_of: deployment.meta.name.name.clone(),
                    in_mesh: in_mesh(labels, annotations, containers, namespace.as_ref().as_ref()),
                    ambient: false,
                    labels: labels.clone(),
                    node: Arc::default(),
                })
            })
            .collect();
        if planned.is_empty() {
            return pods;
        }
        list = pods.list;
        list.extend(planned);
        Workloads::of(list)
    }
}

impl Workloads {
    pub(super) fn of(list: Vec<Workload>) -> Self {
        let mut by_label: FxHashMap<(Arc<str>, Arc<str>), Vec<u32>> = FxHashMap::default();
        for (i, workload) in (0..).zip(&list) {
            for (key, value) in workload.labels.iter() {
                by_label
                    .entry((key.clone(), value.clone()))
                    .or_default()
                    .push(i);
            }
        }
        Self { list, by_label }
    }
}

/// The labels of a namespace; `None` where there is no such object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NamespaceLabels(pub(crate) Namespace);

impl Query<Snapshot> for NamespaceLabels {
    type Value = Option<Labels>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Labels> {
        let name = ObjectName::new("", self.0.as_str());
        cx.get::<NamespaceSpec>(&name)
            .map(|n| n.meta.labels.clone())
    }
}

/// The locality of a node, as labels that pods on it are selected by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeLocality(pub(crate) Name);

impl Query<Snapshot> for NodeLocality {
    type Value = Labels;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Labels {
        const LEVELS: [&str; 3] = [
            "topology.kubernetes.io/region",
            "topology.kubernetes.io/zone",
            "topology.istio.io/subzone",
        ];
        let name = ObjectName::new("", self.0.clone());
        let Some(node) = cx.get::<Node>(&name) else {
            return Labels::default();
        };
        // A level without the one above it is lost.
        let levels = LEVELS.iter().enumerate().map_while(|(i, label)| {
            let value = node.meta.labels.get(label).unwrap_or_default();
            (i == 0 || !value.is_empty()).then_some((*label, value))
        });
        levels.filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Whether a workload gets a sidecar: it has one, its labels or annotations say so, or its namespace does.
///
/// Istio: pkg/config/analysis/analyzers/util/in_mesh.go, 1.32.
pub(crate) fn in_mesh<'a>(
    labels: &Labels,
    annotations: &Labels,
    containers: impl Iterator<Item = &'a Container>,
    namespace: Option<&Labels>,
) -> bool {
    const INJECT: &str = "sidecar.istio.io/inject";
    if has_proxy(containers) {
        return true;
    }
    if let Some(said) = labels.get(INJECT).or_else(|| annotations.get(INJECT)) {
        return said == "true";
    }
    namespace.is_some_and(|n| n.get("istio-injection") == Some("enabled"))
}

/// Whether the first container of the proxy's name has an image.
pub(crate) fn has_proxy<'a>(mut containers: impl Iterator<Item = &'a Container>) -> bool {
    containers
        .find(|c| &*c.name == PROXY)
        .is_some_and(|c| !c.image.is_empty())
}

/// The namespaces that hold workloads, sorted.
pub(crate) fn namespaces(cx: &Cx<'_, Snapshot>) -> Vec<Namespace> {
    let mut all = cx.namespaces::<Pod>();
    all.extend(cx.namespaces::<Deployment>());
    all.sort();
    all.dedup();
    all
}

/// Whether any workload of the mesh has every pair of a selector.
pub(crate) fn any_matches<K: AsRef<str>, V: AsRef<str>>(
    cx: &Cx<'_, Snapshot>,
    selector: impl IntoIterator<Item = (K, V)> + Clone,
) -> bool {
    namespaces(cx).into_iter().any(|namespace| {
        let workloads = cx.query(&WorkloadsIn(namespace));
        workloads.matching(selector.clone()).next().is_some()
    })
}

/// Whether a WorkloadEntry has every one of these labels: one of the namespace, or any of the mesh without one. What asks is
/// looked at again when that changes, and not whenever one of a hundred thousand entries does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct EntryWith {
    pub(crate) namespace: Option<Namespace>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Query<Snapshot> for EntryWith {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        let Some((key, value)) = self.labels.first_key_value() else {
            return match &self.namespace {
                Some(namespace) => !cx.names_in::<WorkloadEntry>(namespace).is_empty(),
                None => !cx.namespaces::<WorkloadEntry>().is_empty(),
            };
        };
        let namespaces = match &self.namespace {
            Some(namespace) => vec![namespace.clone()],
            None => cx.namespaces::<WorkloadEntry>(),
        };
        let has_all = |entry: &Arc<Object<WorkloadEntry>>| {
            self.labels.iter().all(|(key, value)| {
                let stated = entry.spec.labels.get(key).map(String::as_str);
                stated.or(entry.meta.labels.get(key)) == Some(value)
            })
        };
        namespaces.iter().any(|namespace| {
            let first = label_value(namespace, key, value);
            let entries = cx.list_by::<WorkloadEntry>(ObjectIndex::Label, &first);
            entries.iter().any(has_all)
        })
    }
}

/// Calls `each` with every workload of the mesh that a selector matches, until it returns false.
pub(crate) fn for_each_match<K: AsRef<str>, V: AsRef<str>>(
    cx: &Cx<'_, Snapshot>,
    selector: impl IntoIterator<Item = (K, V)> + Clone,
    mut each: impl FnMut(&Workload) -> bool,
) {
    for namespace in namespaces(cx) {
        let workloads = cx.query(&WorkloadsIn(namespace));
        for workload in workloads.matching(selector.clone()) {
            if !each(workload) {
                return;
            }
        }
    }
}
