//! What the rules of a route mean: routes of Istio's VirtualService.

use std::sync::Arc;

use model::ObjectKey;
use proto_istio::networking::HttpRoute;

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// Why a part of a route is not served as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RouteError {
    /// The reason of the condition `ResolvedRefs`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// The rules of a route of HTTP or gRPC requests.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct HttpRules {
    /// One for each match, in the order of the rules. Empty where a rule has no meaning.
    pub routes: Vec<Arc<HttpRoute>>,
    /// The last thing that is wrong.
    pub error: Option<RouteError>,
}

/// The rules of an HTTPRoute or GRPCRoute, at gateways or in the mesh.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HttpRulesOf {
    /// The route.
    pub route: ObjectKey,
    /// Whether for sidecars and waypoints, where references across namespaces need no grant.
    pub in_mesh: bool,
}

impl Derive for HttpRulesOf {
    type Stratum = Routes;
    type Value = HttpRules;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> HttpRules {
        let _ = read;
        HttpRules::default()
    }
}
