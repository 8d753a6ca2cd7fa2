//! Rules that never match because an older VirtualService takes everything for the same host of a gateway.

use std::collections::BTreeSet;

use incr::Cx;
use model::kinds::istio::VirtualService;
use model::{Object, ObjectName, Age};
use store::{ObjectIndex, Reads, Snapshot};

use crate::code;
use crate::facts::short_or_full;
use crate::finding::Report;

/// The rules of VirtualServices for one host of a gateway follow each other, the oldest object first.
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
    let mut told = BTreeSet::new();
    for (i, host) in object.spec.hosts.iter().enumerate() {
        for other in cx.list_by::<VirtualService>(ObjectIndex::Host, &host.to_ascii_lowercase()) {
            if age(&other) >= age(object) || !told.insert(other.meta.name.clone()) {
                continue;
            }
            let theirs = bound(&other);
            let shared = gateways.iter().find(|g| theirs.contains(g));
            // A rule without conditions takes what comes after it.
            let all = other.spec.http.iter().position(|r| r.r#match.is_empty());
            if let (Some(gateway), Some(rule)) = (shared, all) {
                report
                    .add(
                        object,
                        &code::HIDDEN_RULE,
                        format!("spec.hosts[{i}]"),
                        format!(
                            "no rule matches on the Gateway {gateway}: the older {} takes every request to {host} with rule {rule}",
                            other.meta.name
                        ),
                    )
                    .help("put the rules into one VirtualService, those without conditions last");
            }
        }
    }
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
