//! Objects that configure one host, of which one counts.

use std::collections::BTreeMap;

use incr::Cx;
use model::kinds::istio::{DestinationRule, ServiceEntry};
use model::kinds::kube::Service;
use model::{Age, Namespace, ObjectName};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::hosts::{full_name, service_of};
use crate::facts::known_as;
use crate::facts::stated::{DestinationRuleFacts, DestinationRuleOf, EntryOf};
use crate::finding::Report;

pub(crate) fn check(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    destination_rules(cx, report);
    service_entries(cx, report);
}

/// What comes first where objects contradict each other.
///
/// Istio: pilot/pkg/model/config.go sortConfigByCreationTime, 1.32.
fn age(name: &ObjectName, rule: &DestinationRuleFacts) -> (Age, String) {
    (rule.created, format!("{}.{}", name.name, name.namespace))
}

/// Rules of one namespace for one host are merged: subsets of all count, the traffic policy of the oldest.
///
/// Istio: pilot/pkg/model/destination_rule.go mergeDestinationRule, 1.32.
fn destination_rules(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let stated: Vec<_> = cx
        .names::<DestinationRule>()
        .into_iter()
        .map(|name| (cx.query(&DestinationRuleOf(name.clone())), name))
        .collect();
    let mut by_host: BTreeMap<(&Namespace, &str), Vec<(&ObjectName, &DestinationRuleFacts)>> =
        BTreeMap::new();
    for (rule, name) in &stated {
        if let Some(rule) = &**rule {
            let same = by_host.entry((&name.namespace, &rule.host)).or_default();
            same.push((name, rule));
        }
    }
    for ((_, host), mut rules) in by_host {
        rules.sort_by_cached_key(|(name, rule)| age(name, rule));
        let Some(((oldest, first), others)) = rules.split_first() else {
            continue;
        };
        if others.is_empty() {
            continue;
        }
        let Some(winner) = cx.get::<DestinationRule>(oldest) else {
            continue;
        };
        let oldest = known_as(&winner.meta);
        for (name, rule) in others {
            let Some(object) = cx.get::<DestinationRule>(name) else {
                continue;
            };
            // What translators make of several objects for one host is meant to be merged.
            if object.meta.derived.is_some() && winner.meta.derived.is_some() {
                continue;
            }
            if first.policy && rule.policy {
                report
                    .add(
                        &object,
                        &code::SHARED_HOST,
                        "spec.trafficPolicy",
                        format!(
                            "the traffic policy has no effect: {oldest} is for {host} as well, and {}",
                            first.created.why_before(rule.created)
                        ),
                    )
                    .help("put everything for a host into one DestinationRule");
            }
            let subsets = rule.subsets.iter().enumerate();
            for (i, subset) in subsets.filter(|(_, s)| first.subsets.contains(s)) {
                report
                    .add(
                        &object,
                        &code::SHARED_HOST,
                        format!("spec.subsets[{i}]"),
                        format!(
                            "the subset {subset} has no effect: {oldest} defines it for {host} as well, and {}",
                            first.created.why_before(rule.created)
                        ),
                    )
                    .help("give the subset another name, or put it into one DestinationRule");
            }
        }
    }
}

/// A Service of Kubernetes counts before a ServiceEntry of the same host.
fn service_entries(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let domain = &cx.settings().domain;
    for name in cx.names::<ServiceEntry>() {
        let stated = cx.query(&EntryOf(name.clone()));
        let hosts = stated.iter().flat_map(|entry| entry.hosts.iter());
        for (i, host) in hosts.enumerate() {
            let full = full_name(&name.namespace, host, domain);
            let Some(service) = service_of(&full, domain) else {
                continue;
            };
            if service.namespace == name.namespace
                && cx.get::<Service>(&service).is_some()
                && let Some(entry) = cx.get::<ServiceEntry>(&name)
            {
                report
                    .add(
                        &entry,
                        &code::SHARED_HOST,
                        format!("spec.hosts[{i}]"),
                        format!("{host} is the Service {service} of Kubernetes, which counts before this entry"),
                    )
                    .help("use another host, or remove the Service");
            }
        }
    }
}
