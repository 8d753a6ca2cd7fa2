//! Authorization policies that apply to nothing, or name what does not exist.

use incr::Cx;
use model::kinds::istio::AuthorizationPolicy;
use model::kinds::kube::NamespaceSpec;
use model::{Namespace, Object};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::selected::unmatched;
use crate::facts::selector_text;
use crate::facts::workloads::{self, Workload, WorkloadsIn};
use crate::finding::Report;

/// Istio: pkg/config/analysis/analyzers/authz/authorizationpolicies.go, 1.32.
pub(crate) fn check(
    cx: &Cx<'_, Snapshot>,
    policy: &Object<AuthorizationPolicy>,
    report: &mut Report<'_>,
) {
    workloads(cx, policy, report);
    namespaces(cx, policy, report);
}

fn workloads(cx: &Cx<'_, Snapshot>, policy: &Object<AuthorizationPolicy>, report: &mut Report<'_>) {
    let counts = |w: &Workload| w.in_mesh || w.ambient;
    let within = |namespace: &Namespace| {
        let workloads = cx.query(&WorkloadsIn(namespace.clone()));
        match &policy.spec.selector {
            Some(selector) => workloads.matching(&selector.match_labels).any(counts),
            None => workloads.list.iter().any(counts),
        }
    };
    let mesh_wide = policy.namespace().as_str() == cx.settings().mesh.root_namespace;
    let (found, place) = match (&policy.spec.selector, mesh_wide) {
        (None, true) => return,
        (Some(_), true) => (
            workloads::namespaces(cx).iter().any(within),
            "the mesh".to_owned(),
        ),
        (_, false) => (
            within(policy.namespace()),
            format!("namespace {}", policy.namespace()),
        ),
    };
    if found {
        return;
    }
    let labels = policy
        .spec
        .selector
        .as_ref()
        .map(|s| s.match_labels.clone());
    let namespace = (!mesh_wide).then(|| policy.namespace());
    let Some(severity) = unmatched(cx, namespace, &labels.unwrap_or_default()) else {
        return;
    };
    match &policy.spec.selector {
        Some(selector) => {
            let labels = selector_text(&selector.match_labels);
            report
                .add(
                    policy,
                    &code::NO_WORKLOADS,
                    "spec.selector",
                    format!("no workload of {place} has the labels {labels}, so the policy protects nothing"),
                )
                .help("correct the labels, or inject the workloads that the policy is for")
                .at_most(severity);
        }
        None => {
            report
                .add(
                    policy,
                    &code::NO_WORKLOADS,
                    "",
                    format!("{place} has no workload in the mesh, so the policy protects nothing"),
                )
                .help("put the policy into the namespace of the workloads, or inject them")
                .at_most(severity);
        }
    }
}

fn namespaces(
    cx: &Cx<'_, Snapshot>,
    policy: &Object<AuthorizationPolicy>,
    report: &mut Report<'_>,
) {
    for (i, rule) in policy.spec.rules.iter().enumerate() {
        for (j, from) in rule.from.iter().enumerate() {
            let Some(source) = &from.source else { continue };
            let lists = [
                ("namespaces", &source.namespaces),
                ("notNamespaces", &source.not_namespaces),
            ];
            for (field, list) in lists {
                for (k, pattern) in list.iter().enumerate() {
                    let known = cx.names::<NamespaceSpec>();
                    if !known.iter().any(|n| matches(&n.name, pattern)) {
                        report
                            .add(
                                policy,
                                &code::NOT_FOUND,
                                format!("spec.rules[{i}].from[{j}].source.{field}[{k}]"),
                                format!("there is no namespace {pattern:?}"),
                            )
                            .help("a rule for a namespace that does not exist matches no request");
                    }
                }
            }
        }
    }
}

/// Patterns with a `*` that is neither their beginning nor their end, where it is matched literally.
pub(crate) fn patterns(
    _: &Cx<'_, Snapshot>,
    policy: &Object<AuthorizationPolicy>,
    report: &mut Report<'_>,
) {
    let mut check = |list: &[String], at: String| {
        for (k, pattern) in list.iter().enumerate().filter(|(_, p)| is_literal(p)) {
            report
                .add(
                    policy,
                    &code::LITERAL_STAR,
                    format!("{at}[{k}]"),
                    format!("the `*` in the middle of {pattern:?} is matched literally, so the pattern matches hardly anything"),
                )
                .help("a `*` counts at the beginning or at the end; paths may have templates such as `/service/{*}/health`");
        }
    };
    for (i, rule) in policy.spec.rules.iter().enumerate() {
        for (j, from) in rule.from.iter().enumerate() {
            let Some(source) = &from.source else { continue };
            for (field, list) in [
                ("principals", &source.principals),
                ("notPrincipals", &source.not_principals),
                ("requestPrincipals", &source.request_principals),
                ("notRequestPrincipals", &source.not_request_principals),
                ("namespaces", &source.namespaces),
                ("notNamespaces", &source.not_namespaces),
            ] {
                check(list, format!("spec.rules[{i}].from[{j}].source.{field}"));
            }
        }
        for (j, to) in rule.to.iter().enumerate() {
            let Some(operation) = &to.operation else {
                continue;
            };
            for (field, list) in [
                ("hosts", &operation.hosts),
                ("notHosts", &operation.not_hosts),
                ("methods", &operation.methods),
                ("notMethods", &operation.not_methods),
                ("paths", &operation.paths),
                ("notPaths", &operation.not_paths),
            ] {
                check(list, format!("spec.rules[{i}].to[{j}].operation.{field}"));
            }
        }
    }
}

/// Whether a `*` of a pattern is matched literally. One alone at the beginning counts, or else one at the end; those in the braces of a
/// template count as well.
fn is_literal(pattern: &str) -> bool {
    let rest = pattern.strip_prefix('*');
    let rest = rest
        .or_else(|| pattern.strip_suffix('*'))
        .unwrap_or(pattern);
    rest.contains('*') && !rest.contains("{*}") && !rest.contains("{**}")
}

/// Whether a pattern means a namespace: in full, or by its end or its beginning.
fn matches(namespace: &str, pattern: &str) -> bool {
    if let Some(end) = pattern.strip_prefix('*') {
        namespace.ends_with(end)
    } else if let Some(start) = pattern.strip_suffix('*') {
        namespace.starts_with(start)
    } else {
        namespace.eq_ignore_ascii_case(pattern)
    }
}
