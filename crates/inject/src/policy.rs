//! Whether a pod gets anything.
// Istio: pkg/kube/inject/inject.go injectRequired, pkg/kube/inject/initializer.go IgnoredNamespaces, 1.32.

use std::fmt;

use crate::config::{Injection, Policy, Selector};
use crate::pod::Pod;

/// Namespaces of Kubernetes itself, in which nothing is injected.
const IGNORED_NAMESPACES: [&str; 4] = [
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "local-path-storage",
];

/// The label, and superseded annotation, by which a pod asks for a sidecar or refuses it.
const INJECT: &str = "sidecar.istio.io/inject";

/// Why a pod gets nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    /// It has the network of its node, which injection would redirect.
    HostNetwork,
    /// Its namespace is one of Kubernetes itself.
    IgnoredNamespace,
    /// It says so.
    Refused,
    /// The operator left it out by its labels.
    NeverSelected,
    /// Nobody asked for it.
    Policy,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostNetwork => "it has the network of its node",
            Self::IgnoredNamespace => "its namespace is one of Kubernetes itself",
            Self::Refused => "it refuses by label or annotation",
            Self::NeverSelected => "neverInjectSelector selects it",
            Self::Policy => "it does not ask for injection, and the policy does not either",
        })
    }
}

/// Why the pod gets nothing, if so. What it says that makes no sense goes into `warnings`.
pub(crate) fn skipped(
    pod: &Pod,
    injection: &Injection,
    warnings: &mut Vec<String>,
) -> Option<Skipped> {
    let Injection {
        policy,
        never,
        always,
        ..
    } = injection;
    skipped_by(pod, policy, never, always, warnings)
}

/// As [`skipped`], by policy and selectors.
pub(crate) fn skipped_by(
    pod: &Pod,
    policy: &Policy,
    never: &[Selector],
    always: &[Selector],
    warnings: &mut Vec<String>,
) -> Option<Skipped> {
    if pod.0["spec"]["hostNetwork"] == true {
        return Some(Skipped::HostNetwork);
    }
    if IGNORED_NAMESPACES.contains(&pod.meta("namespace")) {
        return Some(Skipped::IgnoredNamespace);
    }
    let decided = decided(pod, never, always, warnings);
    match policy {
        Policy::Other(_) => Some(Skipped::Policy),
        Policy::Enabled => decided.and_then(Result::err),
        Policy::Disabled => decided.unwrap_or(Err(Skipped::Policy)).err(),
    }
}

/// What the pod, or the operator by its labels, says.
fn decided(
    pod: &Pod,
    never: &[Selector],
    always: &[Selector],
    warnings: &mut Vec<String>,
) -> Option<Result<(), Skipped>> {
    match pod.label(INJECT).or_else(|| pod.annotation(INJECT)) {
        Some("true") => return Some(Ok(())),
        Some("false") => return Some(Err(Skipped::Refused)),
        None | Some("") => {}
        Some(other) => warnings.push(format!(
            "Invalid value for {INJECT}: {other:?}. Only 'true' and 'false' are accepted. Falling back to default injection policy."
        )),
    }
    let labels = pod.labels();
    // A selector without conditions would select everything, and counts as a slip.
    let selected = |list: &[Selector]| {
        let mut list = list.iter().filter_map(|s| s.as_ref().ok());
        list.any(|selector| {
            let empty = selector.match_labels.is_empty() && selector.match_expressions.is_empty();
            !empty && selector.matches(&labels)
        })
    };
    if selected(never) {
        return Some(Err(Skipped::NeverSelected));
    }
    selected(always).then_some(Ok(()))
}
