//! Kubernetes Ingress with annotations, as Higress and ingress-nginx read it: a Gateway and a VirtualService for each
//! host, and a DestinationRule for each Service that annotations are about.
//!
//! An Ingress is *served* here if its class is one of `PILOTHOUSE_INGRESS_CLASSES`; others are left to
//! [`ingress`](crate::ingress), which has Istio's meaning. Of rules that say the same the oldest Ingress's counts. A rule
//! whose protection cannot be honoured is *closed*: it answers 503 and says why.
//!
//! Higress: pkg/ingress/config/ingress_config.go, pkg/ingress/kube/ingressv1/controller.go, 2.1.

mod access;
mod annotated;
mod at;
mod auth;
mod backend;
mod balance;
mod calls;
mod canary;
mod charge;
mod class;
mod closing;
mod draft;
mod elsewhere;
mod encoded;
mod expand;
mod expression;
mod format;
mod gateway;
mod host;
pub mod https;
pub mod limits;
mod matching;
mod mcp;
mod name;
mod passing;
mod policy;
mod refer;
mod rules;
mod slashes;
mod sound;
mod status;
mod tls;
mod told;

use std::collections::BTreeMap;

use model::derived::{Derived, Semantics};
use model::{Kind, ObjectKey, ObjectName};

pub use balance::RuleOfService;
pub use class::is_served;
pub use elsewhere::{ELSEWHERE, EntryOfService};
pub use expand::{REASON, closed};
pub use gateway::GatewayOfHost;
pub use host::RoutesOfEdgeHost;
pub use status::StatusOfEdge;
pub use told::FindingsOf;

pub(crate) use backend::{hundredths, to};
pub(crate) use class::ServedBy;
pub(crate) use expand::secured;
pub(crate) use gateway::{label, server};
pub(crate) use refer::{Fault, host_of, port};
pub(crate) use rules::{BackendPort, claims};
pub(crate) use sound::refused;
pub(crate) use status::Addresses;
pub(crate) use tls::{OldestOf, credential};

fn key(name: &ObjectName) -> ObjectKey {
    ObjectKey {
        kind: Kind::Ingress,
        name: name.clone(),
    }
}

/// What an object was made from: Ingresses, and the other objects without which it would be another.
fn derived(
    ingresses: impl IntoIterator<Item = ObjectName>,
    others: impl IntoIterator<Item = ObjectKey>,
) -> Derived {
    let ingresses = ingresses.into_iter().map(|name| key(&name));
    Derived {
        by: "edge",
        from: ingresses.chain(others).collect(),
        semantics: Semantics::Edge,
        sessions: BTreeMap::new(),
        edge: BTreeMap::new(),
    }
}
