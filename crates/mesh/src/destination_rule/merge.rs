//! Several DestinationRules of one host and namespace become one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::KeyedSet;
use model::host::Hostname;
use model::kinds::istio::DestinationRule;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use proto_istio::networking::TrafficPolicy;
use proto_istio::networking::traffic_policy::PortTrafficPolicy;

use super::most_specific;
use crate::limits::WILDCARD_RULE_BYTES;

/// The objects that became one rule, and that rule.
#[derive(Clone, Debug)]
pub struct MergedDestinationRule {
    first: Arc<Object<DestinationRule>>,
    from: Vec<ObjectName>,
    /// Only where several rules contributed.
    merged: Option<DestinationRule>,
    export: Export,
    /// Whether the rule, of a wildcard, holds too much to be copied for every service.
    too_large: bool,
    /// Whether one of the objects is over the budget of its namespace.
    over_budget: bool,
}

impl MergedDestinationRule {
    fn single(rule: &Arc<Object<DestinationRule>>, export: &Export) -> Self {
        Self {
            first: rule.clone(),
            from: vec![rule.meta.name.clone()],
            merged: None,
            export: export.clone(),
            too_large: false,
            over_budget: false,
        }
    }

    /// Whether its subsets cannot be reached, since nothing of the namespace's budget is left for them.
    pub fn over_budget(&self) -> bool {
        self.over_budget
    }

    /// Whether what it is about cannot be reached, since it holds too much.
    pub fn too_large(&self) -> bool {
        self.too_large
    }

    /// The rule.
    pub fn spec(&self) -> &DestinationRule {
        self.merged.as_ref().unwrap_or(&self.first.spec)
    }

    /// The object that named the host first; what metadata of clusters points to.
    pub fn name(&self) -> &ObjectName {
        &self.first.meta.name
    }

    /// Every object that contributed, the first one first.
    pub fn from(&self) -> &[ObjectName] {
        &self.from
    }

    /// The labels a client must have; `None` where the rule is for all.
    pub fn selector(&self) -> Option<&BTreeMap<String, String>> {
        let selector = self.spec().workload_selector.as_ref()?;
        Some(&selector.match_labels)
    }

    /// Whether a namespace may use it, where it is not the rule's own.
    pub(super) fn exported_to(&self, namespace: &Namespace) -> bool {
        let set = &self.export.0;
        set.is_empty() || set.contains("*") || set.contains(&**namespace)
    }
}

impl PartialEq for MergedDestinationRule {
    fn eq(&self, other: &Self) -> bool {
        self.from == other.from
            && (self.too_large, self.over_budget) == (other.too_large, other.over_budget)
            && self.export == other.export
            && (Arc::ptr_eq(&self.first, &other.first) && self.from.len() == 1
                || self.spec() == other.spec())
    }
}

/// The order in which rules are taken: with a selector first, then the oldest, then by name.
pub(super) fn sort(rules: &mut [Arc<Object<DestinationRule>>]) {
    rules.sort_by(|a, b| {
        let key = |rule: &Object<DestinationRule>| {
            (rule.spec.workload_selector.is_none(), rule.meta.created)
        };
        key(a)
            .cmp(&key(b))
            .then_with(|| a.meta.name.name.cmp(&b.meta.name.name))
            .then_with(|| a.namespace().cmp(b.namespace()))
    });
}

/// Where a rule says it is exported to, as written; empty is the mesh's default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Export(BTreeSet<Box<str>>);

impl Export {
    pub(super) fn of(rule: &Object<DestinationRule>) -> Self {
        if rule.spec.workload_selector.is_some() {
            return Self(BTreeSet::from([".".into()]));
        }
        Self(
            rule.spec
                .export_to
                .iter()
                .map(|e| e.as_str().into())
                .collect(),
        )
    }

