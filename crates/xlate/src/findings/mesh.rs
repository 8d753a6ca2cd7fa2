//! What no single proxy is needed to find: objects that refer to others, or compete with them.

use std::collections::BTreeMap;

use incr::{Cx, Query};
use model::diagnostic::{Diagnostic, Severity};
use model::hash_table::{self, HashTable};
use model::host::Hostname;
use model::kinds::higress;
use model::kinds::istio::{
    AuthorizationPolicy, DestinationRule, EnvoyFilter, Gateway, RequestAuthentication,
    ServiceEntry, Telemetry, TrafficExtension, VirtualService, WasmPlugin, WorkloadEntry,
};
use model::kinds::kube::{self, EndpointSlice};
use model::kinds::{Kind, Kinded};
use model::names::Namespace;
use model::object::{Object, ObjectName};
use proto_istio::types::PolicyTargetReference;
use store::{Reads, Snapshot};

use super::contested::Contested;
use super::{Findings, in_order};
use crate::routes::hash;
use crate::{clusters, judged};
use mesh::closed::ClosedObjects;
use mesh::destination_rule;
use mesh::destination_rule::Extent;
use mesh::finding::{about, about_named, code};
use mesh::gateways::GatewaysOver;
use mesh::limits::{self, OverBudget};
use mesh::machine;
use mesh::services::{self, OfHost, RefusedEndpoints, ServicesOver, SlicesOver};
use mesh::virtual_service::{self, AllHeads, MESH};
use policy::edge::options::EdgeOptions;
use policy::envoy_filter::CompiledFilter;
use policy::telemetry;
use policy::traffic_extension::{ReadExtension, Wanted};

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
        let of_edge = cx.names::<higress::WasmPlugin>().into_iter();
        let wanted = extensions
            .map(Wanted::TrafficExtension)
            .chain(plugins.map(Wanted::WasmPlugin))
            .chain(of_edge.map(Wanted::HigressPlugin));
        for extension in wanted {
            found.extend_from_slice(&cx.query(&ReadExtension(extension)).diagnostics);
        }
        for namespace in cx.namespaces::<VirtualService>() {
            found.extend_from_slice(&cx.query(&LostDelegates(namespace)));
        }
        for namespace in cx.namespaces::<Telemetry>() {
            found.extend_from_slice(&cx.query(&LargeTelemetry(namespace)));
        }
        for namespace in cx.namespaces::<ServiceEntry>() {
            found.extend_from_slice(&cx.query(&LargeEntries(namespace)));
        }
        for namespace in cx.namespaces::<Gateway>() {
            let effect = "none of its servers is served";
            let over = OverBudget::new(Kind::Gateway, "spec.servers", effect);
            over.report_all(cx.query(&GatewaysOver(namespace)).iter(), &mut found);
        }
        for namespace in cx.namespaces::<kube::Service>() {
            let effect = "it is not there for proxies";
            let over = OverBudget::new(Kind::Service, "spec.ports", effect);
            over.report_all(cx.query(&ServicesOver(namespace)).iter(), &mut found);
        }
        for namespace in cx.namespaces::<EndpointSlice>() {
            let effect = "its endpoints are left out";
            let over = OverBudget::new(Kind::EndpointSlice, "endpoints", effect);
            over.report_all(cx.query(&SlicesOver(namespace.clone())).iter(), &mut found);
            found.extend_from_slice(&cx.query(&LocalSlices(namespace)));
        }
        for namespace in cx.namespaces::<WorkloadEntry>() {
            found.extend_from_slice(&cx.query(&LocalWorkloads(namespace)));
        }
        for namespace in cx.namespaces::<DestinationRule>() {
            found.extend_from_slice(&cx.query(&LargeSettings(namespace.clone())));
            found.extend_from_slice(&cx.query(&TakenSubsets(namespace)));
        }
        found.extend_from_slice(&cx.query(&Contested));
        found.extend_from_slice(&cx.query(&ClosedObjects));
        found.extend_from_slice(&cx.query(&EdgeOptions).found);
        found.extend_from_slice(&cx.query(&ForWaypoints));
        found.extend_from_slice(&cx.query(&LargeRules));
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

/// ServiceEntries of a namespace that make more than one may.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LargeEntries(Namespace);

