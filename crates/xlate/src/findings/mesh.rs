//! What no single proxy is needed to find: objects that refer to others, or compete with them.

use std::collections::BTreeMap;

use incr::{Cx, Query};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::istio::{
    AuthorizationPolicy, DestinationRule, EnvoyFilter, RequestAuthentication, TrafficExtension,
    VirtualService, WasmPlugin,
};
use model::kinds::{Kind, Kinded};
use model::names::Namespace;
use model::object::{Object, ObjectName};
use proto_istio::types::PolicyTargetReference;
use store::{Reads, Snapshot};

use super::{Findings, about, about_named, code, in_order};
use crate::destination_rule;
use crate::envoy_filter::CompiledFilter;
use crate::traffic_extension::{ReadExtension, Wanted};
use crate::virtual_service::{self, AllHeads, MESH};

/// The findings that are the same for every proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FindingsOfMesh;

impl Query<Snapshot> for FindingsOfMesh {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = (*cx.query(&TakenHosts)).to_vec();
        for name in cx.names::<EnvoyFilter>() {
            if let Some(filter) = &*cx.query(&CompiledFilter(name)) {
                found.extend_from_slice(&filter.diagnostics);
            }
        }
        let plugins = cx.names::<WasmPlugin>().into_iter();
        let extensions = cx.names::<TrafficExtension>().into_iter();
        let wanted = extensions.map(Wanted::TrafficExtension);
        for extension in wanted.chain(plugins.map(Wanted::WasmPlugin)) {
            found.extend_from_slice(&cx.query(&ReadExtension(extension)).diagnostics);
        }
        for namespace in cx.namespaces::<VirtualService>() {
            found.extend_from_slice(&cx.query(&LostDelegates(namespace)));
        }
        for namespace in cx.namespaces::<DestinationRule>() {
            found.extend_from_slice(&cx.query(&TakenSubsets(namespace)));
        }
        found.extend_from_slice(&cx.query(&ForWaypoints));
        in_order(found)
    }
}

/// Policies that refer to what only waypoints serve: they protect nothing here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ForWaypoints;

impl Query<Snapshot> for ForWaypoints {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = Vec::new();
        for policy in cx.list::<AuthorizationPolicy>() {
            let spec = &policy.spec;
            let of = (&*spec.target_refs, spec.target_ref.as_ref());
            foreign_targets(&policy, of, &mut found);
        }
        for policy in cx.list::<RequestAuthentication>() {
            let spec = &policy.spec;
            let of = (&*spec.target_refs, spec.target_ref.as_ref());
            foreign_targets(&policy, of, &mut found);
        }
        in_order(found)
    }
}

fn foreign_targets<T: Kinded>(
    policy: &Object<T>,
    (several, single): (&[PolicyTargetReference], Option<&PolicyTargetReference>),
    found: &mut Vec<Diagnostic>,
) {
    let several = several
        .iter()
        .enumerate()
        .map(|(at, target)| (format!("spec.targetRefs[{at}]"), target));
    let single = single.map(|target| ("spec.targetRef".to_owned(), target));
    for (path, target) in several.chain(single) {
        if target.kind == "Gateway" {
            continue;
        }
        let why = format!(
            "a {} is served by waypoints, of which there are none here: the policy protects nothing there",
            target.kind
        );
        found.push(about(policy, code::FOR_WAYPOINTS, Severity::Error, why).at(path));
    }
}

/// Routes of a namespace whose delegate is not there for them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LostDelegates(Namespace);

impl Query<Snapshot> for LostDelegates {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = Vec::new();
        for object in cx.list_in::<VirtualService>(&self.0) {
            for (at, route) in object.spec.http.iter().enumerate() {
                let Some(delegate) = &route.delegate else {
                    continue;
                };
                let Err(why) = virtual_service::delegate(cx, &self.0, delegate) else {
                    continue;
                };
                found.push(
                    about(
                        &object,
                        code::NO_DELEGATE,
                        Severity::Error,
                        format!("the route is left out: {why}"),
                    )
                    .at(format!("spec.http[{at}].delegate")),
                );
            }
        }
        in_order(found)
    }
}

/// Hosts that sidecars take from an older VirtualService than the one that states them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct TakenHosts;

impl Query<Snapshot> for TakenHosts {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut first: BTreeMap<&str, &ObjectName> = BTreeMap::new();
        let mut found = Vec::new();
        let heads = cx.query(&AllHeads);
        // Rules that not everybody sees need not meet.
        for head in heads.iter().filter(|h| h.is_public()) {
            if !head.gateways.iter().any(|g| **g == *MESH) {
                continue;
            }
            for (at, host) in head.hosts.iter().enumerate() {
                let owner = *first.entry(host).or_insert(&head.name);
                if *owner != head.name {
                    let why = format!("sidecars route {host} as VirtualService {owner} says");
                    found.push(
                        about_named(
                            Kind::VirtualService,
                            &head.name,
                            code::HOST_TAKEN,
                            Severity::Warning,
                            why,
                        )
                        .at(format!("spec.hosts[{at}]")),
                    );
                }
            }
        }
        in_order(found)
    }
}

/// Subsets of a namespace's rules that an older rule of the same host, or the same rule, defines before.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct TakenSubsets(Namespace);

impl Query<Snapshot> for TakenSubsets {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let domain = &cx.settings().domain;
        let mut rules = cx.list_in::<DestinationRule>(&self.0);
        destination_rule::in_order(&mut rules);
        let mut first: BTreeMap<(_, &str), &ObjectName> = BTreeMap::new();
        let mut found = Vec::new();
        // Rules that select workloads or state where they are exported to may stay apart.
        let plain = rules
            .iter()
            .filter(|r| r.spec.workload_selector.is_none() && r.spec.export_to.is_empty());
        for rule in plain {
            let host = destination_rule::resolve(rule, domain);
            for (at, subset) in rule.spec.subsets.iter().enumerate() {
                let key = (host.clone(), subset.name.as_str());
                match first.get(&key) {
                    None => {
                        first.insert(key, &rule.meta.name);
                    }
                    Some(owner) => {
                        let why = format!(
                            "subset {:?} of {host} is that of DestinationRule {owner}; this one has no effect",
                            subset.name
                        );
                        found.push(taken(rule, at, why));
                    }
                }
            }
        }
        in_order(found)
    }
}

fn taken(rule: &Object<DestinationRule>, at: usize, why: String) -> Diagnostic {
    about(rule, code::SUBSET_TAKEN, Severity::Warning, why).at(format!("spec.subsets[{at}].name"))
}
