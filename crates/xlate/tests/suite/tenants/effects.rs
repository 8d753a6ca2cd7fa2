//! What one namespace may change for another one, because Istio's, Kubernetes' or the Gateway API's model says so.

use std::collections::BTreeSet;

use model::node::Role;
use serde_json::{Value, json};
use xds::TypeUrl;

use crate::tenants::parts::{Difference, How, Of};

/// One effect that is allowed.
pub(crate) struct Effect {
    pub(crate) name: &'static str,
    /// Why it is allowed.
    pub(crate) reason: &'static str,
    /// The kinds one of which it takes to have it.
    kinds: &'static [&'static str],
    /// What differs by it.
    covers: fn(&Difference) -> bool,
}

/// All that are allowed.
pub(crate) const EFFECTS: &[Effect] = &[
    Effect {
        name: "routes for hosts that have none",
        reason: "a VirtualService that is exported to all holds for any host in the mesh, also below a wildcard; what the owner \
                 of a host has routes for stays",
        kinds: &["VirtualService"],
        covers: |d| {
            let is_route = d.how != How::Narrower && is_routed(d) && !has_rule(d);
            // Where it goes by names of TLS, the beginnings of connections are looked at.
            let is_inspection = d.place.ty == TypeUrl::Listener && only(d, &[".listener_filters"]);
            is_sidecar(d) && (is_route || is_inspection)
        },
    },
    Effect {
        name: "routes of one host",
        reason: "at a gateway all routes of a host are one list, as the model says how: those that are there stay in it, in their \
                 order, and others may have requests before them",
        kinds: &["VirtualService", "HTTPRoute", "GRPCRoute"],
        covers: |d| {
            !is_sidecar(d)
                && matches!(d.place.of, Of::VirtualHost(_))
                && only(d, &[".routes"])
                && keeps_routes(d)
        },
    },
    Effect {
        name: "hosts below wildcards",
        reason: "of hosts of one gateway or one port the most specific one has the request",
        kinds: &[
            "VirtualService",
            "HTTPRoute",
            "GRPCRoute",
            "TLSRoute",
            "ServiceEntry",
            "Service",
        ],
        covers: |d| d.how == How::Narrower && is_routed(d) && !takes_all(d),
    },
    Effect {
        name: "ports without routes",
        reason: "a port of a gateway answers every host with 404 while nobody has routes on it, and then all hosts that have none",
        kinds: &[
            "Gateway",
            "VirtualService",
            "HTTPRoute",
            "GRPCRoute",
            "Ingress",
        ],
        covers: |d| !is_sidecar(d) && d.how == How::Lost && is_blackhole(d),
    },
    Effect {
        name: "server names below wildcards",
        reason: "of servers with TLS on one port of a gateway the one with the most specific name has the connection",
        kinds: &["Gateway"],
        covers: |d| {
            !is_sidecar(d)
                && d.how == How::Narrower
                && matches!(d.place.of, Of::FilterChain(_))
                && !takes_all(d)
        },
    },
    Effect {
        name: "addresses that are claimed",
        reason: "a ServiceEntry may state any address but those of Services at the sidecars of their own namespace",
        kinds: &["ServiceEntry", "Service"],
        covers: |d| {
            is_sidecar(d)
                && d.place.ty == TypeUrl::Listener
                && !d.place.resource.starts_with("0.0.0.0_")
                && is_outbound(d)
        },
    },
    Effect {
        name: "ports without addresses",
        reason: "a TCP port of a ServiceEntry without addresses takes what is sent to the port of any address and has no chain",
        kinds: &["ServiceEntry", "Service"],
        covers: |d| {
            is_sidecar(d)
                && d.place.resource.starts_with("0.0.0.0_")
                && (d.place.of == Of::FilterChain("default".to_owned())
                    || only(d, &[".listener_filters"]))
        },
    },
    Effect {
        name: "aliases",
        reason: "a Service of the type ExternalName is another name of the host that it names: its names come beside those",
        kinds: &["Service"],
        covers: |d| {
            is_routed(d)
                && only(d, &[".domains", ".filter_chain_match.server_names"])
                && keeps_names(d)
        },
    },
    Effect {
        name: "inspection of listeners",
        reason: "servers with and without TLS may share a port of a gateway, and then the beginnings of connections are looked at",
        kinds: &["Gateway"],
        covers: |d| {
            !is_sidecar(d) && d.place.ty == TypeUrl::Listener && only(d, &[".listener_filters"])
        },
    },
    Effect {
        name: "filters of the edge",
        reason: "what any route of the edge asks for stands in all its chains, off but for the routes that ask",
        kinds: &["Ingress"],
        covers: |d| !is_sidecar(d) && are_equal_without_what_is_off(d),
    },
];

