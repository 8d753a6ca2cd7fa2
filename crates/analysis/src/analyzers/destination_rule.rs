//! DestinationRules.

pub(crate) mod hidden;

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::kinds::istio::DestinationRule;
use model::kinds::kube::Secret;
use model::{Name, Object, Severity};
use proto_istio::SharedMap;
use proto_istio::networking::client_tls_settings::TlSmode;
use proto_istio::networking::{ClientTlsSettings, TrafficPolicy};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::selected::unmatched;
use crate::facts::workloads::{NodeLocality, Workload, for_each_match};
use crate::facts::{hosts, selector_text, short_or_full};
use crate::finding::Report;

/// Istio: pkg/config/analysis/analyzers/destinationrule/ca-certificates.go, 1.32.
pub(crate) fn ca_certificates(
    _: &Cx<'_, Snapshot>,
    rule: &Object<DestinationRule>,
    report: &mut Report<'_>,
) {
    let Some(policy) = &rule.spec.traffic_policy else {
        return;
    };
    let selects = rule.spec.workload_selector.is_some();
    // A credential may hold roots, where proxies are selected that can read it.
    let unverified = |tls: &&ClientTlsSettings| {
        matches!(tls.mode(), TlSmode::Simple | TlSmode::Mutual)
            && tls.ca_certificates.is_empty()
            && (tls.credential_name.is_empty() || !selects)
    };
    let effect = |tls: &ClientTlsSettings| match (tls.credential_name.is_empty(), tls.mode()) {
        (true, _) => "trusts whoever answers: no roots are set",
        (false, TlSmode::Mutual) => "fails at sidecars: they may not read credentialName",
        (false, _) => {
            "trusts the roots of the system at sidecars: they may not read credentialName"
        }
    };
    let help = |tls: &ClientTlsSettings| match tls.credential_name.is_empty() {
        true => {
            "set caCertificates to the file of the roots that the server's certificate must come from"
        }
        false => {
            "credentialName counts for sidecars only in a rule with a workloadSelector: add one, or set caCertificates"
        }
    };
    if let Some(tls) = policy.tls.as_ref().filter(unverified) {
        let message = format!(
            "TLS of mode {} to {} {}",
            tls.mode().as_str_name(),
            rule.spec.host,
            effect(tls)
        );
        report
            .add(
                rule,
                &code::NO_SERVER_VERIFICATION,
                "spec.trafficPolicy.tls",
                message,
            )
            .help(help(tls));
    }
    for (i, port) in policy.port_level_settings.iter().enumerate() {
        if let Some(tls) = port.tls.as_ref().filter(unverified) {
            let message = format!(
                "TLS of mode {} to port {} of {} {}",
                tls.mode().as_str_name(),
                port.port.map_or(0, |p| p.number),
                rule.spec.host,
                effect(tls)
            );
            report
                .add(
                    rule,
                    &code::NO_SERVER_VERIFICATION_PORT,
                    format!("spec.trafficPolicy.portLevelSettings[{i}].tls"),
                    message,
                )
                .help(help(tls));
        }
    }
}

/// Istio: pkg/config/analysis/analyzers/destinationrule/subset.go, 1.32.
pub(crate) fn subsets(
    cx: &Cx<'_, Snapshot>,
    rule: &Object<DestinationRule>,
    report: &mut Report<'_>,
) {
    let spec = &rule.spec;
    let Some(host) = hosts::find(cx, rule.namespace(), &spec.export_to, &spec.host) else {
        if spec.host.starts_with('*') && hosts::covers_any(cx, &spec.host) {
            return;
        }
        report
            .add(
                rule,
                &code::UNKNOWN_RULE_HOST,
                "spec.host",
                format!("there is no service {} in sight of this rule", spec.host),
            )
            .help("correct the name, create the Service or ServiceEntry, or export it to this namespace");
        return;
    };
    if host.ports.is_none() {
        // Its endpoints are not read either.
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, subset) in spec.subsets.iter().enumerate() {
        if !seen.insert(&subset.name) {
            continue;
        }
        let mut labels = host.selector.clone();
        labels.extend(subset.labels.clone());
        let stated = |e: &SharedMap| {
            let has = |(key, value): (&String, &String)| e.get(key) == Some(value);
            subset.labels.iter().all(has)
        };
        if host.endpoints.iter().any(stated) || selects_something(cx, &labels) {
            continue;
        }
        // Endpoints that are stated are all that there are.
        let severity = match host.endpoints.is_empty() {
            true => unmatched(cx, None, &labels),
            false => Some(Severity::Error),
        };
        if let Some(severity) = severity {
            report
                .add(
                    rule,
                    &code::SUBSET_WITHOUT_PODS,
                    format!("spec.subsets[{i}].labels"),
                    format!(
                        "no workload has the labels of subset {}: {}",
                        subset.name,
                        selector_text(&labels)
                    ),
                )
                .help("requests to a subset without workloads fail with 503; correct the labels or remove the subset")
                .at_most(severity);
        }
    }
}

