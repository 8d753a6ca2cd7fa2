//! What the rules of a route mean: routes of Istio's VirtualService.
//!
//! Every match of a rule becomes a route of its own, since precedence is decided match by match: see [`precedence`].
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go convertHTTPRoute, convertGRPCRoute, 1.32.

pub(super) mod backend;
mod budget;
mod cors;
mod filters;
mod matches;
mod precedence;
mod refused;
mod rule;
mod session;
pub(super) mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::kinds::gateway_api::{GrpcRoute, HttpRoute as KubeHttpRoute};
use model::session::Session;
use model::{Diagnostic, Kind, ObjectKey};
use prost::Message;
use proto_istio::networking::HttpRoute;

pub(crate) use precedence::sort;
pub use refused::refused_values;

use self::budget::Budget;
use self::refused::Refused;
use self::rule::Rule;
use super::limits;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// Why a part of a route is not served as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RouteError {
    /// The reason of a condition.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Whether the condition `Accepted` tells of it, and not `ResolvedRefs`: nothing of the route is served.
    pub refuses: bool,
}

/// The reasons of [`RouteError`].
pub(crate) mod reason {
    /// The object that takes requests does not exist.
    pub(crate) const BACKEND_NOT_FOUND: &str = "BackendNotFound";
    /// No ReferenceGrant lets the route refer to an object of another namespace.
    pub(crate) const REF_NOT_PERMITTED: &str = "RefNotPermitted";
    /// Nothing of that kind takes requests.
    pub(crate) const INVALID_KIND: &str = "InvalidKind";
    /// A backend is named in a way that has no meaning.
    pub(crate) const INVALID_DESTINATION: &str = "InvalidDestination";
    /// A filter is wrong, or there is none of its type.
    pub(crate) const INVALID_FILTER: &str = "InvalidFilter";
    /// Something else is wrong.
    pub(crate) const INVALID_CONFIGURATION: &str = "InvalidConfiguration";
    /// What is asked for cannot be done.
    pub(crate) const UNSUPPORTED_VALUE: &str = "UnsupportedValue";
}

impl RouteError {
    /// An error with a reason of [`reason`].
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            refuses: false,
        }
    }

    /// What is asked for cannot be done, and the route is not served without it.
    pub(crate) fn refusal(message: impl Into<String>) -> Self {
        Self {
            refuses: true,
            ..Self::new(reason::UNSUPPORTED_VALUE, message)
        }
    }

    /// This error, and what is wrong besides.
    fn and(mut self, other: Self) -> Self {
        self.message.push_str("; ");
        self.message.push_str(&other.message);
        self
    }
}

/// What is made of a match of a rule.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ruled {
    /// A route of a VirtualService.
    pub route: Arc<HttpRoute>,
    /// How its requests keep sessions, for which Istio's kind has no field.
    pub session: Option<Arc<Session>>,
}

/// One error with the reason of the first and what all say.
fn joined<const N: usize>(errors: [Option<RouteError>; N]) -> Option<RouteError> {
    errors.into_iter().flatten().reduce(RouteError::and)
}

/// The rules of a route of HTTP or gRPC requests.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct HttpRules {
    /// One for each match, in the order of the rules. Empty where a rule has no meaning.
    pub routes: Vec<Ruled>,
    /// The last thing that is wrong.
    pub error: Option<RouteError>,
    /// Objects besides the route without which the routes would be others.
    pub others: BTreeSet<ObjectKey>,
    /// Values that Envoy refuses, each with the place of its rule: what has them is closed.
    pub refused: Vec<(usize, Refused)>,
    /// How many rules there are.
    pub count: usize,
    /// How many of them serve nothing because of such values.
    pub dropped: usize,
    /// Why nothing is made of the route, where that would be too much.
    pub excess: Option<Diagnostic>,
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
        let name = &self.route.name;
        match self.route.kind {
            Kind::HttpRoute => {
                let route = read.get::<KubeHttpRoute>(name);
                route.map(|route| self.rules(read, route.spec.rules.iter().map(Rule::of_http)))
            }
            Kind::GrpcRoute => {
                let route = read.get::<GrpcRoute>(name);
                route.map(|route| self.rules(read, route.spec.rules.iter().map(Rule::of_grpc)))
            }
            _ => None,
        }
        .unwrap_or_default()
    }
}

