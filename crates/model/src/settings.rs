//! Settings of the whole mesh: mesh config, mesh networks and feature flags, as one input of generation.

mod features;

use std::sync::Arc;

pub use features::{Bind, Feature, Features, JwksFetch, Listed, Words};
pub use proto_istio::mesh::{MeshConfig, MeshNetworks};

use crate::names::{ClusterId, Namespace};
use crate::object::ObjectName;
use crate::redacted::Redacted;

/// What is set once for everybody. Replaced whole; generation reads it through the snapshot.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Mesh config, defaults applied.
    pub mesh: Arc<MeshConfig>,
    /// Mesh networks.
    pub networks: Arc<MeshNetworks>,
    /// Feature flags that change what is generated.
    pub features: Arc<Features>,
    /// The DNS domain of Kubernetes services, `cluster.local`.
    pub domain: Arc<str>,
    /// The cluster that objects without another cluster belong to.
    pub cluster: ClusterId,
    /// The namespace of the control plane (`istio-system`).
    pub system_namespace: Namespace,
    /// Where Secrets are for those alone whom the API of their cluster lets read them.
    pub access_reviews: AccessReviews,
    /// The key of the texts that take the place of values of Secrets which are not there, so that nobody can guess one. Drawn
    /// when the process starts.
    pub unguessable: Redacted,
}

/// The clusters whose APIs are asked who may read Secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessReviews {
    /// The configured one. Folders and our own store know no such rights.
    pub configured: bool,
    /// Remote ones.
    pub remote: bool,
}

impl Settings {
    /// The cluster by which objects of a remote one are named; none of the configured cluster, which is also that of a
    /// proxy which states no cluster.
    pub fn remote<'a>(&self, cluster: &'a ClusterId) -> Option<&'a ClusterId> {
        (!cluster.is_empty() && *cluster != self.cluster).then_some(cluster)
    }

    /// Whether the API of a cluster (`None` for the configured one) is asked who may read its Secrets.
    pub fn reviews_access(&self, cluster: Option<&ClusterId>) -> bool {
        match cluster {
            Some(_) => self.access_reviews.remote,
            None => self.access_reviews.configured,
        }
    }

    /// The cluster that an object of a kind that each cluster has its own of is in.
    pub fn cluster_of<'a>(&'a self, name: &'a ObjectName) -> &'a ClusterId {
        name.cluster.as_ref().unwrap_or(&self.cluster)
    }
}
