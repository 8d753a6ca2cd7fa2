//! Who a proxy is among the objects: what it says of itself, and its Pod.

use std::sync::Arc;

use incr::Cx;
use model::kinds::kube::Pod;
use model::names::{ClusterId, Namespace};
use model::node::Node;
use model::object::{Object, ObjectName};
use store::{Reads, Snapshot};

use super::pod_of;

/// Who a proxy is among the objects.
pub struct Identity<'a> {
    /// What it says.
    pub node: &'a Node,
    /// The cluster whose objects it is one of; `None` for the configured one.
    pub cluster: Option<ClusterId>,
    /// The namespace it states; `None` where it was concluded from the DNS domain.
    pub stated_namespace: Option<Namespace>,
    /// Its name as that of an object, where the namespace in its id is the one it states.
    pub own_name: Option<ObjectName>,
    /// Its Pod.
    pub pod: Option<Arc<Object<Pod>>>,
    /// Stands for a virtual machine though it may run in a Pod.
    pub virtual_machine: bool,
}

impl<'a> Identity<'a> {
    /// Looks for the objects of a proxy.
    pub fn of(cx: &Cx<'_, Snapshot>, node: &'a Node) -> Self {
        let stated_namespace = node
            .metadata
            .get("NAMESPACE")
            .and_then(|value| value.as_str())
            .filter(|text| !text.is_empty())
            .map(Namespace::from);
        let id = node.id.split('~').nth(2).unwrap_or_default();
        let own_name = id
            .split_once('.')
            .filter(|(_, namespace)| stated_namespace.as_deref() == Some(*namespace))
            .map(|(name, namespace)| ObjectName::new(namespace, name));
        let cluster = cluster(cx, node, own_name.as_ref());
        let own_name = own_name.map(|name| name.in_cluster(cluster.as_ref()));
        let address = node
            .addresses
            .first()
            .map_or_else(String::new, ToString::to_string);
        Self {
            node,
            stated_namespace,
            pod: pod_of(
                cx,
                (cluster.as_ref(), own_name.as_ref()),
                &node.namespace,
                &address,
            ),
            own_name,
            cluster,
            virtual_machine: node
                .labels
                .get("istio.io/test-vm")
                .is_some_and(|v| !v.is_empty()),
        }
    }
}

/// The remote cluster that a proxy says it is in, whether or not it is known; of one that says none, the first that has a
/// Pod of its name.
///
/// Istio: pilot/pkg/serviceregistry/aggregate/controller.go skipSearchingRegistryForProxy, 1.32.
fn cluster(cx: &Cx<'_, Snapshot>, node: &Node, own_name: Option<&ObjectName>) -> Option<ClusterId> {
    if node.cluster.is_empty() {
        let pods = own_name.map(|name| cx.namesakes::<Pod>(name));
        return pods.and_then(|pods| pods.first()?.meta.name.cluster.clone());
    }
    (node.cluster != cx.settings().cluster).then(|| node.cluster.clone())
}