impl HttpRules {
    /// What its routes weigh.
    pub(crate) fn weight(&self) -> usize {
        limits::weight(self.routes.iter().map(|ruled| &*ruled.route))
    }

    /// That Envoy refuses values of the rules. The route is refused where none of them is without.
    pub(crate) fn unsupported(&self) -> Option<RouteError> {
        let shown = self.refused.iter().take(SHOWN);
        let shown =
            shown.map(|(at, refused)| format!("rules[{at}].{}: {}", refused.at, refused.why));
        let what = shown.reduce(|all, next| format!("{all}; {next}"))?;
        Some(match self.dropped == self.count {
            true => RouteError::refusal(what),
            // So it begins, as the API wants it.
            false => RouteError::new(
                reason::UNSUPPORTED_VALUE,
                format!("Dropped Rule: {what}, so requests for it get 503"),
            ),
        })
    }
}

/// How many refused values a status names.
const SHOWN: usize = 8;

impl HttpRulesOf {
    fn rules<'r>(
        &self,
        read: &Reader<'_, '_, Routes>,
        rules: impl Iterator<Item = Rule<'r>>,
    ) -> HttpRules {
        let mut made = HttpRules::default();
        let mut budget = Budget::of(&self.route);
        for (index, rule) in rules.enumerate() {
            let refused = refused::of_rule(&rule);
            made.dropped += usize::from(refused::drops(&refused, rule.matches.len()));
            let refused = refused.into_iter();
            made.refused.extend(refused.map(|refused| (index, refused)));
            made.count += 1;
            if let Err(error) = self.rule(read, (index, &rule), &mut budget, &mut made) {
                // A rule that has no meaning takes the others of its route with it, as in Istio.
                return HttpRules {
                    error: Some(error),
                    excess: budget.excess(),
                    ..HttpRules::default()
                };
            }
        }
        made
    }

    /// Adds the routes of a rule.
    ///
    /// # Errors
    /// The rule has no meaning.
    fn rule(
        &self,
        read: &Reader<'_, '_, Routes>,
        (index, rule): (usize, &Rule<'_>),
        budget: &mut Budget<'_>,
        made: &mut HttpRules,
    ) -> Result<(), RouteError> {
        let first = rule
            .matches
            .first()
            .map(|first| first.request())
            .transpose()?;
        let resolving = backend::Resolving {
            read,
            route: &self.route,
            in_mesh: self.in_mesh,
        };
        let (mut base, error) = rule.base(&resolving, &mut made.others)?;
        base.name = match rule.name {
            Some(name) => name.to_string(),
            None => format!(
                "{}.{}.{index}",
                self.route.name.namespace, self.route.name.name
            ),
        };
        let features = &read.settings().features;
        let kept = session::kept(rule.session, &self.route, &base.name, features);
        made.error = joined([error, kept.error]).or(made.error.take());
        budget.take_copies(index, base.encoded_len(), rule.matches.len())?;
        let ruled = |route| Ruled {
            route: Arc::new(route),
            session: kept.session.clone(),
        };
        let Some(first) = first else {
            made.routes.push(ruled(base));
            return Ok(());
        };
        let others = rule.matches.iter().skip(1).map(|other| other.request());
        for matched in std::iter::once(Ok(first)).chain(others) {
            let matched = matched?;
            budget.take(index, matched.encoded_len())?;
            made.routes.push(ruled(HttpRoute {
                r#match: vec![matched],
                ..base.clone()
            }));
        }
        Ok(())
    }
}
