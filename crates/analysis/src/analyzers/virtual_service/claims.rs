//! Routes by claims of tokens.

use std::collections::BTreeSet;

use incr::Cx;
use model::kinds::istio::{Gateway, RequestAuthentication, VirtualService};
use model::{Namespace, Object};
use proto_istio::networking::HttpMatchRequest;
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::workloads::{Workload, for_each_match};
use crate::facts::{several, short_or_full};
use crate::finding::Report;

/// Istio: pkg/config/analysis/analyzers/virtualservice/jwtclaimroute.go, 1.32.
pub(crate) fn check(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    report: &mut Report<'_>,
) {
    let Some((path, key)) = claim(object) else {
        return;
    };
    let mut told = BTreeSet::new();
    for name in object.spec.gateways.iter().filter(|g| *g != "mesh") {
        let name = short_or_full(object.namespace(), name);
        let Some(gateway) = cx.get::<Gateway>(&name) else {
            continue;
        };
        let mut open = Vec::new();
        for_each_match(cx, &gateway.spec.selector, |workload| {
            if !verifies(cx, workload) {
                open.push(workload.name.clone());
            }
            true
        });
        if !open.is_empty() && told.insert(name.clone()) {
            report
                .add(
                    object,
                    &code::JWT_WITHOUT_AUTHENTICATION,
                    path.clone(),
                    format!(
                        "the rule reads {key}, and no RequestAuthentication verifies tokens at {} of the Gateway {name}",
                        several(&open)
                    ),
                )
                .help("create a RequestAuthentication that selects the gateway's workloads; until then the rule matches nothing");
        }
    }
}

/// The first header of a match that stands for a claim, and where it is.
fn claim(object: &Object<VirtualService>) -> Option<(String, &str)> {
    object.spec.http.iter().enumerate().find_map(|(i, rule)| {
        rule.r#match.iter().enumerate().find_map(|(j, matched)| {
            let (field, key) = claim_of(matched)?;
            let path = format!("spec.http[{i}].match[{j}].{field}[{key:?}]");
            Some((path, key))
        })
    })
}

fn claim_of(matched: &HttpMatchRequest) -> Option<(&'static str, &str)> {
    let stated = matched.headers.keys().map(|k| ("headers", k));
    let denied = matched
        .without_headers
        .keys()
        .map(|k| ("withoutHeaders", k));
    let mut all = stated.chain(denied);
    all.find(|(_, key)| is_claim(key))
        .map(|(field, key)| (field, key.as_str()))
}

/// Istio: pkg/jwt/routing.go ToRoutingClaim, 1.32.
fn is_claim(header: &str) -> bool {
    const PREFIX: &str = "@request.auth.claims";
    let Some((prefix, name)) = header.split_at_checked(PREFIX.len()) else {
        return false;
    };
    let dotted = name.starts_with('.') && name.len() > 1;
    let bracketed = name.starts_with('[') && name.ends_with(']') && name.len() > 2;
    prefix.eq_ignore_ascii_case(PREFIX) && (dotted || bracketed)
}

/// Whether a RequestAuthentication of the workload's namespace, or of the system's, applies to it.
fn verifies(cx: &Cx<'_, Snapshot>, workload: &Workload) -> bool {
    let system = Namespace::from("istio-system");
    [&system, &workload.name.namespace]
        .into_iter()
        .any(|namespace| {
            let policies = cx.list_in::<RequestAuthentication>(namespace);
            policies.iter().any(|policy| {
                let selector = policy.spec.selector.as_ref();
                selector.is_none_or(|s| workload.labels.matches_map(&s.match_labels))
            })
        })
}
