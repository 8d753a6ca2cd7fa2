//! Rules without conditions that take nothing, because a VirtualService before it has one for the same host of a gateway.

use std::collections::BTreeSet;

use incr::Cx;
use model::kinds::istio::VirtualService;
use model::{Age, Object, ObjectName};
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, HttpRoute};
use store::{ObjectIndex, Reads, Snapshot};

use crate::code;
use crate::facts::short_or_full;
use crate::finding::Report;

/// The rules of VirtualServices for one host of a gateway follow each other, the oldest object first; those without
/// conditions follow all others.
///
/// Istio: pilot/pkg/networking/core/gateway.go buildGatewayHTTPRouteConfig, 1.32.
pub(crate) fn check(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    report: &mut Report<'_>,
) {
    let gateways = bound(object);
    if gateways.is_empty() || object.spec.http.is_empty() {
        return;
    }
    // Routes without conditions are put after all others, whichever object they are of, so of two the younger takes nothing.
    let Some(rule) = object.spec.http.iter().position(takes_everything) else {
        return;
    };
    let mut reported = BTreeSet::new();
    for host in &object.spec.hosts {
        for other in cx.list_by::<VirtualService>(ObjectIndex::Host, &host.to_ascii_lowercase()) {
            if age(&other) >= age(object) || !reported.insert(other.meta.name.clone()) {
                continue;
            }
            let theirs = bound(&other);
            let shared = gateways.iter().find(|g| theirs.contains(g));
            let first = other.spec.http.iter().position(takes_everything);
            if let (Some(gateway), Some(first)) = (shared, first) {
                report
                    .add(
                        object,
                        &code::HIDDEN_RULE,
                        format!("spec.http[{rule}]"),
                        format!(
                            "this rule takes no request to {host} on the Gateway {gateway}: rule {first} of {}, which {}, takes whatever matches no condition",
                            other.meta.name,
                            other.meta.created.why_before(object.meta.created)
                        ),
                    )
                    .help("put the rules into one VirtualService, or give this one a condition");
            }
        }
    }
}

/// Whether no request for the host passes a rule by.
fn takes_everything(rule: &HttpRoute) -> bool {
    rule.r#match.is_empty() || rule.r#match.iter().any(is_unconditional)
}

/// Whether a match states nothing that a request could fail.
fn is_unconditional(stated: &HttpMatchRequest) -> bool {
    let any_path = stated.uri.as_ref().is_none_or(|uri| match &uri.match_type {
        None => true,
        Some(MatchType::Prefix(path)) => path == "/",
        Some(MatchType::Regex(path)) => path == ".*",
        Some(MatchType::Exact(_)) => false,
    });
    let rest = HttpMatchRequest {
        uri: None,
        ignore_uri_case: false,
        name: String::new(),
        stat_prefix: String::new(),
        ..stated.clone()
    };
    any_path && rest == HttpMatchRequest::default()
}

/// The gateways that a VirtualService is bound to, in full.
fn bound(object: &Object<VirtualService>) -> BTreeSet<ObjectName> {
    let stated = object.spec.gateways.iter().filter(|g| *g != "mesh");
    stated
        .map(|g| short_or_full(object.namespace(), g))
        .collect()
}

/// What comes first where objects contradict each other.
///
/// Istio: pilot/pkg/model/config.go sortConfigByCreationTime, 1.32.
fn age(object: &Object<VirtualService>) -> (Age, String) {
    let name = &object.meta.name;
    (
        object.meta.created,
        format!("{}.{}", name.name, name.namespace),
    )
}
