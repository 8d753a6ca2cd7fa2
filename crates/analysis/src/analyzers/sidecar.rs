//! Sidecars of a namespace.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::kinds::istio::Sidecar;
use model::{Name, Namespace, Object, ObjectName};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::selected::unmatched;
use crate::facts::workloads::{NamespaceLabels, Workload, WorkloadsIn};
use crate::facts::{first_label, selector_text, several};
use crate::finding::Report;

/// Objects that select the same workloads, and these workloads.
type Sharing<'a> = (Vec<&'a Object<Sidecar>>, BTreeSet<&'a Name>);

/// Istio: pkg/config/analysis/analyzers/sidecar/selector.go, 1.32.
pub(crate) fn check(cx: &Cx<'_, Snapshot>, namespace: &Namespace, report: &mut Report<'_>) {
    let sidecars = cx.list_in::<Sidecar>(namespace);
    if sidecars.is_empty() {
        return;
    }
    let workloads = cx.query(&WorkloadsIn(namespace.clone()));
    let mut selected: Selected<'_> = BTreeMap::new();
    let mut general = Vec::new();
    for sidecar in &sidecars {
        let labels = sidecar.spec.workload_selector.as_ref().map(|s| &s.labels);
        let Some(labels) = labels.filter(|l| !l.is_empty()) else {
            general.push(&**sidecar);
            continue;
        };
        let mut found = false;
        for workload in workloads.matching(labels) {
            found = true;
            let entry = selected.entry(&workload.name);
            let (_, sharing) = entry.or_insert((workload, Vec::new()));
            sharing.push(sidecar);
        }
        if found {
            continue;
        }
        if let Some(severity) = unmatched(cx, Some(namespace), labels) {
            report
                .add(
                    sidecar,
                    &code::NOT_FOUND,
                    first_label("spec.workloadSelector.labels", labels),
                    format!(
                        "no workload of {namespace} has the labels {}",
                        selector_text(labels)
                    ),
                )
                .help("correct the labels, or remove the Sidecar: it applies to nothing")
                .at_most(severity);
        }
    }
    let mut ineffective = BTreeSet::new();
    check_selected(selected, &mut ineffective, report);
    check_general(cx, namespace, &general, &mut ineffective, report);
}

/// The workloads that Sidecars select, each with those Sidecars.
type Selected<'a> = BTreeMap<&'a ObjectName, (&'a Workload, Vec<&'a Object<Sidecar>>)>;

/// Checks Sidecars with a selector: only one may select a workload, and none has an effect on an ambient workload.
fn check_selected<'a>(
    selected: Selected<'a>,
    ineffective: &mut BTreeSet<&'a ObjectName>,
    report: &mut Report<'_>,
) {
    // Each group of Sidecars that share workloads is reported once, with the workloads.
    let mut shared: BTreeMap<Vec<&Name>, Sharing<'_>> = BTreeMap::new();
    for (workload, sharing) in selected.into_values() {
        if workload.ambient {
            for sidecar in sharing {
                if ineffective.insert(&sidecar.meta.name) {
                    no_effect(sidecar, "the workloads it selects are", report);
                }
            }
        } else if sharing.len() > 1 {
            let names = sharing.iter().map(|s| &s.meta.name.name).collect();
            let group = shared
                .entry(names)
                .or_insert_with(|| (sharing, BTreeSet::new()));
            group.1.insert(&workload.instance_of);
        }
    }
    for (names, (sharing, workloads)) in shared {
        let workloads: Vec<&Name> = workloads.into_iter().collect();
        for sidecar in sharing {
            report
                .add(
                    sidecar,
                    &code::CONFLICTING_SIDECARS,
                    "spec.workloadSelector",
                    format!(
                        "the Sidecars {} select the same workloads: {}",
                        several(&names),
                        several(&workloads)
                    ),
                )
                .help("only one of them applies; make their selectors exclude each other");
        }
    }
}

/// Checks Sidecars without a selector: a namespace may have one, and in an ambient namespace it has no effect.
fn check_general<'a>(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    general: &[&'a Object<Sidecar>],
    ineffective: &mut BTreeSet<&'a ObjectName>,
    report: &mut Report<'_>,
) {
    let labels = cx.query(&NamespaceLabels(namespace.clone()));
    let ambient = labels.as_ref().as_ref().is_some_and(|l| {
        l.get("istio-injection") != Some("enabled")
            && l.get("istio.io/rev").unwrap_or_default().is_empty()
            && l.get("istio.io/dataplane-mode") == Some("ambient")
    });
    if ambient {
        for sidecar in general {
            if ineffective.insert(&sidecar.meta.name) {
                no_effect(sidecar, "its namespace is", report);
            }
        }
    } else if general.len() > 1 {
        let names: Vec<&Name> = general.iter().map(|s| &s.meta.name.name).collect();
        for sidecar in general {
            report
                .add(
                    sidecar,
                    &code::SEVERAL_DEFAULT_SIDECARS,
                    "",
                    format!(
                        "the Sidecars {} of {namespace} all select nothing in particular",
                        several(&names)
                    ),
                )
                .help("only the oldest, or of those without a date the first by name, applies; merge them or give them selectors");
        }
    }
}

fn no_effect(sidecar: &Object<Sidecar>, what: &str, report: &mut Report<'_>) {
    report
        .add(
            sidecar,
            &code::INEFFECTIVE_POLICY,
            "",
            format!("{what} in ambient mode, where a Sidecar has no effect"),
        )
        .help("remove the Sidecar, or inject the workloads");
}
