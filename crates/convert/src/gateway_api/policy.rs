//! How backends are spoken to: BackendTLSPolicy, XBackendTrafficPolicy and XBackend.
//!
//! All policies for a Service or ServiceEntry become one DestinationRule for each of its hosts. Of several policies that
//! settle the same thing the oldest wins, then the first by name.
//!
//! Istio: pilot/pkg/config/kube/gateway/backend_policies.go, 1.32.

mod ancestors;
mod target;
mod trust;
mod xbackend;

use std::sync::Arc;

use model::derived::GatewayRole;
use model::kinds::gateway_api::{BackendTlsPolicy, XBackendTrafficPolicy};
use model::kinds::istio::DestinationRule;
use model::kinds::kube::Service;
use model::{Age, Kind, Labels, Object, ObjectKey, ObjectName};
use proto_istio::networking::traffic_policy::{PortTrafficPolicy, RetryBudget};
use proto_istio::networking::{
    ClientTlsSettings, LoadBalancerSettings, PortSelector, TrafficPolicy,
};
use store::index::{ObjectIndex, reference_value};

use super::{INFIX, derived};
use crate::outcome::{Made, Outcome, object};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

pub(super) use ancestors::GatewaysOf;
pub(super) use target::{TargetOf, TlsPoliciesOf, section};
pub(super) use trust::{Trust, trust};
pub(crate) use xbackend::{RuleOfXBackend, ServiceOfXBackend};
pub(super) use xbackend::{in_force, tls_of_xbackend};

/// Whether the author of a policy says that it is not for us.
pub(super) fn is_ignored(annotations: &Labels) -> bool {
    annotations
        .get("istio.io/ignore-policy-attachment")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The DestinationRules of a backend that policies are about, one for each of its hosts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RuleOfTarget(pub ObjectKey);

impl Derive for RuleOfTarget {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        if !read.settings().features.gateway_api {
            return Outcome::default();
        }
        let target = read.derived(TargetOf(self.0.clone()));
        let Some(target) = target.as_ref() else {
            return Outcome::default();
        };
        let mut merged = Merged::default();
        for (section, policy) in read.derived(TlsPoliciesOf(self.0.clone())).iter() {
            let port = section.as_ref().map(|name| target.ports.get(name));
            if port != Some(None) {
                merged.take_tls(read, port.flatten().copied(), policy);
            }
        }
        if let Some(policy) = traffic_policy(read, &self.0) {
            merged.take_traffic(&policy);
        }
        merged.outcome(&self.0, &target.hosts)
    }
}

/// The DestinationRules of all Services of a namespace that no other policy is about, as a closed BackendTLSPolicy has it
/// whose targets cannot be read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClosedServices(pub ObjectName);

impl Derive for ClosedServices {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        if !read.settings().features.gateway_api {
            return Outcome::default();
        }
        let mut services = Outcome::default();
        for name in read.names_in::<Service>(&self.0.namespace) {
            let service = ObjectKey {
                kind: Kind::Service,
                name,
            };
            let is_free = read.derived(TlsPoliciesOf(service.clone())).is_empty();
            let target = read.derived(TargetOf(service.clone()));
            let (Some(target), true) = (target.as_ref(), is_free) else {
                continue;
            };
            let mut merged = Merged::default();
            merged.take_tls(read, None, &self.0);
            if let Some(policy) = traffic_policy(read, &service) {
                merged.take_traffic(&policy);
            }
            let made = merged.outcome(&service, &target.hosts);
            services.objects.extend(made.objects);
        }
        services
    }
}

/// What policies say of a backend.
#[derive(Default)]
struct Merged {
    policy: TrafficPolicy,
    /// Those who have a say, with their age.
    policies: Vec<(Age, ObjectKey)>,
    /// ConfigMaps with roots.
    roots: Vec<ObjectKey>,
}