    /// Whether the rule's own namespace may use it.
    pub(super) fn reaches_own(&self, own: &Namespace) -> bool {
        self.0.is_empty() || ["*", ".", own].into_iter().any(|e| self.0.contains(e))
    }

    /// Whether nobody else may.
    pub(super) fn only_own(&self, own: &Namespace, private_by_default: bool) -> bool {
        if self.0.is_empty() {
            return private_by_default;
        }
        self.0.len() == 1 && (self.0.contains(".") || self.0.contains(&**own))
    }
}

/// What decides whether what a rule says is followed.
#[derive(Clone, Copy)]
pub(super) struct Weight {
    /// What it holds, where that is limited.
    pub(super) bytes: usize,
    /// Whether it is over the budget of its namespace.
    pub(super) over_budget: bool,
}

/// Rules of one namespace while they are merged, by host.
#[derive(Default)]
pub(super) struct Pool(BTreeMap<Hostname, Vec<Merging>>);

/// A rule while others may still be merged into it.
struct Merging {
    rule: MergedDestinationRule,
    /// The names of its subsets, once others are compared with them.
    subsets: Option<KeyedSet<String>>,
    /// What the rules in it hold, where that is limited.
    bytes: usize,
}

impl Pool {
    /// Merges a rule into those of its host that it may be merged with, or adds it.
    ///
    /// A rule for all completes each one for some workloads of its namespace, and stays the one for all others. In Istio
    /// the others lose it where both are exported alike, and otherwise the workloads do.
    ///
    /// Istio: pilot/pkg/model/destination_rule.go mergeDestinationRule, 1.32.
    pub(super) fn add(
        &mut self,
        host: Hostname,
        rule: &Arc<Object<DestinationRule>>,
        export: &Export,
        weight: Weight,
    ) {
        let list = self.0.entry(host).or_default();
        let mut separate = true;
        for merging in list.iter_mut() {
            let new = rule
                .spec
                .workload_selector
                .as_ref()
                .map(|s| &s.match_labels);
            if new.is_none() && merging.rule.selector().is_some() {
                merging.take(rule, weight, Takes::WhatIsOpen);
                continue;
            }
            let present = &merging.rule;
            if *export == present.export {
                separate = false;
            } else {
                separate = true;
                let wider = !present.export.0.is_empty() && export.0.is_superset(&present.export.0);
                if !wider {
                    continue;
                }
            }
            let old = present.selector();
            if new.is_some() && old.is_some() && new != old {
                separate = true;
                continue;
            }
            if new == old {
                separate = false;
            }
            merging.take(rule, weight, Takes::Policy);
        }
        if separate {
            list.push(Merging {
                rule: MergedDestinationRule {
                    too_large: weight.bytes > WILDCARD_RULE_BYTES,
                    over_budget: weight.over_budget,
                    ..MergedDestinationRule::single(rule, export)
                },
                subsets: None,
                bytes: weight.bytes,
            });
        }
    }

    /// The rules of the most specific host.
    pub(super) fn most_specific(mut self) -> Vec<Arc<MergedDestinationRule>> {
        let Some(host) = most_specific(self.0.keys()).cloned() else {
            return Vec::new();
        };
        let list = self.0.remove(&host).unwrap_or_default();
        list.into_iter().map(|m| Arc::new(m.rule)).collect()
    }
}

/// What of the traffic policy of a rule is taken by one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// All of it, where that has none.
    Policy,
    /// Each part that it leaves open.
    WhatIsOpen,
}

impl Merging {
    fn take(&mut self, rule: &Object<DestinationRule>, weight: Weight, takes: Takes) {
        self.bytes = self.bytes.saturating_add(weight.bytes);
        let present = &mut self.rule;
        present.over_budget |= weight.over_budget;
        if self.bytes > WILDCARD_RULE_BYTES {
            // Every service would have a copy: what it says does not count any more.
            present.too_large = true;
            present.merged = None;
            return;
        }
        merge_into(present, &mut self.subsets, rule, takes);
    }
}

