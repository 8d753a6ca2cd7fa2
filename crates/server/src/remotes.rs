//! Remote clusters: found by the kubeconfigs that Secrets or files hold, added, changed and removed while the server runs.
//!
//! Secrets are those of the system namespace that are labelled `istio/multiCluster=true`, from whatever source: each key of
//! one is the id of a cluster, its value a kubeconfig. Each cluster is a source of its own under the supervisor. New
//! credentials of a cluster are tried before they take the place of the old ones; what was read meanwhile stays in force.
//!
//! Istio: pkg/kube/multicluster/secretcontroller.go, 1.32. Unlike there, two Secrets that name one cluster are told apart by
//! name and not by age, so that replicas agree.

mod directory;
mod ingress;
mod kubeconfig;
mod manager;
mod options;
mod plan;
mod secrets;
mod source;
mod status;
mod trial;

pub use directory::Directory;
pub use ingress::CLASS as INGRESS_CLASS;
pub use manager::{Kubeconfigs, Manager, OnFindings, Settled, settled};
pub use options::RemoteOptions;
pub use plan::{Holder, Holders};
pub use secrets::Secrets;
pub use source::owner;
pub use status::{STATES, clusterz, statuses};

/// Codes of findings about remote clusters.
pub mod code {
    /// A kubeconfig of a remote cluster that is not used.
    pub const REMOTE_UNUSED: &str = "PIL0040";
    /// Credentials of a remote cluster that cannot be used.
    pub const REMOTE_REFUSED: &str = "PIL0041";
    /// What a Secret says of the Ingresses of its cluster is not used.
    pub const REMOTE_INGRESS: &str = "PIL0042";
}
