//! Patches that take protection away: what a proxy lacks where they work.

use std::collections::BTreeMap;

use prost_types::Any;
use proto_envoy::envoy::config::core::v3::TransportSocket;
use proto_istio::networking::envoy_filter::patch::Operation;

use super::network;
use super::patch::{AnyPatch, Patch};
use mesh::capabilities::name::{
    EXT_AUTHZ_HTTP, EXT_AUTHZ_NETWORK, HTTP_CONNECTION_MANAGER, HTTP_RBAC, JWT_AUTHN, NETWORK_RBAC,
    TLS, TLS_INSPECTOR,
};

/// What a filter protects from, said as what happens without it.
fn without(filter: &str) -> Option<&'static str> {
    Some(match filter {
        JWT_AUTHN => "tokens are not checked, and RequestAuthentication has no effect",
        HTTP_RBAC | NETWORK_RBAC => "AuthorizationPolicy is not enforced",
        EXT_AUTHZ_HTTP | EXT_AUTHZ_NETWORK => "no external authorizer is asked",
        HTTP_CONNECTION_MANAGER => {
            "neither RequestAuthentication nor AuthorizationPolicy has an effect on requests"
        }
        TLS_INSPECTOR => "TLS is not told from plain text, so chains of mutual TLS are not chosen",
        "envoy.filters.http.oauth2"
        | "envoy.filters.http.basic_auth"
        | "envoy.filters.http.api_key_auth" => "clients are not authenticated by it",
        _ => return None,
    })
}

/// What the proxies lack for which the patch works; usually nothing.
pub(super) fn losses(patch: &AnyPatch) -> Vec<String> {
    match patch {
        AnyPatch::HttpFilter(p) => {
            let filter = network::wanted(p).and_then(|f| f.sub_filter.as_ref());
            of_filter(p, filter.map_or("", |f| &f.name), &p.value.name)
        }
        AnyPatch::NetworkFilter(p) => {
            let filter = network::wanted(p);
            of_filter(p, filter.map_or("", |f| &f.name), &p.value.name)
        }
        AnyPatch::ListenerFilter(p) => {
            let filter = p.listener().map_or("", |m| m.listener_filter.as_str());
            of_filter(p, filter, &p.value.name)
        }
        AnyPatch::FilterChain(p) if p.operation == Operation::Remove => vec![
            "where it works, connections of the chain are refused or taken by another, which may \
             protect less"
                .to_owned(),
        ],
        AnyPatch::FilterChain(p) if p.lists().is_some() => {
            socket(p.value.transport_socket.as_ref(), "the chain takes")
        }
        AnyPatch::Listener(p)
            if p.operation == Operation::MergeAndReplaceList
                && !p.value.filter_chains.is_empty() =>
        {
            vec![
                "where it works, the listener has none of the generated chains: neither mutual TLS \
                 nor policies are enforced there"
                    .to_owned(),
            ]
        }
        AnyPatch::Cluster(p) if p.lists().is_some() => {
            socket(p.value.transport_socket.as_ref(), "the cluster sends")
        }
        AnyPatch::HttpRoute(p) => overrides(&p.value.typed_per_filter_config),
        AnyPatch::VirtualHost(p) => overrides(&p.value.typed_per_filter_config),
        AnyPatch::RouteConfiguration(p) => overrides(&p.value.typed_per_filter_config),
        _ => Vec::new(),
    }
}

fn of_filter<T>(patch: &Patch<T>, filter: &str, value: &str) -> Vec<String> {
    let Some(lack) = without(filter) else {
        return Vec::new();
    };
    match patch.operation {
        Operation::Remove => vec![format!("takes {filter} out: where it works, {lack}")],
        Operation::Replace if value == filter => vec![format!(
            "puts another {filter} in the place of the generated one: where it works, only what it \
             states itself holds"
        )],
        Operation::Replace => vec![format!(
            "puts {value} in the place of {filter}: where it works, {lack}"
        )],
        Operation::Merge => vec![format!(
            "changes {filter}: what it protects is no longer what the policies say"
        )],
        _ => Vec::new(),
    }
}

fn socket(socket: Option<&TransportSocket>, what: &str) -> Vec<String> {
    match socket {
        Some(socket) if !socket.name.is_empty() && socket.name != TLS => vec![format!(
            "puts {} in the place of TLS: where it works, {what} connections without mutual TLS",
            socket.name
        )],
        _ => Vec::new(),
    }
}

fn overrides(configs: &BTreeMap<String, Any>) -> Vec<String> {
    let mut filters: Vec<&str> = configs.keys().map(String::as_str).collect();
    filters.sort_unstable();
    filters
        .into_iter()
        .filter(|filter| without(filter).is_some())
        .map(|filter| {
            format!("overrides {filter} for routes: what it states there holds, not the policies")
        })
        .collect()
}