/// Subsets are added; the top-level policy is taken where there is none.
fn merge_into(
    present: &mut MergedDestinationRule,
    names: &mut Option<KeyedSet<String>>,
    rule: &Object<DestinationRule>,
    takes: Takes,
) {
    let merged = present
        .merged
        .get_or_insert_with(|| present.first.spec.clone());
    present.from.push(rule.meta.name.clone());
    let own = || merged.subsets.iter().map(|s| s.name.clone()).collect();
    let names = names.get_or_insert_with(own);
    for subset in &rule.spec.subsets {
        if names.insert(subset.name.clone()) {
            merged.subsets.push(subset.clone());
        }
    }
    // What users write wins over what was made from a policy of the Gateway API.
    let from_policy = |rule: &Object<DestinationRule>| rule.meta.gateway_api().is_some();
    let theirs = rule.spec.traffic_policy.as_ref();
    match (from_policy(&present.first), from_policy(rule)) {
        (false, false) if takes == Takes::WhatIsOpen => {
            let own = merged.traffic_policy.take();
            merged.traffic_policy = fill(own.map(|own| secured(own, theirs)), theirs.cloned());
        }
        (false, true) => {
            merged.traffic_policy = fill(merged.traffic_policy.take(), theirs.cloned());
        }
        (true, false) => {
            merged.traffic_policy = fill(theirs.cloned(), merged.traffic_policy.take());
        }
        _ => {
            if merged.traffic_policy.is_none() {
                merged.traffic_policy = theirs.cloned();
            }
        }
    }
}

/// A policy without TLS of its own whose settings of ports, which stand in place of all others, ask for the TLS that another
/// asks for on ports of which it says nothing more.
fn secured(mut policy: TrafficPolicy, by: Option<&TrafficPolicy>) -> TrafficPolicy {
    let Some(by) = by.filter(|by| by.tls.is_some() && policy.tls.is_none()) else {
        return policy;
    };
    let number = |p: &PortTrafficPolicy| p.port.as_ref().map_or(0, |p| p.number);
    for port in &mut policy.port_level_settings {
        let says_more = by
            .port_level_settings
            .iter()
            .any(|p| number(p) == number(port));
        if !says_more {
            port.tls = port.tls.take().or_else(|| by.tls.clone());
        }
    }
    policy
}

/// The user's policy, with what it leaves open taken from the other.
fn fill(user: Option<TrafficPolicy>, other: Option<TrafficPolicy>) -> Option<TrafficPolicy> {
    let (mut user, other) = match (user, other) {
        (Some(user), Some(other)) => (user, other),
        (user, other) => return user.or(other),
    };
    user.connection_pool = user.connection_pool.or(other.connection_pool);
    user.outlier_detection = user.outlier_detection.or(other.outlier_detection);
    user.load_balancer = user.load_balancer.or(other.load_balancer);
    user.tls = user.tls.or(other.tls);
    user.tunnel = user.tunnel.or(other.tunnel);
    user.proxy_protocol = user.proxy_protocol.or(other.proxy_protocol);
    user.retry_budget = user.retry_budget.or(other.retry_budget);
    let number = |p: &PortTrafficPolicy| p.port.as_ref().map_or(0, |p| p.number);
    for theirs in other.port_level_settings {
        let same = |p: &&mut PortTrafficPolicy| number(p) == number(&theirs);
        let Some(ours) = user.port_level_settings.iter_mut().find(same) else {
            user.port_level_settings.push(theirs);
            continue;
        };
        ours.load_balancer = ours.load_balancer.take().or(theirs.load_balancer);
        ours.connection_pool = ours.connection_pool.take().or(theirs.connection_pool);
        ours.outlier_detection = ours.outlier_detection.take().or(theirs.outlier_detection);
        ours.tls = ours.tls.take().or(theirs.tls);
    }
    Some(user)
}
