//! Which Ingresses of remote clusters are served.

use std::collections::BTreeMap;

use crate::names::{ClusterId, Namespace};
use crate::settings::Words;

/// What whoever configures the mesh says of the Ingresses of remote clusters. Those of a cluster that is not in it are not
/// served.
pub type RemoteIngresses = BTreeMap<ClusterId, RemoteIngress>;

/// What is said of the Ingresses of one remote cluster.
///
/// Higress: pkg/ingress/kube/common/model.go Options, pkg/ingress/config/ingress_config.go remoteIngressControllers, 2.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteIngress {
    /// The classes that are served, as `PILOTHOUSE_INGRESS_CLASSES` has them for the configured cluster.
    pub classes: Words,
    /// The namespaces whose Ingresses are served; none stands for all.
    pub namespaces: Words,
    /// Whether their status is written there.
    pub writes_status: bool,
}

impl RemoteIngress {
    /// Whether Ingresses of a namespace count at all.
    pub fn reads(&self, namespace: &Namespace) -> bool {
        let mut named = self.namespaces.iter();
        self.namespaces.is_empty() || named.any(|named| **named == **namespace)
    }
}
