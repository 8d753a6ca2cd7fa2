//! The hosts that VirtualServices route for sidecars, with the namespaces in which they do.

use std::collections::BTreeSet;

use incr::{Cx, Query};
use model::kinds::istio::VirtualService;
use model::{Age, ObjectName};
use store::{Reads, Snapshot};

use super::hosts::{full_name, scopes};

/// What a VirtualService routes for sidecars.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MeshHosts {
    /// `*`, or the namespaces that see it.
    pub(crate) scopes: BTreeSet<String>,
    /// Its hosts in full, in the order written.
    pub(crate) hosts: Vec<String>,
    /// When it was created.
    pub(crate) created: Age,
}

/// The hosts of a VirtualService; `None` where sidecars do not see it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct MeshHostsOf(pub(crate) ObjectName);

impl Query<Snapshot> for MeshHostsOf {
    type Value = Option<MeshHosts>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let object = cx.get::<VirtualService>(&self.0)?;
        let spec = &object.spec;
        if !spec.gateways.is_empty() && !spec.gateways.iter().any(|g| g == "mesh") {
            return None;
        }
        let namespace = object.namespace();
        let domain = &cx.settings().domain;
        let hosts = spec.hosts.iter();
        Some(MeshHosts {
            scopes: scopes(namespace, &spec.export_to),
            hosts: hosts.map(|h| full_name(namespace, h, domain)).collect(),
            created: object.meta.created,
        })
    }
}
