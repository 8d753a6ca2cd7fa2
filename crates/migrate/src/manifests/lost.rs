//! What Istio's kinds have no field for.

use model::edge::EdgeRoute;

/// Something that a route asks for and cannot be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lost {
    /// What it is.
    pub(super) what: &'static str,
    /// Whether the route would be open without it.
    pub(super) protects: bool,
    /// What to write by hand.
    pub(super) instead: &'static str,
}

/// Sessions that are kept by what the route says.
pub(super) const SESSION: Lost = Lost {
    what: "sessions",
    protects: false,
    instead: "a consistentHash in a DestinationRule",
};

/// What is lost of a route.
pub(super) fn of(route: &EdgeRoute) -> Vec<Lost> {
    const FILTER: &str = "an EnvoyFilter";
    let access = [
        (
            route.addresses.is_some(),
            "rules for client addresses",
            "an AuthorizationPolicy with remoteIpBlocks",
        ),
        (
            route.users.is_some(),
            "names and passwords",
            "a RequestAuthentication, or an EnvoyFilter with basic_auth",
        ),
        (
            route.external.is_some(),
            "the service that decides about each request",
            "an AuthorizationPolicy of action CUSTOM",
        ),
    ];
    let others = [
        (!route.limits.is_empty(), "limits of requests", FILTER),
        (route.max_body.is_some(), "the longest body", FILTER),
        (
            route.fallback.is_some(),
            "the backend for errors",
            "a backend that answers its errors itself",
        ),
        (route.idle_timeout.is_some(), "the idle timeout", FILTER),
    ];
    let lost = |protects| {
        move |(asked, what, instead): (bool, &'static str, &'static str)| {
            asked.then_some(Lost {
                what,
                protects,
                instead,
            })
        }
    };
    let access = access.into_iter().filter_map(lost(true));
    access
        .chain(others.into_iter().filter_map(lost(false)))
        .collect()
}
