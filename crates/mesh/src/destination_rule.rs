//! Which DestinationRule is in force for a host, seen from a namespace: several rules merged, one chosen by precedence.
//!
//! One memo holds the rules of a host for everybody ([`DestinationRulesOf`]); choosing among them for a client is a plain
//! function ([`rule_for`]), so hosts without rules cost one memo however many namespaces look at them.
//!
//! Istio: pilot/pkg/model/destination_rule.go and push_context.go, 1.32.

mod charge;
mod merge;
mod policy;
mod weight;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use incr::{Cx, Query};
use model::host::{Hostname, more_specific};
use model::kinds::istio::DestinationRule;
use model::labels::Labels;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use prost::Message;
use proto_istio::networking::{Subset, TrafficPolicy};
use store::{ObjectIndex, Reads, Snapshot};

pub use charge::SettingsOver;
pub use merge::MergedDestinationRule;
pub use policy::Policy;
pub use weight::{Extent, hashes, large_hash, may_be_large};

/// Which side of the connection asks. Rules with a workload selector concern clients only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The proxy sends to the host.
    Client,
    /// The proxy's workload is the host.
    Server,
}

/// A client as far as the choice of a rule depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Its namespace.
    pub namespace: &'a Namespace,
    /// Its labels.
    pub labels: &'a Labels,
    /// Its side.
    pub side: Side,
}

/// The rule in force for a service, if there is one.
///
/// Looked for among the rules of the client's namespace, then those that the service's namespace exports, then those
/// that the root namespace exports. In each, the most specific host wins.
pub fn rule_for(
    cx: &Cx<'_, Snapshot>,
    client: Client<'_>,
    service_namespace: &Namespace,
    host: &Hostname,
) -> Option<Arc<MergedDestinationRule>> {
    let rules = cx.query(&DestinationRulesOf(host.clone()));
    let rules = rules.as_ref().as_ref()?;
    let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
    rules.choose(client, service_namespace, &root).cloned()
}

/// Puts rules into the order in which they are merged.
pub fn in_order(rules: &mut [Arc<Object<DestinationRule>>]) {
    merge::sort(rules);
}

/// The rule is not the same for all clients of the namespace: some rules select workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DependsOnLabels;

/// The rule in force for every client of a namespace.
///
/// # Errors
///
/// Where the labels of the client decide: ask with [`rule_for`].
pub fn rule_for_all(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    service_namespace: &Namespace,
    host: &Hostname,
) -> Result<Option<Arc<MergedDestinationRule>>, DependsOnLabels> {
    let rules = cx.query(&DestinationRulesOf(host.clone()));
    let Some(rules) = rules.as_ref() else {
        return Ok(None);
    };
    if rules.selecting.contains(namespace) {
        return Err(DependsOnLabels);
    }
    let client = Client {
        namespace,
        labels: &Labels::default(),
        side: Side::Client,
    };
    let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
    Ok(rules.choose(client, service_namespace, &root).cloned())
}

/// The rules of a host in all namespaces; `None` where no rule names it, which is what most hosts have.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DestinationRulesOf(pub Hostname);

/// Whether any rule names a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HasDestinationRules(pub Hostname);

impl Query<Snapshot> for HasDestinationRules {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        cx.query(&DestinationRulesOf(self.0.clone())).is_some()
    }
}

/// Rules by the pool they are looked for in; each list is of the most specific host in its pool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostDestinationRules {
    /// What clients of a namespace see of their own namespace's rules.
    local: BTreeMap<Namespace, Vec<Arc<MergedDestinationRule>>>,
    /// What a namespace lets others see.
    exported: BTreeMap<Namespace, Vec<Arc<MergedDestinationRule>>>,
    /// The private rules of the root namespace.
    root_private: Vec<Arc<MergedDestinationRule>>,
    /// Namespaces with rules that select workloads.
    selecting: Vec<Namespace>,
}

