//! Which kind a document may be of that names none, or one that does not exist: by its group, and by the fields of its spec.
//!
//! This is a guess, good enough to close what was to be protected, and for nothing else. In doubt a policy is the one that closes
//! the most.

use super::head::near;
use super::nearest::distance;
use super::node::{Node, Value};
use crate::kinds::Kind;

/// The group of which every kind is about who may send requests.
const SECURITY: &str = "security.istio.io";

/// Of Istio's groups the one that is called so, or nearly so.
pub(super) fn group_of_istio(name: &str) -> Option<&'static str> {
    let groups = Kind::ALL.iter().map(|kind| kind.group());
    let of_istio = groups.filter(|group| group.ends_with(".istio.io"));
    let near = of_istio.map(|group| (distance(name, group), group));
    let nearest = near.min().filter(|(wrong, _)| *wrong <= 2);
    nearest.map(|(_, group)| group)
}

/// The kind of a group that `states` such fields, if it is one that may protect.
pub(super) fn of_group(group: &str, states: impl Fn(&str) -> bool) -> Option<Kind> {
    let any = |fields: &[&str]| fields.iter().any(|field| states(field));
    match group_of_istio(group).unwrap_or(group) {
        SECURITY if states("jwtRules") => Some(Kind::RequestAuthentication),
        SECURITY if any(&["mtls", "portLevelMtls"]) && !any(&["action", "rules"]) => {
            Some(Kind::PeerAuthentication)
        }
        SECURITY => Some(Kind::AuthorizationPolicy),
        "networking.istio.io" => {
            any(&["trafficPolicy", "subsets"]).then_some(Kind::DestinationRule)
        }
        "extensions.istio.io" if any(&["lua", "wasm"]) => Some(Kind::TrafficExtension),
        "extensions.istio.io" => Some(Kind::WasmPlugin),
        "gateway.networking.k8s.io" => states("validation").then_some(Kind::BackendTlsPolicy),
        // It protects by its annotations.
        "networking.k8s.io" | "extensions" => Some(Kind::Ingress),
        _ => None,
    }
}

/// The kind of a document of a group, if it is one that may protect. A document without a group has to state fields that nothing
/// else has.
pub(super) fn kind(document: &Node<'_>, group: &str) -> Option<Kind> {
    let spec = near(document, "spec");
    if !group.is_empty() {
        return of_group(group, |field| {
            spec.is_some_and(|spec| near(spec, field).is_some())
        });
    }
    let states = |field: &str| spec.is_some_and(|spec| spec.get(field).is_some());
    let rules = spec.and_then(|spec| spec.get("rules"));
    let found = of_fields(states, rules.is_some_and(are_of_policy));
    found.or_else(|| near(document, "metadata").map(|_| Kind::Ingress))
}

/// The kind of a spec that `states` such fields, of those that nothing else has.
pub(super) fn of_fields(states: impl Fn(&str) -> bool, has_policy_rules: bool) -> Option<Kind> {
    if states("jwtRules") {
        Some(Kind::RequestAuthentication)
    } else if states("mtls") || states("portLevelMtls") {
        Some(Kind::PeerAuthentication)
    } else if has_policy_rules {
        Some(Kind::AuthorizationPolicy)
    } else if states("trafficPolicy") {
        Some(Kind::DestinationRule)
    } else if states("targetRefs") && states("validation") {
        Some(Kind::BackendTlsPolicy)
    } else {
        None
    }
}

/// The fields of rules of an AuthorizationPolicy: of what comes from somewhere, goes somewhere, or meets conditions.
pub(super) const OF_POLICY_RULES: [&str; 3] = ["from", "to", "when"];

/// Whether rules are those of an AuthorizationPolicy.
fn are_of_policy(rules: &Node<'_>) -> bool {
    let Value::Seq(rules) = &rules.value else {
        return false;
    };
    let states = |rule: &Node<'_>| OF_POLICY_RULES.iter().any(|f| rule.get(f).is_some());
    rules.iter().any(states)
}
