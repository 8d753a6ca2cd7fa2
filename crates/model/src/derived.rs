//! Objects that were made from other objects, and what that means for those who read them.
//!
//! Only a translator fills this in: nothing that is read from YAML, JSON or an API ends up here, so no user can claim it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::edge::{EdgeRoute, Need};
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
    /// What HTTP routes ask for that Istio's kind has no field for, by their place in the VirtualService.
    pub edge: BTreeMap<usize, Arc<EdgeRoute>>,
}

impl Derived {
    /// Whether the object that it is named after is of that kind.
    pub fn is_from(&self, kind: Kind) -> bool {
        self.from.first().is_some_and(|key| key.kind == kind)
    }

    /// What its routes ask of the filters of a listener.
    pub fn needs(&self) -> BTreeSet<Need> {
        self.edge.values().flat_map(|route| route.needs()).collect()
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
    /// Those of an Ingress with annotations, as Higress and ingress-nginx read it: routes are found by the host of a
    /// request, whatever name its connection asked for.
    Edge,
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
    /// Whether it was made from an Ingress with annotations.
    pub fn is_edge(&self) -> bool {
        let derived = self.derived.as_ref();
        derived.is_some_and(|derived| derived.semantics == Semantics::Edge)
    }

    /// What the object means as one made from the Gateway API, if it was.
    pub fn gateway_api(&self) -> Option<&GatewayRole> {
        match &self.derived.as_ref()?.semantics {
            Semantics::GatewayApi(role) => Some(role),
            Semantics::Istio | Semantics::Ingress | Semantics::Edge => None,
        }
    }
}
