//! What else a selector may mean that matches no Pod and no Deployment, and how sure it is that it means nothing.
//!
//! A folder may hold policies only, and the workloads be elsewhere. In a server the proxies that are connected are known,
//! those that will connect are not.

use std::collections::{BTreeMap, BTreeSet};

use incr::{Cx, Query};
use model::kinds::istio::{ServiceEntry, WorkloadEntry};
use model::kinds::kube::{Deployment, Pod};
use model::{Labels, Namespace, ObjectName, Severity};
use store::{Reads, Snapshot};

use super::workloads::{EntryWith, Workload, Workloads};
use crate::implied;

/// How bad it can be at most that no Pod and no Deployment has these labels; `None` if something else has them: a
/// WorkloadEntry, an endpoint of a ServiceEntry, a connected proxy. Without a namespace those of the mesh are meant.
pub(crate) fn unmatched(
    cx: &Cx<'_, Snapshot>,
    namespace: Option<&Namespace>,
    labels: &BTreeMap<String, String>,
) -> Option<Severity> {
    let entry = EntryWith {
        namespace: namespace.cloned(),
        labels: labels.clone(),
    };
    if *cx.query(&entry) {
        return None;
    }
    let of_entries = match namespace {
        Some(namespace) => vec![namespace.clone()],
        None => cx.namespaces::<ServiceEntry>(),
    };
    let stated = |n: Namespace| cx.query(&EndpointsIn(n)).matching(labels).next().is_some();
    if of_entries.into_iter().any(stated) {
        return None;
    }
    let of_proxies = match namespace {
        Some(namespace) => vec![namespace.clone()],
        None => cx.connected_namespaces(),
    };
    let mut connected = false;
    for namespace in of_proxies {
        let proxies = cx.query(&ConnectedIn(namespace));
        if proxies.matching(labels).next().is_some() {
            return None;
        }
        connected |= !proxies.list.is_empty();
    }
    Some(match (*cx.query(&Described), connected) {
        (true, _) => Severity::Error,
        (false, true) => Severity::Warning,
        (false, false) => Severity::Info,
    })
}

/// Whether any object says what runs: a Pod, a Deployment or a WorkloadEntry. Implied Pods do not count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Described;

impl Query<Snapshot> for Described {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        if !cx.namespaces::<Deployment>().is_empty() || !cx.namespaces::<WorkloadEntry>().is_empty()
        {
            return true;
        }
        let pods = cx.namespaces::<Pod>();
        let [only] = &pods[..] else {
            return !pods.is_empty();
        };
        let names = cx.names_in::<Pod>(only);
        let [only] = &names[..] else {
            return !names.is_empty();
        };
        cx.get::<Pod>(only)
            .is_some_and(|pod| !implied::is_from(&pod.meta.origin))
    }
}

/// The proxies of a namespace that are connected to the server, as workloads without names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ConnectedIn(pub(crate) Namespace);

impl Query<Snapshot> for ConnectedIn {
    type Value = Workloads;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Workloads {
        let labels = cx.connected(&self.0);
        unnamed(&self.0, labels.iter().cloned())
    }
}

/// The endpoints that the ServiceEntries of a namespace state, as workloads without names: one for each set of labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct EndpointsIn(Namespace);

impl Query<Snapshot> for EndpointsIn {
    type Value = Workloads;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Workloads {
        let entries = cx.list_in::<ServiceEntry>(&self.0);
        let stated = entries.iter().flat_map(|entry| &entry.spec.endpoints);
        let labels: BTreeSet<&BTreeMap<String, String>> = stated.map(|e| &*e.labels).collect();
        unnamed(&self.0, labels.into_iter().map(Labels::from))
    }
}

fn unnamed(namespace: &Namespace, labels: impl Iterator<Item = Labels>) -> Workloads {
    let workload = |labels: Labels| Workload {
        name: ObjectName::new(namespace.clone(), ""),
        instance_of: "".into(),
        labels,
        in_mesh: true,
        ambient: false,
        node: "".into(),
    };
    Workloads::of(labels.map(workload).collect())
}