/// Whether a workload has these labels, those that it has from its node among them.
fn selects_something(cx: &Cx<'_, Snapshot>, labels: &BTreeMap<String, String>) -> bool {
    let of_node = |key: &str| {
        key.starts_with("topology.kubernetes.io/")
            || key == "topology.istio.io/subzone"
            || key == "kubernetes.io/hostname"
    };
    let (node, own): (BTreeMap<_, _>, BTreeMap<_, _>) =
        labels.iter().partition(|(key, _)| of_node(key));
    let mut found = false;
    for_each_match(cx, own, |workload: &Workload| {
        found = node.is_empty() || on_node(cx, workload, &node);
        !found
    });
    found
}

fn on_node(
    cx: &Cx<'_, Snapshot>,
    workload: &Workload,
    wanted: &BTreeMap<&String, &String>,
) -> bool {
    let locality = cx.query(&NodeLocality(Name::from(&*workload.node)));
    wanted.iter().all(|(key, value)| {
        let from_node = match key.as_str() {
            "kubernetes.io/hostname" => Some(&*workload.node).filter(|n| !n.is_empty()),
            key => locality.get(key),
        };
        from_node.or(workload.labels.get(key)) == Some(value.as_str())
    })
}

/// Secrets and ports that a rule names.
pub(crate) fn references(
    cx: &Cx<'_, Snapshot>,
    rule: &Object<DestinationRule>,
    report: &mut Report<'_>,
) {
    let spec = &rule.spec;
    let host = hosts::find(cx, rule.namespace(), &spec.export_to, &spec.host);
    let mut policies: Vec<(String, &TrafficPolicy)> = Vec::new();
    if let Some(policy) = &spec.traffic_policy {
        policies.push(("spec.trafficPolicy".to_owned(), policy));
    }
    for (i, subset) in spec.subsets.iter().enumerate() {
        if let Some(policy) = &subset.traffic_policy {
            policies.push((format!("spec.subsets[{i}].trafficPolicy"), policy));
        }
    }
    for (path, policy) in policies {
        secret(cx, rule, policy.tls.as_ref(), &path, report);
        for (i, port) in policy.port_level_settings.iter().enumerate() {
            let path = format!("{path}.portLevelSettings[{i}]");
            secret(cx, rule, port.tls.as_ref(), &path, report);
            let number = port.port.map_or(0, |p| p.number);
            // What stands for many hosts has ports of its own.
            let known = host.as_ref().and_then(|host| host.ports.as_ref());
            let known = known.filter(|ports| !ports.is_empty() && !spec.host.starts_with('*'));
            if let Some(ports) = known.filter(|ports| !ports.contains(&number)) {
                report
                    .add(
                        rule,
                        &code::PORT_NOT_FOUND,
                        format!("{path}.port"),
                        format!(
                            "{} has no port {number}, so these settings apply to nothing",
                            spec.host
                        ),
                    )
                    .help(format!("its ports are {}", crate::facts::several(ports)));
            }
        }
    }
}

fn secret(
    cx: &Cx<'_, Snapshot>,
    rule: &Object<DestinationRule>,
    tls: Option<&ClientTlsSettings>,
    path: &str,
    report: &mut Report<'_>,
) {
    // Without a selector the Secret is one of each client's namespace.
    let Some(tls) = tls.filter(|_| rule.spec.workload_selector.is_some()) else {
        return;
    };
    let name = &tls.credential_name;
    if name.is_empty() || name.contains("://") {
        return;
    }
    let object = short_or_full(rule.namespace(), name);
    if cx.get::<Secret>(&object).is_none() {
        report
            .add(
                rule,
                &code::SECRET_NOT_FOUND,
                format!("{path}.tls.credentialName"),
                format!("there is no Secret {object}"),
            )
            .help("TLS to this host fails until the Secret exists");
    }
}