impl HostDestinationRules {
    fn choose(
        &self,
        client: Client<'_>,
        service_namespace: &Namespace,
        root: &Namespace,
    ) -> Option<&Arc<MergedDestinationRule>> {
        let own = if client.namespace == root {
            Some(&self.root_private).filter(|list| !list.is_empty())
        } else {
            self.local.get(client.namespace)
        };
        if let Some(list) = own {
            return among(list.iter(), client);
        }
        for owner in [service_namespace, root] {
            let mut visible = self
                .exported
                .get(owner)
                .into_iter()
                .flatten()
                .filter(|rule| rule.exported_to(client.namespace))
                .peekable();
            if visible.peek().is_some() {
                return among(visible, client);
            }
        }
        None
    }
}

/// Of several merged rules of one host, the first whose selector takes the client, else the last without a selector.
fn among<'a>(
    list: impl Iterator<Item = &'a Arc<MergedDestinationRule>>,
    client: Client<'_>,
) -> Option<&'a Arc<MergedDestinationRule>> {
    let mut general = None;
    for rule in list {
        match rule.selector() {
            None => general = Some(rule),
            Some(selector)
                if client.side == Side::Client
                    && rule.name().namespace == *client.namespace
                    && client.labels.matches_map(selector) =>
            {
                return Some(rule);
            }
            Some(_) => {}
        }
    }
    general
}

impl Query<Snapshot> for DestinationRulesOf {
    type Value = Option<Arc<HostDestinationRules>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut found = candidates(cx, &self.0);
        if found.is_empty() {
            return None;
        }
        merge::sort(&mut found);
        let settings = cx.settings();
        let root = settings.mesh.root_namespace.as_str();
        let private_by_default = settings
            .mesh
            .default_destination_rule_export_to
            .iter()
            .any(|e| e == ".");

        let mut local: BTreeMap<Namespace, merge::Pool> = BTreeMap::new();
        let mut exported: BTreeMap<Namespace, merge::Pool> = BTreeMap::new();
        let mut root_private = merge::Pool::default();
        let mut selecting = Vec::new();
        for rule in found {
            let export = merge::Export::of(&rule);
            let namespace = rule.namespace().clone();
            if rule.spec.workload_selector.is_some() && !selecting.contains(&namespace) {
                selecting.push(namespace.clone());
            }
            let host = resolve(&rule, &settings.domain);
            // Only a wildcard is about many services, each of which holds what is merged for it.
            let weight = merge::Weight {
                bytes: match host.is_wildcard() {
                    true => *cx.query(&SizeOf(rule.meta.name.clone())),
                    false => 0,
                },
                over_budget: !rule.spec.subsets.is_empty()
                    && charge::settings_are_over(cx, &rule.meta.name),
            };
            if export.reaches_own(&namespace) {
                let pool = local.entry(namespace.clone()).or_default();
                pool.add(host.clone(), &rule, &export, weight);
            }
            if !export.only_own(&namespace, private_by_default) {
                let pool = exported.entry(namespace).or_default();
                pool.add(host, &rule, &export, weight);
            } else if *namespace == *root {
                root_private.add(host, &rule, &export, weight);
            }
        }
        let finish = |pools: BTreeMap<Namespace, merge::Pool>| {
            pools
                .into_iter()
                .map(|(namespace, pool)| (namespace, pool.most_specific()))
                .collect()
        };
        Some(Arc::new(HostDestinationRules {
            local: finish(local),
            exported: finish(exported),
            root_private: root_private.most_specific(),
            selecting,
        }))
    }
}

/// The bytes that a DestinationRule holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SizeOf(ObjectName);

impl Query<Snapshot> for SizeOf {
    type Value = usize;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> usize {
        cx.get::<DestinationRule>(&self.0)
            .map_or(0, |rule| rule.spec.encoded_len())
    }
}

/// Whether the rules of a namespace for a wildcard hold too much together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LargeWildcard {
    /// Its namespace.
    pub namespace: Namespace,
    /// The wildcard.
    pub host: Hostname,
}

