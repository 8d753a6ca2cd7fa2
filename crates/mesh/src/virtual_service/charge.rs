//! What VirtualServices are charged to the budget of their namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::budget::{charge, rounded};
use model::kinds::istio::VirtualService;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use model::service::Service;
use store::{Reads, Snapshot};

use super::{MESH, delegate, host_name, weight};
use crate::budget::{Charge, Names, outside};
use crate::hosts::Wildcards;
use crate::limits::product;
use crate::services::{InNamespace, OfHost, VisibleTo};
use crate::stated_hosts::HostsOf;

/// The VirtualServices of a namespace that are over its budget: they refuse what they are about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RulesOver(Namespace);

impl Query<Snapshot> for RulesOver {
    type Value = Names;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Names {
        let names = cx.names_in::<VirtualService>(&self.0).into_iter();
        let charges = names.map(|name| (*cx.query(&RuleCharge(name.clone())), name));
        let merged = |name: &ObjectName| *cx.query(&MergedCharge(name.clone()));
        outside(cx, charges, merged)
    }
}

/// Whether a VirtualService is over the budget.
pub(super) fn rule_is_over(cx: &Cx<'_, Snapshot>, name: &ObjectName) -> bool {
    cx.query(&RuleCharge(name.clone())).bytes > 0
        && cx.query(&RulesOver(name.namespace.clone())).contains(name)
}

/// What a VirtualService is charged: its routes, once for each match, host and gateway, and for comparing their matches with
/// those of delegates.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RuleCharge(ObjectName);

impl Query<Snapshot> for RuleCharge {
    type Value = Charge;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Charge {
        let Some(rule) = written_rule(cx, &self.0) else {
            return Charge::default();
        };
        let steps = delegate::steps(cx, rule.namespace(), &rule.spec.http);
        let made = held(&rule.spec).saturating_mul(copies(&rule));
        let further = further_copies(cx, &rule).saturating_add(served_copies(cx, &rule));
        let further = product([further, sent(&rule.spec)]);
        let made = made.saturating_add(further);
        // What merges pays from the first byte: what it makes is charged when that is paid.
        let charged = match steps {
            0 => charge(made, || cx.is_crowded::<VirtualService>(&self.0.namespace)),
            _ => rounded(made.saturating_add(steps)),
        };
        Charge {
            merges: steps > 0,
            ..Charge::of(&rule, charged)
        }
    }
}

/// What a VirtualService is charged for what its delegates add.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct MergedCharge(ObjectName);

impl Query<Snapshot> for MergedCharge {
    type Value = usize;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> usize {
        let Some(rule) = written_rule(cx, &self.0) else {
            return 0;
        };
        let routes = rule.spec.http.clone();
        let merged = delegate::merge_all(cx, rule.namespace(), routes, &mut Vec::new());
        let merged = weight::held(&merged.routes);
        rounded(merged.saturating_mul(copies(&rule)))
    }
}

/// A VirtualService that somebody wrote and that is no delegate.
fn written_rule(cx: &Cx<'_, Snapshot>, name: &ObjectName) -> Option<Arc<Object<VirtualService>>> {
    let rule = cx.get::<VirtualService>(name)?;
    (rule.meta.derived.is_none() && !rule.spec.hosts.is_empty()).then_some(rule)
}

/// How often the routes of a rule are there: sidecars have them for each host, and each gateway once.
fn copies(rule: &Object<VirtualService>) -> usize {
    let spec = &rule.spec;
    let hosts = spec.hosts.len();
    let of_mesh = spec.gateways.iter().filter(|g| **g == *MESH);
    match (spec.gateways.len(), of_mesh.count()) {
        (0, _) => hosts,
        (all, 0) => all,
        (all, _) => hosts.saturating_add(all - 1),
    }
}

/// Of as many hosts the services are looked up one by one.
const FEW_HOSTS: usize = 64;

/// How often sidecars have the routes of a rule besides: for each of its hosts on each port number of the services that it is
/// about, and for each port of the services that a wildcard covers. Of many hosts the services are taken to have the ports of
/// the namespace.
fn further_copies(cx: &Cx<'_, Snapshot>, rule: &Object<VirtualService>) -> usize {
    let spec = &rule.spec;
    if !(spec.gateways.is_empty() || spec.gateways.iter().any(|g| **g == *MESH)) {
        return 0;
    }
    let namespace = rule.namespace();
    let domain = &cx.settings().domain;
    let (wildcards, exact): (Vec<&String>, Vec<&String>) =
        spec.hosts.iter().partition(|host| host.starts_with('*'));
    let mut numbers = BTreeSet::new();
    let mut note = |services: &[Arc<Service>]| {
        let ports = services.iter().flat_map(|service| service.ports.iter());
        numbers.extend(ports.map(|port| port.number));
    };
    if exact.len() > FEW_HOSTS {
        note(&cx.query(&InNamespace(namespace.clone())));
    }
    for host in exact.iter().take(FEW_HOSTS) {
        let full = host_name(host, namespace, domain);
        let host = full.as_deref().unwrap_or(host);
        note(&cx.query(&OfHost(host.into())));
    }
    let mut copies = product([numbers.len(), exact.len()]);
    if !wildcards.is_empty() {
        let visible = cx.query(&VisibleTo(namespace.clone()));
        let wildcards = Wildcards::new(wildcards.iter().map(|host| (host.as_str(), ())));
        let covered = |service: &&Arc<Service>| wildcards.cover(&service.host);
        let ports = visible
            .iter()
            .filter(covered)
            .map(|service| service.ports.len());
        copies = copies.saturating_add(ports.sum());
    }
    copies
}

/// How often gateways have the routes of a rule besides: once for each further server that states one of its hosts.
fn served_copies(cx: &Cx<'_, Snapshot>, rule: &Object<VirtualService>) -> usize {
    let spec = &rule.spec;
    let gateways = spec.gateways.iter().filter(|gateway| **gateway != *MESH);
    let further = gateways.map(|gateway| {
        let name = match gateway.split_once('/') {
            Some((namespace, name)) => ObjectName::new(namespace, name),
            None => ObjectName::new(rule.namespace().clone(), gateway.as_str()),
        };
        let serving = cx.query(&HostsOf(name)).serving(&spec.hosts);
        serving.saturating_sub(1)
    });
    further.fold(0, usize::saturating_add)
}

/// What is held for the routes of a rule as they are written.
fn held(spec: &VirtualService) -> usize {
    weight::held(&spec.http).saturating_add(weight::of_layer4(spec))
}

/// What proxies are sent for them.
fn sent(spec: &VirtualService) -> usize {
    weight::of_http(&spec.http).saturating_add(weight::of_layer4(spec))
}
