//! Objects that configure one host, of which one counts.

use std::collections::BTreeMap;

use incr::Cx;
use model::kinds::Kinded;
use model::kinds::istio::{DestinationRule, ServiceEntry};
use model::kinds::kube::Service;
use model::{Namespace, Object, Timestamp};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::hosts::{full_name, service_of};
use crate::finding::Report;

pub(crate) fn check(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    destination_rules(cx, report);
    service_entries(cx, report);
}

/// What comes first where objects contradict each other.
///
/// Istio: pilot/pkg/model/config.go sortConfigByCreationTime, 1.32.
fn age<T: Kinded>(object: &Object<T>) -> (Timestamp, String) {
    let name = &object.meta.name;
    (
        object.meta.created.unwrap_or_default(),
        format!("{}.{}", name.name, name.namespace),
    )
}

/// Rules of one namespace for one host are merged: subsets of all count, the traffic policy of the oldest.
///
/// Istio: pilot/pkg/model/destination_rule.go mergeDestinationRule, 1.32.
fn destination_rules(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let domain = &cx.settings().domain;
    let rules = cx.list::<DestinationRule>();
    let mut by_host: BTreeMap<(&Namespace, String), Vec<&Object<DestinationRule>>> =
        BTreeMap::new();
    for rule in rules.iter().filter(|r| r.spec.workload_selector.is_none()) {
        let host = full_name(rule.namespace(), &rule.spec.host, domain);
        by_host
            .entry((rule.namespace(), host))
            .or_default()
            .push(rule);
    }
    for ((_, host), mut rules) in by_host {
        rules.sort_by_cached_key(|r| age(r));
        let Some((first, others)) = rules.split_first() else {
            continue;
        };
        let subsets: Vec<&str> = first.spec.subsets.iter().map(|s| &*s.name).collect();
        for rule in others {
            if first.spec.traffic_policy.is_some() && rule.spec.traffic_policy.is_some() {
                report
                    .add(
                        *rule,
                        &code::SHARED_HOST,
                        "spec.trafficPolicy",
                        format!(
                            "the traffic policy has no effect: {} is for {host} as well, and is older",
                            first.meta.name
                        ),
                    )
                    .help("put everything for a host into one DestinationRule");
            }
            let stated = rule.spec.subsets.iter().enumerate();
            for (i, subset) in stated.filter(|(_, s)| subsets.contains(&s.name.as_str())) {
                report
                    .add(
                        *rule,
                        &code::SHARED_HOST,
                        format!("spec.subsets[{i}]"),
                        format!(
                            "the subset {} has no effect: {} defines it for {host} as well, and is older",
                            subset.name, first.meta.name
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
    for entry in cx.list::<ServiceEntry>() {
        for (i, host) in entry.spec.hosts.iter().enumerate() {
            let name = full_name(entry.namespace(), host, domain);
            let Some(service) = service_of(&name, domain) else {
                continue;
            };
            if service.namespace == *entry.namespace() && cx.get::<Service>(&service).is_some() {
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