impl Query<Snapshot> for LargeWildcard {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        let rules = cx.query(&DestinationRulesOf(self.host.clone()));
        let Some(rules) = rules.as_ref() else {
            return false;
        };
        let own = [
            rules.local.get(&self.namespace),
            rules.exported.get(&self.namespace),
            Some(&rules.root_private),
        ];
        own.into_iter()
            .flatten()
            .flatten()
            .any(|r| r.too_large() && r.name().namespace == self.namespace)
    }
}

/// The rule of a namespace about a host, as the namespace lets others see it, or else as it sees it itself.
pub fn of_namespace(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    host: &Hostname,
) -> Option<Arc<MergedDestinationRule>> {
    let rules = cx.query(&DestinationRulesOf(host.clone()));
    let rules = rules.as_ref().as_ref()?;
    let pools = [rules.exported.get(namespace), rules.local.get(namespace)];
    pools.into_iter().flatten().flatten().next().cloned()
}

/// Every rule whose host is the given one or covers it.
fn candidates(cx: &Cx<'_, Snapshot>, host: &Hostname) -> Vec<Arc<Object<DestinationRule>>> {
    let domain = &cx.settings().domain;
    let lower = host.to_ascii_lowercase();
    let mut found: Vec<Arc<Object<DestinationRule>>> = Vec::new();
    let mut take = |value: &str| found.extend(cx.list_by(ObjectIndex::Host, value));

    let suffix = match lower.strip_prefix('*') {
        Some(suffix) => suffix,
        None => {
            take(&lower);
            if let Some((name, rest)) = lower.split_once('.')
                && rest.ends_with(&**domain)
            {
                // Rules of the service's own namespace may use the short name.
                take(name);
            }
            &lower
        }
    };
    for (at, _) in suffix.match_indices('.') {
        take(&format!("*{}", &suffix[at..]));
    }
    take("*");
    take(store::index::ODD_WILDCARD);

    found.retain(|rule| {
        let pattern = resolve(rule, domain);
        match pattern.strip_prefix('*') {
            Some(end) => host.strip_prefix('*').unwrap_or(host).ends_with(end),
            None => pattern == *host,
        }
    });
    found
}

/// The host of a rule; a short name is one of the rule's own namespace.
///
/// Istio: pilot/pkg/model/config.go ResolveShortnameToFQDN, 1.32.
pub fn resolve(rule: &Object<DestinationRule>, domain: &str) -> Hostname {
    let host = rule.spec.host.as_str();
    if host == "*" || host.contains('.') || host.parse::<std::net::IpAddr>().is_ok() {
        return Hostname::from(host);
    }
    Hostname::from(format!("{host}.{}.svc.{domain}", rule.namespace()))
}

/// A rule as part of a key: cheap to hash, equal where the rules are.
#[derive(Clone)]
pub struct DestinationRuleKey(pub Arc<MergedDestinationRule>);

impl PartialEq for DestinationRuleKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0
    }
}

impl Eq for DestinationRuleKey {}

impl Hash for DestinationRuleKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().hash(state);
    }
}

impl fmt::Debug for DestinationRuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0.name(), f)
    }
}

/// The subset of that name.
pub fn subset<'a>(rule: Option<&'a MergedDestinationRule>, name: &str) -> Option<&'a Subset> {
    rule?.spec().subsets.iter().find(|s| s.name == name)
}

/// The top-level policy of a rule.
pub fn top_policy(rule: Option<&MergedDestinationRule>) -> Option<&TrafficPolicy> {
    rule?.spec().traffic_policy.as_ref()
}

/// The first of `hosts` in the order of specificity.
fn most_specific<'a>(hosts: impl Iterator<Item = &'a Hostname>) -> Option<&'a Hostname> {
    hosts.reduce(|best, host| {
        if more_specific(host, best) {
            host
        } else {
            best
        }
    })
}

/// The names of a merged rule's objects, for provenance.
pub fn provenance(rule: &MergedDestinationRule) -> &[ObjectName] {
    rule.from()
}
