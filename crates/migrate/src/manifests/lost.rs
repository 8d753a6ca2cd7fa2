//! What routes ask for beside what an HTTPRoute says, for which other kinds have no field.

use model::edge::{EdgeRoute, Transport};

/// Something that a route asks for and cannot be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lost {
    /// What it is.
    pub(super) what: &'static str,
    /// Whether the route would be open, or lead elsewhere, without it.
    pub(super) closes: bool,
    /// What to write by hand.
    pub(super) instead: &'static str,
}

/// What to write by hand instead, in the kinds that manifests are of.
pub(super) struct Instead {
    addresses: &'static str,
    users: &'static str,
    external: &'static str,
    limits: &'static str,
    others: &'static str,
    fallback: &'static str,
}

/// Beside Istio's kinds.
pub(super) const ISTIO: Instead = Instead {
    addresses: "an AuthorizationPolicy with remoteIpBlocks",
    users: "a RequestAuthentication, or an EnvoyFilter with basic_auth",
    external: "an AuthorizationPolicy of action CUSTOM",
    limits: "an EnvoyFilter",
    others: "an EnvoyFilter",
    fallback: "a backend that answers its errors itself",
};

/// Beside the Gateway API.
pub(super) const GATEWAY_API: Instead = Instead {
    addresses: "an AuthorizationPolicy with remoteIpBlocks and targetRefs, or your implementation's policy",
    users: "your implementation's policy for basic auth, or a RequestAuthentication",
    external: "an AuthorizationPolicy of action CUSTOM with targetRefs, or your implementation's policy",
    limits: "your implementation's policy for rate limits",
    others: "your implementation's policy for backends and clients",
    fallback: "a backend that answers its errors itself",
};

/// Sessions that are kept by what the route says.
pub(super) const SESSION: Lost = Lost {
    what: "sessions",
    closes: false,
    instead: "a consistentHash in a DestinationRule",
};

/// What is lost of a route.
pub(super) fn of(route: &EdgeRoute, instead: &Instead) -> Vec<Lost> {
    let access = [
        (
            route.addresses.is_some(),
            "rules for client addresses",
            instead.addresses,
        ),
        (route.users.is_some(), "names and passwords", instead.users),
        (
            route.external.is_some(),
            "the service that decides about each request",
            instead.external,
        ),
    ];
    let is_rest = route
        .mcp
        .as_ref()
        .is_some_and(|mcp| mcp.transport == Transport::Rest);
    let others_closing = [
        (is_rest, "what answers for MCP", instead.others),
        (route.rpc.is_some(), "calls of Dubbo", instead.others),
    ];
    let others = [
        (
            route.mcp.is_some() && !is_rest,
            "sessions of MCP",
            instead.others,
        ),
        (
            !route.limits.is_empty(),
            "limits of requests",
            instead.limits,
        ),
        (route.max_body.is_some(), "the longest body", instead.others),
        (
            route.fallback.is_some(),
            "the backend for errors",
            instead.fallback,
        ),
        (
            route.idle_timeout.is_some(),
            "the idle timeout",
            instead.others,
        ),
    ];
    let lost = |closes| {
        move |(asked, what, instead): (bool, &'static str, &'static str)| {
            asked.then_some(Lost {
                what,
                closes,
                instead,
            })
        }
    };
    let access = access
        .into_iter()
        .chain(others_closing)
        .filter_map(lost(true));
    access
        .chain(others.into_iter().filter_map(lost(false)))
        .collect()
}
