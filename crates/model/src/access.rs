//! Reviews of access: what the API of a cluster says of who may read Secrets.

use std::fmt;
use std::sync::Arc;

use crate::names::ClusterId;
use crate::node::Identity;

/// What is asked: whether a workload may list the Secrets of its own namespace in its cluster.
///
/// Istio: pilot/pkg/credentials/kube/secrets.go Authorize, 1.32.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AccessKey {
    /// The cluster that it is in; `None` for the configured one.
    pub cluster: Option<ClusterId>,
    /// Who it has proven to be.
    pub identity: Identity,
}

impl AccessKey {
    /// The name of the user, as Kubernetes has it.
    pub fn user(&self) -> String {
        let Identity {
            namespace,
            service_account,
        } = &self.identity;
        format!("system:serviceaccount:{namespace}:{service_account}")
    }

    /// The groups that Kubernetes has this user in. istiod leaves them out of its reviews, and so refuses who may.
    pub fn groups(&self) -> Vec<String> {
        vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.identity.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

impl fmt::Display for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user())?;
        match &self.cluster {
            Some(cluster) => write!(f, " in cluster {cluster}"),
            None => Ok(()),
        }
    }
}

/// What was answered, or why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    /// It may.
    Allowed,
    /// It may not.
    Denied,
    /// It is not known, so it may not. Operators can act.
    Unknown(Arc<str>),
}

impl Access {
    /// Whether it may.
    pub fn is_allowed(&self) -> bool {
        *self == Self::Allowed
    }
}