/// The effect that explains what differs, by all objects without any of which it does not.
pub(crate) fn explain(difference: &Difference, causes: &[&Value]) -> Option<&'static Effect> {
    let kinds: BTreeSet<&str> = causes
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .collect();
    EFFECTS.iter().find(|effect| {
        kinds.iter().any(|kind| effect.kinds.contains(kind)) && (effect.covers)(difference)
    })
}

fn is_sidecar(d: &Difference) -> bool {
    d.place.role == Role::Sidecar
}

fn is_routed(d: &Difference) -> bool {
    matches!(d.place.of, Of::VirtualHost(_) | Of::FilterChain(_)) && is_outbound(d)
}

fn is_outbound(d: &Difference) -> bool {
    d.place.resource != "virtualInbound"
}

/// Whether the part was made of somebody's VirtualService.
fn has_rule(d: &Difference) -> bool {
    let was = d.parts[0].as_ref();
    was.is_some_and(|part| part.json().to_string().contains("/virtual-service/"))
}

/// Whether the part answered all hosts, and none with anything.
fn is_blackhole(d: &Difference) -> bool {
    let was = d.parts[0].as_ref().map(|part| part.json());
    d.place.of == Of::VirtualHost("*".to_owned()) && was == Some(json!({"domains": ["*"]}))
}

fn lines(d: &Difference) -> Vec<String> {
    match d
        .parts
        .each_ref()
        .map(|part| part.as_ref().map(|part| part.json()))
    {
        [Some(was), Some(is)] => testkit::differences(&was, &is),
        _ => vec!["all of it".to_owned()],
    }
}

/// Whether what changed is in these fields.
fn only(d: &Difference, fields: &[&str]) -> bool {
    let all = lines(d);
    !all.is_empty()
        && all
            .iter()
            .all(|line| fields.iter().any(|field| line.starts_with(field)))
}

/// Whether the new part is there for whatever nobody else is.
fn takes_all(d: &Difference) -> bool {
    let is = d.parts[1].as_ref();
    is.is_some_and(|part| part.takes.iter().any(|name| name == "*"))
}

fn keeps_names(d: &Difference) -> bool {
    let [was, is] = d
        .parts
        .each_ref()
        .map(|part| part.iter().flat_map(|p| &p.takes).collect::<BTreeSet<_>>());
    was.is_subset(&is)
}

fn keeps_routes(d: &Difference) -> bool {
    let [was, is] = d.parts.each_ref().map(|part| {
        let json = part.as_ref().map(|part| part.json()).unwrap_or_default();
        json["routes"].as_array().cloned().unwrap_or_default()
    });
    let mut left = is.iter();
    was.iter().all(|route| left.any(|now| now == route))
}

fn are_equal_without_what_is_off(d: &Difference) -> bool {
    let [was, is] = d.parts.each_ref().map(|part| {
        let mut json = part.as_ref().map(|part| part.json()).unwrap_or_default();
        if d.place.ty == TypeUrl::Route {
            // Scripts of filters that are off, for routes that ask.
            json["typed_per_filter_config"].take();
        }
        for filter in json["filters"].as_array_mut().into_iter().flatten() {
            if let Some(all) = filter["typed_config"]["http_filters"].as_array_mut() {
                all.retain(|filter| filter["disabled"] != true);
            }
        }
        json
    });
    was == is
}
