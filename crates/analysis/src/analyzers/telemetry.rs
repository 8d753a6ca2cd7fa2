//! Telemetries.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::kinds::istio::Telemetry;
use model::{Name, Namespace, Object, ObjectName};
use proto_istio::mesh::mesh_config::extension_provider::Provider;
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::selected::unmatched;
use crate::facts::workloads::{Workload, WorkloadsIn};
use crate::facts::{first_label, selector_text, several};
use crate::finding::Report;

/// Objects that select the same workloads, and these workloads.
type Sharing<'a> = (Vec<&'a Object<Telemetry>>, BTreeSet<&'a Name>);

/// Istio: pkg/config/analysis/analyzers/telemetry/providers.go, 1.32.
pub(crate) fn providers(
    cx: &Cx<'_, Snapshot>,
    telemetry: &Object<Telemetry>,
    report: &mut Report<'_>,
) {
    let defaults = cx.settings().mesh.default_providers.as_ref();
    if defaults.is_some_and(|d| !d.access_logging.is_empty()) {
        return;
    }
    let logs = &telemetry.spec.access_logging;
    let unprovided = logs
        .iter()
        .position(|l| l.disabled != Some(true) && l.providers.is_empty());
    if let Some(i) = unprovided {
        report
            .add(
                telemetry,
                &code::TELEMETRY_PROVIDER,
                format!("spec.accessLogging[{i}]"),
                "access logs go nowhere: neither this object nor the mesh config names a provider",
            )
            .help("name one under providers, as `envoy`, or set defaultProviders.accessLogging in the mesh config");
    }
}

/// Istio: pkg/config/analysis/analyzers/telemetry/lightstep.go, 1.32.
pub(crate) fn lightstep(
    cx: &Cx<'_, Snapshot>,
    telemetry: &Object<Telemetry>,
    report: &mut Report<'_>,
) {
    let known = &cx.settings().mesh.extension_providers;
    let is_lightstep = |name: &str| {
        known
            .iter()
            .any(|p| p.name == name && matches!(p.provider, Some(Provider::Lightstep(_))))
    };
    let mut told = BTreeSet::new();
    for (i, tracing) in telemetry.spec.tracing.iter().enumerate() {
        for (j, provider) in tracing.providers.iter().enumerate() {
            if is_lightstep(&provider.name) && told.insert(&provider.name) {
                report
                    .add(
                        telemetry,
                        &code::DEPRECATED,
                        format!("spec.tracing[{i}].providers[{j}].name"),
                        format!(
                            "{} is a Lightstep provider, which is deprecated",
                            provider.name
                        ),
                    )
                    .help("send traces to the same backend with an OpenTelemetry provider");
            }
        }
    }
}

/// Istio: pkg/config/analysis/analyzers/telemetry/selector.go, 1.32.
pub(crate) fn selectors(cx: &Cx<'_, Snapshot>, namespace: &Namespace, report: &mut Report<'_>) {
    let all = cx.list_in::<Telemetry>(namespace);
    if all.is_empty() {
        return;
    }
    let workloads = cx.query(&WorkloadsIn(namespace.clone()));
    let mut selected: BTreeMap<&ObjectName, (&Workload, Vec<&Object<Telemetry>>)> = BTreeMap::new();
    for telemetry in &all {
        let labels = telemetry.spec.selector.as_ref().map(|s| &s.match_labels);
        let Some(labels) = labels.filter(|l| !l.is_empty()) else {
            continue;
        };
        let mut found = false;
        for workload in workloads.matching(labels) {
            found = true;
            let entry = selected.entry(&workload.name);
            let (_, sharing) = entry.or_insert((workload, Vec::new()));
            sharing.push(telemetry);
        }
        if found {
            continue;
        }
        if let Some(severity) = unmatched(cx, Some(namespace), labels) {
            report
                .add(
                    telemetry,
                    &code::NOT_FOUND,
                    first_label("spec.selector.matchLabels", labels),
                    format!(
                        "no workload of {namespace} has the labels {}",
                        selector_text(labels)
                    ),
                )
                .help("correct the labels, or remove the Telemetry: it applies to nothing")
                .at_most(severity);
        }
    }
    let mut shared: BTreeMap<Vec<&Name>, Sharing<'_>> = BTreeMap::new();
    for (workload, sharing) in selected.into_values().filter(|(_, s)| s.len() > 1) {
        let names = sharing.iter().map(|s| &s.meta.name.name).collect();
        let group = shared
            .entry(names)
            .or_insert_with(|| (sharing, BTreeSet::new()));
        group.1.insert(&workload.instance_of);
    }
    for (names, (sharing, workloads)) in shared {
        let workloads: Vec<&Name> = workloads.into_iter().collect();
        for telemetry in sharing {
            report
                .add(
                    telemetry,
                    &code::CONFLICTING_TELEMETRIES,
                    "spec.selector",
                    format!(
                        "the Telemetries {} select the same workloads: {}",
                        several(&names),
                        several(&workloads)
                    ),
                )
                .help("only one of them applies; make their selectors exclude each other");
        }
    }
}

/// Istio: pkg/config/analysis/analyzers/telemetry/default_selector.go, 1.32.
pub(crate) fn defaults(cx: &Cx<'_, Snapshot>, namespace: &Namespace, report: &mut Report<'_>) {
    let mut all = cx.list_in::<Telemetry>(namespace);
    all.retain(|t| t.spec.selector.is_none());
    if all.len() < 2 {
        return;
    }
    let names: Vec<&Name> = all.iter().map(|t| &t.meta.name.name).collect();
    for telemetry in &all {
        report
            .add(
                telemetry,
                &code::SEVERAL_DEFAULT_TELEMETRIES,
                "",
                format!(
                    "the Telemetries {} of {namespace} all select nothing in particular",
                    several(&names)
                ),
            )
            .help("only the oldest, or of those without a date the first by name, applies; merge them or give them selectors");
    }
}
