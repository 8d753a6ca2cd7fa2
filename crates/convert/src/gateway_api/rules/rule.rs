//! A rule of either kind of route, and the part of its routes that all its matches share.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ObjectKey;
use model::kinds::gateway_api::{
    GrpcBackendRef, GrpcRule, HttpBackendRef, HttpRule, Retry, SessionPersistence, Timeouts,
};
use proto_istio::networking::{HttpDirectResponse, HttpRetry, HttpRoute, HttpRouteDestination};
use proto_istio::wkt;
use validate::text::duration_if_set;

use super::backend::{Named, Resolving};
use super::filters::{self, Action};
use super::matches::Matched;
use super::refused::Refused;
use super::{RouteError, joined};

/// How often requests are tried again where that is not said.
const ATTEMPTS: u32 = 2;

/// What is tried again, besides the status codes that are named.
const RETRY_ON: [&str; 4] = [
    "connect-failure",
    "refused-stream",
    "unavailable",
    "cancelled",
];

/// What is answered where nobody is there to answer.
const NO_BACKEND: u32 = 500;

/// A rule of an HTTPRoute or GRPCRoute.
pub(super) struct Rule<'a> {
    pub(super) name: Option<&'a Arc<str>>,
    pub(super) matches: Vec<Matched<'a>>,
    filters: Vec<Action<'a>>,
    backends: Vec<Backend<'a>>,
    timeouts: Option<&'a Timeouts>,
    retry: Option<&'a Retry>,
    pub(super) session: Option<&'a SessionPersistence>,
}

/// A backend with its share of the requests.
struct Backend<'a> {
    to: Named<'a>,
    weight: u32,
    filters: Vec<Action<'a>>,
}

impl<'a> Rule<'a> {
    pub(super) fn of_http(rule: &'a HttpRule) -> Self {
        let backend = |to: &'a HttpBackendRef| Backend {
            to: to.into(),
            weight: to.weight,
            filters: to.filters.iter().map(Action::from).collect(),
        };
        Self {
            name: rule.name.as_ref(),
            matches: rule.matches.iter().map(Matched::Http).collect(),
            filters: rule.filters.iter().map(Action::from).collect(),
            backends: rule.backend_refs.iter().map(backend).collect(),
            timeouts: rule.timeouts.as_ref(),
            retry: rule.retry.as_ref(),
            session: rule.session_persistence.as_ref(),
        }
    }

    pub(super) fn of_grpc(rule: &'a GrpcRule) -> Self {
        let backend = |to: &'a GrpcBackendRef| Backend {
            to: to.into(),
            weight: to.weight,
            filters: to.filters.iter().map(Action::from).collect(),
        };
        Self {
            name: rule.name.as_ref(),
            matches: rule.matches.iter().map(Matched::Grpc).collect(),
            filters: rule.filters.iter().map(Action::from).collect(),
            backends: rule.backend_refs.iter().map(backend).collect(),
            timeouts: None,
            retry: None,
            session: rule.session_persistence.as_ref(),
        }
    }

    /// What all its routes have in common, and the last thing that is wrong with a backend.
    ///
    /// # Errors
    /// The rule has no meaning.
    pub(super) fn base(
        &self,
        resolving: &Resolving<'_, '_, '_>,
        others: &mut BTreeSet<ObjectKey>,
    ) -> Result<(HttpRoute, Option<RouteError>), RouteError> {
        let mut route = HttpRoute::default();
        let of_mirrors = filters::apply(&self.filters, resolving, &mut route, others)?;
        route.retries = self.retry.map(retries);
        if let Some(timeouts) = self.timeouts {
            limit(&mut route, timeouts);
        }
        let is_served = self.backends.iter().any(|backend| backend.weight > 0);
        if !is_served && route.redirect.is_none() {
            route.direct_response = Some(HttpDirectResponse {
                status: NO_BACKEND,
                body: None,
            });
            return Ok((route, of_mirrors));
        }
        let (destinations, of_backends) = self.destinations(resolving, others)?;
        route.route = destinations;
        Ok((route, joined([of_backends, of_mirrors])))
    }

    /// The values that Envoy refuses, beside those of matches.
    pub(super) fn refused(&self) -> Vec<Refused> {
        let filters = self.filters.iter().enumerate();
        let of_filters = filters.filter_map(|(at, filter)| {
            let (field, why) = filters::refused(filter)?;
            Some(Refused {
                at: format!("filters[{at}].{field}"),
                why,
            })
        });
        // Where nothing is sent again, nobody pauses before.
        let retries = self.retry.map(retries).filter(|made| made.attempts > 0);
        let pause = retries.and_then(|made| duration_if_set(made.backoff).err());
        let of_retry = pause.map(|why| Refused {
            at: "retry.backoff".to_owned(),
            why,
        });
        of_filters.chain(of_retry).collect()
    }

    fn destinations(
        &self,
        resolving: &Resolving<'_, '_, '_>,
        others: &mut BTreeSet<ObjectKey>,
    ) -> Result<(Vec<HttpRouteDestination>, Option<RouteError>), RouteError> {
        let served: Vec<&Backend<'_>> = self.backends.iter().filter(|b| b.weight > 0).collect();
        let mut error = None;
        let mut destinations = Vec::with_capacity(served.len());
        for backend in &served {
            let found = resolving.resolve(&backend.to)?;
            error = found.error.or(error);
            others.extend(found.by);
            destinations.push(HttpRouteDestination {
                destination: Some(found.destination),
                weight: weight_among(backend.weight, served.len()),
                headers: filters::headers(&backend.filters)?,
            });
        }
        Ok((destinations, error))
    }
}

/// The weight of one of so many destinations: none where it is the only one.
pub(super) fn weight_among(weight: u32, count: usize) -> i32 {
    match count {
        1 => 0,
        _ => i32::try_from(weight).unwrap_or(i32::MAX),
    }
}

fn retries(retry: &Retry) -> HttpRetry {
    let attempts = retry.attempts.unwrap_or(ATTEMPTS);
    let mut retry_on: Vec<String> = RETRY_ON.map(str::to_owned).into();
    retry_on.extend(retry.codes.iter().map(u16::to_string));
    HttpRetry {
        attempts: i32::try_from(attempts).unwrap_or(i32::MAX),
        retry_on: match attempts {
            0 => String::new(),
            _ => retry_on.join(","),
        },
        backoff: retry.backoff.map(|backoff| backoff.0.into()),
        ..HttpRetry::default()
    }
}

/// Sets how long requests may take. Zero is no limit.
fn limit(route: &mut HttpRoute, timeouts: &Timeouts) {
    let stated = |duration: Option<_>| -> Option<wkt::Duration> {
        let duration: std::time::Duration = duration?;
        (!duration.is_zero()).then(|| duration.into())
    };
    route.timeout = stated(timeouts.request.map(|d| d.0));
    let Some(each) = stated(timeouts.backend_request.map(|d| d.0)) else {
        return;
    };
    match &mut route.retries {
        Some(retries) => retries.per_try_timeout = Some(each),
        None => route.timeout = Some(each),
    }
}
