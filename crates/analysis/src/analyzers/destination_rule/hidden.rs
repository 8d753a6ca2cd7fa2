//! Subsets that a DestinationRule hides from its namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use model::kinds::istio::{DestinationRule, VirtualService};
use model::{Object, ObjectName};
use proto_istio::networking::Destination;
use store::{ObjectIndex, Reads, Snapshot};

use super::super::virtual_service::destinations_of;
use crate::code;
use crate::facts::hosts::{full_name, scopes};
use crate::finding::Report;

/// For requests of a namespace its own DestinationRule counts in place of that of the service's namespace. Where a VirtualService leads
/// to a subset that only the latter has, requests from there get 503.
pub(crate) fn check(
    cx: &Cx<'_, Snapshot>,
    rule: &Object<DestinationRule>,
    report: &mut Report<'_>,
) {
    let domain = cx.settings().domain.clone();
    let (namespace, spec) = (rule.namespace(), &rule.spec);
    let host = full_name(namespace, &spec.host, &domain);
    let is_root = namespace.as_str() == cx.settings().mesh.root_namespace;
    if spec.workload_selector.is_some() || host.starts_with('*') || is_root {
        return;
    }
    let rules = of_host(cx, &host, &domain);
    let (own, others): (Vec<_>, Vec<_>) = rules
        .into_iter()
        .filter(|other| {
            let scopes = scopes(other.namespace(), &other.spec.export_to);
            let is_seen = scopes.contains("*") || scopes.contains(namespace.as_str());
            is_seen && other.spec.workload_selector.is_none()
        })
        .partition(|other| other.namespace() == namespace);
    let own: BTreeSet<&str> = own.iter().flat_map(|rule| names(rule)).collect();
    let hidden: BTreeSet<&str> = others.iter().flat_map(|rule| names(rule)).collect();
    let hidden: BTreeSet<&str> = hidden.difference(&own).copied().collect();
    if hidden.is_empty() {
        return;
    }
    for (subset, by) in named(cx, rule, &host, &domain) {
        if !hidden.contains(&*subset) {
            continue;
        }
        let message = format!(
            "it hides the subset {subset} of {host}, to which VirtualService {by} leads, so requests from {namespace} get 503"
        );
        report
            .add(rule, &code::HIDDEN_SUBSET, "spec.host", message)
            .help("define the subset here as well: of the rules for a host, only that of the client's namespace counts");
    }
}

fn names(rule: &Object<DestinationRule>) -> impl Iterator<Item = &str> {
    rule.spec.subsets.iter().map(|subset| subset.name.as_str())
}

/// The rules for a host, by whatever name.
fn of_host(cx: &Cx<'_, Snapshot>, host: &str, domain: &str) -> Vec<Arc<Object<DestinationRule>>> {
    let short = host.split('.').next().unwrap_or(host);
    let by_name = [host, short]
        .map(|name| cx.list_by::<DestinationRule>(ObjectIndex::Host, &name.to_ascii_lowercase()));
    let all = by_name.into_iter().flatten();
    all.filter(|other| full_name(other.namespace(), &other.spec.host, domain) == host)
        .collect()
}

/// The subsets to which VirtualServices of that host lead that count for sidecars of the rule's namespace, each with the VirtualService.
fn named(
    cx: &Cx<'_, Snapshot>,
    rule: &Object<DestinationRule>,
    host: &str,
    domain: &str,
) -> BTreeSet<(String, ObjectName)> {
    let mut found = BTreeSet::new();
    let short = host.split('.').next().unwrap_or(host);
    for name in [host, short] {
        for service in cx.list_by::<VirtualService>(ObjectIndex::Host, &name.to_ascii_lowercase()) {
            let spec = &service.spec;
            let gateways = &spec.gateways;
            let is_of_mesh =
                gateways.is_empty() || gateways.iter().any(|gateway| gateway == "mesh");
            let scopes = scopes(service.namespace(), &spec.export_to);
            let is_seen = scopes.contains("*") || scopes.contains(rule.namespace().as_str());
            if !is_of_mesh || !is_seen {
                continue;
            }
            let to_host = |to: &&Destination| {
                !to.subset.is_empty() && full_name(service.namespace(), &to.host, domain) == host
            };
            let subsets = destinations_of(spec).filter(to_host);
            found.extend(subsets.map(|to| (to.subset.clone(), service.meta.name.clone())));
        }
    }
    found
}