impl Query<Snapshot> for LargeEntries {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = Vec::new();
        let mut over = OverBudget::new(Kind::ServiceEntry, "spec.hosts", "it has no services");
        for entry in cx.list_in::<ServiceEntry>(&self.0) {
            found.extend(services::excess(&entry));
            if services::entry_is_over(cx, &entry) {
                over.report(&entry.meta.name, &mut found);
            }
            found.extend(machine::of_entry(&cx.settings().features, &entry));
            let (path, refused) = match entry.spec.workload_selector {
                Some(_) => {
                    let refused = cx.query(&RefusedEndpoints(entry.meta.name.clone()));
                    ("spec.workloadSelector", *refused)
                }
                None => {
                    let stated = entry.spec.endpoints.len();
                    let refused = services::too_many_endpoints(&entry.spec, stated);
                    ("spec.endpoints", refused)
                }
            };
            let Some(count) = refused else { continue };
            let why = format!(
                "it has no endpoints: hosts, times addresses, times ports, times workloads are {count}, more than {}",
                limits::ENTRY_ENDPOINTS
            );
            found.push(limits::exceeded(
                (Kind::ServiceEntry, &entry.meta.name),
                path,
                why,
            ));
        }
        over.finish(&mut found);
        in_order(found)
    }
}

/// WorkloadEntries of a namespace that are on the machine of whoever connects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LocalWorkloads(Namespace);

impl Query<Snapshot> for LocalWorkloads {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let features = &cx.settings().features;
        if machine::allows(features, &self.0) {
            return in_order(Vec::new());
        }
        let all = cx.list_in::<WorkloadEntry>(&self.0);
        let found = all
            .iter()
            .filter_map(|entry| machine::of_workload(features, entry));
        in_order(found.collect())
    }
}

/// EndpointSlices of a namespace with endpoints on the machine of whoever connects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LocalSlices(Namespace);

impl Query<Snapshot> for LocalSlices {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        if machine::allows(&cx.settings().features, &self.0) {
            return in_order(Vec::new());
        }
        let names = cx.names_in::<EndpointSlice>(&self.0).into_iter();
        let found = names.filter_map(|name| cx.query(&LocalSlice(name)).as_deref().cloned());
        in_order(found.collect())
    }
}

/// The first of its endpoints there. Slices change often, and each is looked at for itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LocalSlice(ObjectName);

impl Query<Snapshot> for LocalSlice {
    type Value = Option<Box<Diagnostic>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let slice = cx.get::<EndpointSlice>(&self.0)?;
        machine::of_slice(&cx.settings().features, &slice).map(Box::new)
    }
}

/// Telemetry of a namespace that holds more than one may.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LargeTelemetry(Namespace);

impl Query<Snapshot> for LargeTelemetry {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let all = cx.list_in::<Telemetry>(&self.0);
        let large = all.iter().filter(|t| telemetry::is_too_large(t));
        let told = large.map(|telemetry| {
            let why = format!(
                "it has no effect: every filter chain would repeat it, and it holds more than {} KiB",
                limits::TELEMETRY_BYTES >> 10
            );
            let of = (Kind::Telemetry, &telemetry.meta.name);
            limits::exceeded(of, "spec", why)
        });
        in_order(told.collect())
    }
}

/// DestinationRules of a namespace that make more than one may.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LargeSettings(Namespace);

