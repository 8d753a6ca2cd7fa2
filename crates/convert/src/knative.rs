//! Knative's Ingress: a Gateway and a VirtualService for each host, by who reaches it.
//!
//! An Ingress is *served* if its annotation names a class that is configured. Hosts that everybody reaches are those of the
//! edge's gateway; cluster-local ones are for sidecars, and for a gateway of their own where one is named, and never for
//! that one. A host belongs to a namespace: see [`owner`](crate::owner); within it the rules of older Ingresses
//! come first. What cannot be served as it is stated is closed, and its Ingress is not ready.
//!
//! Knative: networking/pkg/apis/networking/v1alpha1, net-istio/pkg/reconciler/ingress, 1.19.

mod charge;
mod class;
mod gateway;
mod hash;
mod host;
mod name;
mod owner;
mod route;
mod rules;
mod status;
mod tls;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::derived::{Derived, Semantics};
use model::kinds::knative::Visibility;
use model::{Diagnostic, Kind, ObjectKey, ObjectName, Severity};

use crate::outcome::{code, finding};

pub use class::is_served;
pub use gateway::GatewayOfHost;
pub use host::RoutesOfHost;
pub use status::StatusOf;
pub use told::FindingsOf;

pub(crate) use rules::claims;

/// A host, as those reach it who may.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// Who reaches it.
    pub visibility: Visibility,
    /// The host.
    pub host: Arc<str>,
}

/// How much the routes of one Ingress, and those of one host, may weigh.
pub const BYTES: usize = 16 << 20;

fn key(name: &ObjectName) -> ObjectKey {
    ObjectKey {
        kind: Kind::KnativeIngress,
        name: name.clone(),
    }
}

/// What an object was made from: Ingresses, and the other objects without which it would be another.
fn derived<'i>(
    ingresses: impl IntoIterator<Item = &'i ObjectName>,
    others: impl IntoIterator<Item = ObjectKey>,
    semantics: Semantics,
) -> Derived {
    let ingresses = ingresses.into_iter().map(key);
    Derived {
        by: "knative",
        from: ingresses.chain(others).collect(),
        semantics,
        sessions: BTreeMap::new(),
        edge: BTreeMap::new(),
    }
}

/// A finding about a field of an Ingress.
fn told(
    ingress: &ObjectName,
    code: &'static str,
    at: String,
    message: impl Into<Arc<str>>,
) -> Diagnostic {
    let severity = match code {
        code::CLOSED | code::OVER_LIMIT => Severity::Error,
        _ => Severity::Warning,
    };
    finding(&key(ingress), code, severity, at, message)
}
