//! Objects that were made from other objects, and what that means for those who read them.
//!
//! Only a translator fills this in: nothing that is read from YAML, JSON or an API ends up here, so no user can claim it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::kinds::Kind;
use crate::names::Namespace;
use crate::object::{Meta, ObjectKey};
use crate::session::Session;

/// What an object was made from.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Derived {
    /// The translator that made it.
    pub by: &'static str,
    /// The written objects that it was made from, the one that it is named after first.
    pub from: Arc<[ObjectKey]>,
    /// How generation reads it.
    pub semantics: Semantics,
    /// How HTTP routes keep sessions, by their place in the VirtualService: Istio's kind has no field for it.
    pub sessions: BTreeMap<usize, Arc<Session>>,
}

impl Derived {
    /// Whether the object that it is named after is of that kind.
    pub fn is_from(&self, kind: Kind) -> bool {
        self.from.first().is_some_and(|key| key.kind == kind)
    }
}

impl fmt::Display for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("derived from ")?;
        for (index, key) in self.from.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{key}")?;
        }
        Ok(())
    }
}

/// Whose rules a derived object follows, where they differ from those of Istio's kinds.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Default)]
pub enum Semantics {
    /// Those of Istio.
    #[default]
    Istio,
    /// Those of Kubernetes Ingress.
    Ingress,
    /// Those of the Gateway API.
    GatewayApi(GatewayRole),
}

/// What Istio's Gateway has no field for.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Default)]
pub struct GatewayRole {
    /// The hosts of the services through which it is reached; `None` where it selects proxies by labels.
    pub services: Option<Arc<[Arc<str>]>>,
    /// The namespace of the gateway that it is a part of, where that is not its own.
    pub parent_namespace: Option<Namespace>,
    /// The service account of the proxies that were deployed for it.
    pub service_account: Option<Arc<str>>,
}

impl Meta {
    /// What the object means as one made from the Gateway API, if it was.
    pub fn gateway_api(&self) -> Option<&GatewayRole> {
        match &self.derived.as_ref()?.semantics {
            Semantics::GatewayApi(role) => Some(role),
            Semantics::Istio | Semantics::Ingress => None,
        }
    }
}
