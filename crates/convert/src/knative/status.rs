//! The status of an Ingress: whether all of it is served, and where.
//!
//! Knative: networking/pkg/apis/networking/v1alpha1/ingress_lifecycle.go, 1.19.

use model::kinds::knative::{Ingress, Visibility};
use model::kinds::kube::LoadBalancerIngress;
use model::{Diagnostic, ObjectName};
use serde_json::{Value, json};

use super::gateway::entrance;
use super::host::HttpOf;
use super::rules::{Rules, RulesOf};
use super::tls::TlsOf;
use super::{charge, key};
use crate::edge::{self, Addresses};
use crate::outcome::code;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The status of an Ingress: the fields that are ours; `None` where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StatusOf(pub ObjectName);

impl Derive for StatusOf {
    type Stratum = Routes;
    type Value = Option<Value>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let rules = read.derived(RulesOf(self.0.clone()));
        let rules = rules.as_ref().as_ref()?;
        let ingress = read.get::<Ingress>(&self.0)?;
        let reached = |visibility| rules.by_place.keys().any(|at| at.visibility == visibility);
        let (public, private) = (outside(read), inside(read));
        let waits = (reached(Visibility::ExternalIp) && public.is_none())
            || (reached(Visibility::ClusterLocal) && private.is_none());
        let configured = match fault(read, &self.0, rules) {
            None => Condition::True,
            Some(found) => Condition::False(reason(found.code), said(&found)),
        };
        let balanced = match waits {
            false => Condition::True,
            true => Condition::Unknown(
                "Uninitialized",
                "nothing says at which addresses the proxies are reached".to_owned(),
            ),
        };
        let ready = match (&configured, &balanced) {
            (Condition::True, balanced) => balanced.clone(),
            (configured, _) => configured.clone(),
        };
        let conditions = [
            balanced.shown("LoadBalancerReady"),
            configured.shown("NetworkConfigured"),
            ready.shown("Ready"),
        ];
        let mut status = json!({
            "observedGeneration": ingress.meta.generation,
            "conditions": conditions,
        });
        for (field, known) in [
            ("publicLoadBalancer", public),
            ("privateLoadBalancer", private),
        ] {
            if let Some(entries) = known {
                status[field] = json!({ "ingress": entries });
            }
        }
        Some(status)
    }
}

/// Whether something holds, and otherwise why.
#[derive(Clone)]
enum Condition {
    True,
    Unknown(&'static str, String),
    False(&'static str, String),
}

impl Condition {
    fn shown(&self, kind: &str) -> Value {
        let (status, why) = match self {
            Self::True => ("True", None),
            Self::Unknown(reason, message) => ("Unknown", Some((reason, message))),
            Self::False(reason, message) => ("False", Some((reason, message))),
        };
        let mut shown = json!({ "type": kind, "status": status });
        if let Some((reason, message)) = why {
            shown["reason"] = json!(reason);
            shown["message"] = json!(message);
        }
        shown
    }
}

/// The first thing that keeps some of an Ingress from being served as it is stated.
fn fault(read: &Reader<'_, '_, Routes>, name: &ObjectName, rules: &Rules) -> Option<Diagnostic> {
    if let Some(found) = rules.findings.first() {
        return Some(found.clone());
    }
    if charge::is_over(read, name) {
        return Some(charge::excess(name));
    }
    let key = key(name);
    let ours = |found: &&Diagnostic| found.object.as_ref() == Some(&key);
    rules.by_place.keys().find_map(|place| {
        let http = read.derived(HttpOf(place.clone()));
        let tls = read.derived(TlsOf(place.clone()));
        let found = http.findings.iter().chain(&tls.findings).find(ours);
        found.cloned()
    })
}

fn said(found: &Diagnostic) -> String {
    format!("{}: {}", found.path, found.message)
}

fn reason(code: &str) -> &'static str {
    match code {
        code::NO_BACKEND => "NotFound",
        code::NOT_USED | code::NOT_OWNED => "Conflict",
        code::OVER_LIMIT | code::OVER_BUDGET => "OverLimit",
        code::CLOSED => "Closed",
        _ => "NotServed",
    }
}

/// Where everybody reaches hosts; none where nothing says so. A point may have an address and a name.
///
/// Higress: pkg/ingress/kube/kingress/status.go transportLoadBalancerIngress, 2.2.
fn outside(read: &Reader<'_, '_, Routes>) -> Option<Vec<Value>> {
    let features = &read.settings().features;
    let known = read.derived(Addresses);
    let inner = features.edge_service.object();
    let inner = inner.map(|service| edge::host_of(read, &service));
    let addresses = known.iter().flat_map(|all| all.iter());
    let mut entries: Vec<Value> = addresses.map(|at| entry(at, inner.as_deref())).collect();
    if let (true, Some(inner)) = (entries.is_empty() && known.is_some(), inner) {
        entries.push(json!({ "domainInternal": inner }));
    }
    (!entries.is_empty()).then_some(entries)
}

fn entry(at: &LoadBalancerIngress, inner: Option<&str>) -> Value {
    let stated = [
        ("ip", &*at.ip),
        ("domain", &*at.hostname),
        ("domainInternal", inner.unwrap_or_default()),
    ];
    let stated = stated.into_iter().filter(|(_, text)| !text.is_empty());
    stated
        .map(|(name, text)| (name.to_owned(), json!(text)))
        .collect()
}

/// Where the cluster reaches hosts: through the Service of the proxies that are named for it, or by sidecars alone. None
/// where nothing says what that Service is.
fn inside(read: &Reader<'_, '_, Routes>) -> Option<Vec<Value>> {
    let features = &read.settings().features;
    match entrance(features, Visibility::ClusterLocal) {
        Ok(None) | Err(_) => Some(vec![json!({ "meshOnly": true })]),
        Ok(Some(_)) => {
            let service = features.knative_local_service.object()?;
            let host = edge::host_of(read, &service);
            Some(vec![json!({ "domainInternal": host })])
        }
    }
}
