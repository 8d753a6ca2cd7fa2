//! Who a request comes from, once that is proven.

use std::sync::Arc;
use std::time::SystemTime;

use model::names::Namespace;
use model::node::{Identity, Node};

use crate::SpiffeId;
use crate::refusal::{Reason, Refusal, quoted};

/// The metadata in which a proxy says which service account it runs as.
const SERVICE_ACCOUNT: &str = "SERVICE_ACCOUNT";

/// What proved who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A client certificate.
    ClientCertificate,
    /// A token.
    IdToken,
    /// A client certificate that a trusted gateway tells of.
    Xfcc,
}

/// The pod that a token is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodClaims {
    /// Its name; empty where the token is bound to none.
    pub name: Arc<str>,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its uid; empty as the name.
    pub uid: Arc<str>,
    /// Its service account.
    pub service_account: Arc<str>,
    /// The node that it runs on, where the token says so.
    pub node: Option<Arc<str>>,
}

/// Somebody who has proven to be one of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// What proved it.
    pub source: Source,
    /// The identities that it has proven; at least one, each whole and of a trust domain of the mesh.
    pub ids: Vec<SpiffeId>,
    /// What a token of Kubernetes says of its pod.
    pub pod: Option<PodClaims>,
    /// When what proved it expires, where that is known.
    pub until: Option<SystemTime>,
}

impl Caller {
    /// The identity of the caller as the proxy that it says it is: the first whose namespace and service account are the
    /// node's. A node that states none may be of any.
    ///
    /// Istio: pilot/pkg/xds/auth.go checkConnectionIdentity, 1.32.
    ///
    /// # Errors
    ///
    /// When none is.
    pub fn as_proxy(&self, node: &Node) -> Result<Identity, Refusal> {
        let account = node.metadata.get(SERVICE_ACCOUNT).and_then(|v| v.as_str());
        let account = account.unwrap_or_default();
        let is_same = |stated: &str, proven: &str| stated.is_empty() || stated == proven;
        let mut ids = self.ids.iter();
        let id = ids.find(|id| {
            is_same(&node.namespace, &id.namespace) && is_same(account, &id.service_account)
        });
        let id = id.ok_or_else(|| {
            let proven: Vec<String> = self.ids.iter().map(|id| quoted(&id.to_string())).collect();
            let detail = format!(
                "node of namespace {}, service account {}; proven: {}",
                quoted(&node.namespace),
                quoted(account),
                proven.join(", ")
            );
            Refusal::new(Reason::Identity, detail)
        })?;
        Ok(Identity {
            namespace: id.namespace.clone(),
            service_account: id.service_account.clone(),
        })
    }
}