impl Query<Snapshot> for LargeSettings {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let domain = &cx.settings().domain;
        let mut found = Vec::new();
        let over = cx.query(&destination_rule::SettingsOver(self.0.clone()));
        let effect = "no subset of its host can be reached";
        let reported = OverBudget::new(Kind::DestinationRule, "spec.subsets", effect);
        reported.report_all(over.iter(), &mut found);
        for rule in cx.list_in::<DestinationRule>(&self.0) {
            let of = (Kind::DestinationRule, &rule.meta.name);
            let host = destination_rule::resolve(&rule, domain);
            if let Some(path) = destination_rule::large_hash(&rule.spec) {
                let most = limits::HASH_BYTES;
                let why = format!("requests are not hashed: it holds more than {most} bytes");
                found.push(limits::exceeded(of, path, why));
            }
            for (path, hash) in destination_rule::hashes(&rule.spec) {
                if let Some(fault) = hash::fault(hash) {
                    let effect = "requests are not hashed";
                    found.push(judged::finding(Some(rule.key()), effect, &fault).at(path));
                }
            }
            smaller_tables(cx, &rule, &host, &mut found);
            if host.is_wildcard() {
                if *cx.query(&destination_rule::LargeWildcard {
                    namespace: self.0.clone(),
                    host: host.clone(),
                }) {
                    let why = format!(
                        "services that only it is about have no clusters, and cannot be reached: rules for {host} hold more than {} KiB",
                        limits::WILDCARD_RULE_BYTES >> 10
                    );
                    found.push(limits::exceeded(of, "spec.host", why));
                }
                continue;
            }
            if !destination_rule::may_be_large(&rule.spec) || over.contains(&rule.meta.name) {
                continue;
            }
            for service in cx.query(&OfHost(host)).iter() {
                let Some(merged) = destination_rule::of_namespace(cx, &self.0, &service.host)
                else {
                    continue;
                };
                let (path, effect) = match clusters::extent(cx, service, &merged) {
                    Extent::All => continue,
                    Extent::WithoutSubsets => ("spec.subsets", "its subsets cannot be reached"),
                    Extent::Nothing => ("spec.trafficPolicy", "it cannot be reached"),
                };
                let why = format!(
                    "service {}: {effect}: the policies and endpoints, once for each port and subset, are too many",
                    service.host
                );
                found.push(limits::exceeded(of, path, why));
            }
        }
        in_order(found)
    }
}

/// Tables for hashing that are smaller than a rule asks for, as there are many of them.
fn smaller_tables(
    cx: &Cx<'_, Snapshot>,
    rule: &Object<DestinationRule>,
    host: &Hostname,
    found: &mut Vec<Diagnostic>,
) {
    if host.is_wildcard() {
        return;
    }
    for (path, hash) in destination_rule::hashes(&rule.spec) {
        // Whether that alone is too much its author is told when it is read.
        let wanted = HashTable::of(hash).at_most(hash_table::LARGEST);
        let services = cx.query(&OfHost(host.clone()));
        let smaller = services.iter().find_map(|service| {
            let merged = destination_rule::of_namespace(cx, rule.namespace(), &service.host);
            let clusters = clusters::cluster_count(service, merged.as_deref());
            let served = wanted.at_most(hash_table::most(clusters));
            (served != wanted).then_some((service, clusters, served))
        });
        let Some((service, clusters, served)) = smaller else {
            continue;
        };
        let why = format!(
            "service {}: tables have {} entries in place of {}, as there is one for each of {clusters} clusters",
            service.host,
            served.size(),
            wanted.size()
        );
        let finding = about(rule, code::OVER_LIMIT, Severity::Warning, why);
        let finding = finding.at(format!("{path}.{}", hash_table::field(hash)));
        found.push(finding.help("state fewer subsets, or a smaller table"));
    }
}

/// VirtualServices that make more than one may.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LargeRules;

impl Query<Snapshot> for LargeRules {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = Vec::new();
        let heads = cx.query(&AllHeads);
        let mut over: BTreeMap<&Namespace, Vec<&ObjectName>> = BTreeMap::new();
        for head in heads.iter() {
            let Some(excess) = &head.excess else { continue };
            let of = (Kind::VirtualService, &head.name);
            if excess.budget {
                let names = over.entry(&head.name.namespace).or_default();
                names.push(&head.name);
            }
            if let (Some(first), false) = (excess.delegates.first(), excess.http) {
                let count = excess.delegates.len();
                let why = format!(
                    "what {count} of the routes are for is answered with 503: together with their delegates they have too many matches"
                );
                let path = format!("spec.http[{first}].delegate");
                found.push(limits::exceeded(of, path, why));
            }
            let mebibytes = limits::RULE_BYTES >> 20;
            if excess.http {
                let why = format!(
                    "requests for its hosts are answered with 503: its routes, once for each match, are more than {mebibytes} MiB"
                );
                found.push(limits::exceeded(of, "spec.http", why));
            }
            if excess.layer4 {
                let why = format!(
                    "connections to its hosts are closed: its routes, once for each match, are more than {mebibytes} MiB"
                );
                found.push(limits::exceeded(of, "spec.tls", why));
            }
        }
        for names in over.into_values() {
            let effect = "requests for its hosts are answered with 503, connections closed";
            let over = OverBudget::new(Kind::VirtualService, "spec", effect);
            over.report_all(names, &mut found);
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
