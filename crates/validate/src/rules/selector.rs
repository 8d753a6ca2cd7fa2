//! What a policy applies to.

use std::collections::BTreeMap;

use proto_istio::networking;
use proto_istio::types::{PolicyTargetReference, WorkloadSelector};

use crate::report::{At, Report};

/// Kinds that policies can be attached to.
const TARGETS: [(&str, &str); 5] = [
    ("", "Service"),
    ("core", "Service"),
    ("networking.istio.io", "ServiceEntry"),
    ("gateway.networking.k8s.io", "Gateway"),
    ("gateway.networking.k8s.io", "GatewayClass"),
];

/// A selector of workloads.
///
/// Istio: pkg/config/validation/validation.go validateWorkloadSelector, 1.32.
pub(super) fn workloads(selector: Option<&WorkloadSelector>, at: &At<'_>, report: &mut Report) {
    let Some(selector) = selector else {
        return;
    };
    let at = at.field("selector");
    if selector.match_labels.is_empty() {
        report.warning(
            &at,
            "the selector has no labels, so it selects all workloads",
        );
    }
    labels(&selector.match_labels, &at.field("matchLabels"), report);
}

/// A selector of workloads of the older kinds; whether the rest is worth looking at.
///
/// Istio: pkg/config/validation/validation.go ValidateAlphaWorkloadSelector, 1.32.
pub(super) fn older(
    selector: Option<&networking::WorkloadSelector>,
    at: &At<'_>,
    report: &mut Report,
) -> bool {
    let Some(selector) = selector else {
        return true;
    };
    let at = at.field("workloadSelector");
    let mut found = Report::default();
    labels(&selector.labels, &at.field("labels"), &mut found);
    let good = !found.has_errors();
    report.0.extend(found.0);
    if good && selector.labels.is_empty() {
        report.warning(
            &at,
            "the selector has no labels, so it selects all workloads of the namespace",
        );
    }
    good
}

fn labels(labels: &BTreeMap<String, String>, at: &At<'_>, report: &mut Report) {
    for (key, value) in labels {
        if key.is_empty() {
            report.error(at, "the name of a label is empty");
        }
        if key.contains('*') || value.contains('*') {
            let message = format!("`{key}: {value}` has a wildcard, which selectors do not know");
            report.error(&at.field(key), message);
        }
    }
}

/// At most one way to say what a policy applies to, and each of them right.
pub(super) fn policy(
    selector: Option<&WorkloadSelector>,
    target: Option<&PolicyTargetReference>,
    targets: &[PolicyTargetReference],
    at: &At<'_>,
    report: &mut Report,
) {
    let ways = [selector.is_some(), target.is_some(), !targets.is_empty()];
    if ways.iter().filter(|set| **set).count() > 1 {
        let last = if targets.is_empty() {
            "targetRef"
        } else {
            "targetRefs"
        };
        report.error(
            &at.field(last),
            "only one of `selector`, `targetRef` and `targetRefs` may be set",
        );
    }
    workloads(selector, at, report);
    if let Some(target) = target {
        reference(target, &at.field("targetRef"), report);
    }
    for (at, target) in at.field("targetRefs").each(targets) {
        reference(target, &at, report);
    }
}

/// Istio: pkg/config/validation/validation.go validatePolicyTargetReference, 1.32.
fn reference(target: &PolicyTargetReference, at: &At<'_>, report: &mut Report) {
    if target.name.is_empty() {
        report.error(&at.field("name"), "a name is needed");
    }
    if !target.namespace.is_empty() {
        report.error(
            &at.field("namespace"),
            "only objects of the own namespace can be referred to",
        );
    }
    if !TARGETS.contains(&(&target.group, &target.kind)) {
        let named = match target.group.as_str() {
            "" => format!("{:?} of the core group", target.kind),
            group => format!("{:?} of {group}", target.kind),
        };
        report.error(at, format!("policies cannot be attached to {named}"));
        report.help(
            "possible are Service, ServiceEntry of networking.istio.io, Gateway and GatewayClass of gateway.networking.k8s.io",
        );
    }
}