impl Merged {
    /// Takes in how a port, or every port that nothing else is said of, is spoken to.
    fn take_tls(&mut self, read: &Reader<'_, '_, Routes>, port: Option<u32>, policy: &ObjectName) {
        let Some(policy) = read.get::<BackendTlsPolicy>(policy) else {
            return;
        };
        let trust = trust(read, policy.namespace(), &policy.spec.validation);
        match port {
            None => self.policy.tls = Some(trust.settings),
            Some(number) => self
                .policy
                .port_level_settings
                .push(port_settings(number, trust.settings)),
        }
        self.roots.extend(trust.roots);
        self.note(&policy);
    }

    fn take_traffic(&mut self, policy: &Object<XBackendTrafficPolicy>) {
        self.policy.load_balancer = Some(LoadBalancerSettings::default());
        let constraint = policy.spec.retry_constraint.as_ref();
        self.policy.retry_budget = constraint.map(|constraint| RetryBudget {
            percent: Some(f64::from(constraint.budget.percent)),
            // Envoy knows no rate: so many may be under way at once.
            min_retry_concurrency: constraint.min_retry_rate.count.unwrap_or(10),
            budget_interval: Some(constraint.budget.interval.0.into()),
        });
        self.note(policy);
    }

    fn note<T: model::kinds::Kinded>(&mut self, policy: &Object<T>) {
        let name = policy.meta.name.clone();
        let key = ObjectKey {
            kind: T::KIND,
            name,
        };
        self.policies.push((policy.meta.created, key));
    }

    fn outcome(mut self, target: &ObjectKey, hosts: &[Arc<str>]) -> Outcome<Routes> {
        if self.policies.is_empty() {
            return Outcome::default();
        }
        self.policies
            .sort_by(|(a, x), (b, y)| (a, &x.name, x.kind).cmp(&(b, &y.name, y.kind)));
        self.policies.dedup();
        self.policy
            .port_level_settings
            .sort_by_key(|settings| settings.port.as_ref().map(|port| port.number));
        self.roots.sort();
        self.roots.dedup();
        let mut from: Vec<ObjectKey> = self.policies.into_iter().map(|(_, key)| key).collect();
        from.push(target.clone());
        from.extend(self.roots);
        let rules = hosts
            .iter()
            .map(|host| Made::new(rule(target, host, from.clone(), self.policy.clone())));
        Outcome {
            objects: rules.collect(),
            ..Outcome::default()
        }
    }
}

/// The policy for retries and sessions of a backend that wins.
fn traffic_policy(
    read: &Reader<'_, '_, Routes>,
    target: &ObjectKey,
) -> Option<Arc<Object<XBackendTrafficPolicy>>> {
    if target.kind != Kind::Service || !read.settings().features.alpha_gateway_api {
        return None;
    }
    let all = read.list_by::<XBackendTrafficPolicy>(ObjectIndex::Target, &reference_value(target));
    let ours = all
        .into_iter()
        .filter(|policy| !is_ignored(&policy.meta.annotations));
    ours.min_by(|a, b| {
        let key = |policy: &Object<_>| (policy.meta.created, policy.meta.name.clone());
        key(a).cmp(&key(b))
    })
}

fn port_settings(number: u32, tls: ClientTlsSettings) -> PortTrafficPolicy {
    PortTrafficPolicy {
        port: Some(PortSelector { number }),
        tls: Some(tls),
        ..PortTrafficPolicy::default()
    }
}

/// The rule of one host of a backend.
fn rule(
    target: &ObjectKey,
    host: &str,
    from: Vec<ObjectKey>,
    policy: TrafficPolicy,
) -> Object<DestinationRule> {
    let of = &target.name.name;
    // Other kinds may have several hosts.
    let name = match target.kind {
        Kind::Service => format!("{of}~{INFIX}"),
        _ => format!("{of}~{}~{INFIX}", host.replace('.', "-")),
    };
    let spec = DestinationRule {
        host: host.to_owned(),
        traffic_policy: Some(policy),
        ..DestinationRule::default()
    };
    let name = ObjectName::new(target.name.namespace.clone(), name);
    object(name, derived(from, GatewayRole::default()), spec)
}
