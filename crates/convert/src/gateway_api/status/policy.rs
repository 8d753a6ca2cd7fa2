//! The statuses of BackendTLSPolicy, XBackendTrafficPolicy and XBackend.
//!
//! Istio: pilot/pkg/config/kube/gateway/backend_policies.go, 1.32.

use std::collections::BTreeMap;

use model::kinds::gateway_api::{
    BackendTlsPolicy, LocalObjectRef, PolicyTargetRef, XBackendTrafficPolicy,
};
use model::{Age, Kind, Namespace, ObjectKey, ObjectName};
use serde_json::{Value, json};

use super::Conditions;
use crate::gateway_api::class::MESH_CONTROLLER;
use crate::gateway_api::policy::{
    GatewaysOf, TargetOf, TlsPoliciesOf, Trust, in_force, is_ignored, section, tls_of_xbackend,
    trust,
};
use crate::reader::Reader;
use crate::strata::Routes;

/// As many ancestors as a policy has room for.
const ANCESTORS: usize = 16;
/// As many parents as an XBackend has room for.
const PARENTS: usize = 32;

const ACCEPTED: &str = "Accepted";
const RESOLVED_REFS: &str = "ResolvedRefs";

/// What is reported about a BackendTLSPolicy: an entry for each target, then one for each Gateway that sends requests there.
///
/// The specification wants a policy with more entries than there is room for not to be applied. As in Istio, the last
/// Gateways are left out instead: what holds for them stands in the entries of the targets.
pub(super) fn backend_tls(read: &Reader<'_, '_, Routes>, name: &ObjectName) -> Option<Value> {
    let features = &read.settings().features;
    let policy = read.get::<BackendTlsPolicy>(name)?;
    if !features.gateway_api {
        return None;
    }
    let generation = policy.meta.generation;
    let refs = policy.spec.target_refs.iter().take(ANCESTORS);
    if is_ignored(&policy.meta.annotations) {
        let entries =
            refs.map(|to| ancestor(target_ref(to), MESH_CONTROLLER, &ignored(), generation));
        return Some(ancestors(entries));
    }
    let mut trust = trust(read, &name.namespace, &policy.spec.validation);
    if let (Some(fault), Some(closed)) = (&mut trust.fault, &policy.meta.closed) {
        fault.message = format!("{}: {}", closed.path, closed.why);
    }
    let of_trust = conditions_of(&trust);
    let mut entries = Vec::new();
    // What is reported to a Gateway of several targets is about the first of them that has something wrong.
    let mut gateways: BTreeMap<ObjectName, Conditions> = BTreeMap::new();
    for to in refs {
        let (target, conditions) = of_target(read, name, to, of_trust.clone());
        entries.push(ancestor(
            target_ref(to),
            MESH_CONTROLLER,
            &conditions,
            generation,
        ));
        let Some(target) = target else { continue };
        for gateway in read.derived(GatewaysOf(target)).iter() {
            let told = gateways
                .entry(gateway.clone())
                .or_insert_with(|| conditions.clone());
            if *told == of_trust {
                told.clone_from(&conditions);
            }
        }
    }
    let controller = features.gateway_controller.as_str();
    let of_gateways = gateways
        .iter()
        .map(|(gateway, told)| ancestor(gateway_ref(gateway), controller, told, generation));
    Some(ancestors(entries.into_iter().chain(of_gateways)))
}

/// What is reported about an XBackendTrafficPolicy: an entry for each target.
pub(super) fn backend_traffic(read: &Reader<'_, '_, Routes>, name: &ObjectName) -> Option<Value> {
    let features = &read.settings().features;
    let policy = read.get::<XBackendTrafficPolicy>(name)?;
    if !features.gateway_api || !features.alpha_gateway_api {
        return None;
    }
    let message = match policy.spec.session_persistence {
        None => "the policy is in force",
        Some(_) => "the policy is in force, but for sessionPersistence, which is not supported",
    };
    let is_ignored = is_ignored(&policy.meta.annotations);
    let entries = policy.spec.target_refs.iter().map(|to| {
        let mut conditions = Conditions::default();
        if is_ignored {
            conditions = ignored();
        } else if let Err(missing) = traffic_target(read, &name.namespace, to) {
            conditions.fails(ACCEPTED, "TargetNotFound", missing);
        } else {
            conditions.holds(ACCEPTED, "Accepted", message);
        }
        let to = json!({ "group": *to.group, "kind": *to.kind, "name": *to.name });
        ancestor(to, MESH_CONTROLLER, &conditions, policy.meta.generation)
    });
    Some(ancestors(entries))
}

/// What is reported about an XBackend: an entry of its own, for the mesh, and one for each Gateway that sends requests there.
pub(super) fn xbackend(read: &Reader<'_, '_, Routes>, name: &ObjectName) -> Option<Value> {
    let (backend, host) = in_force(read, name)?;
    let mut conditions = Conditions::default();
    conditions.holds(ACCEPTED, "Accepted", "the backend is in force");
    conditions.holds(RESOLVED_REFS, "ResolvedRefs", "all references are resolved");
    match host.and_then(|host| tls_of_xbackend(read, &backend, &host)) {
        Ok(tls) => {
            if let Some(trust) = tls {
                conditions = conditions_of(&trust);
            }
        }
        Err(wrong) => conditions.fails(ACCEPTED, "Invalid", wrong),
    }
    let key = ObjectKey {
        kind: Kind::XBackend,
        name: name.clone(),
    };
    let itself = json!({
        "group": key.kind.group(),
        "kind": key.kind.name(),
        "name": *name.name,
    });
    let gateways = read.derived(GatewaysOf(key));
    let controller = read.settings().features.gateway_controller.as_str();
    let of_gateways = gateways
        .iter()
        .map(|gateway| (gateway_ref(gateway), controller));
    let entries = std::iter::once((itself, MESH_CONTROLLER)).chain(of_gateways);
    let entries = entries.take(PARENTS).map(|(parent, controller)| {
        json!({
            "parentRef": parent,
            "controllerName": controller,
            "conditions": conditions.list(backend.meta.generation),
        })
    });
    Some(json!({ "parents": entries.collect::<Vec<_>>() }))
}

/// The target of a policy, if it is there, and what is reported about the policy there.
fn of_target(
    read: &Reader<'_, '_, Routes>,
    policy: &ObjectName,
    to: &PolicyTargetRef,
    mut conditions: Conditions,
) -> (Option<ObjectKey>, Conditions) {
    let Some(target) = target_key(&policy.namespace, &to.group, &to.kind, &to.name) else {
        let message = format!("a {} is nothing that the policy can be about", to.kind);
        conditions.fails(ACCEPTED, "TargetNotFound", message);
        return (None, conditions);
    };
    let backend = read.derived(TargetOf(target.clone()));
    let Some(backend) = backend.as_ref() else {
        conditions.fails(ACCEPTED, "TargetNotFound", format!("there is no {target}"));
        return (None, conditions);
    };
    let section = section(to);
    if let Some(port) = section.filter(|port| !backend.ports.contains_key(*port)) {
        let message = format!("{target} has no port named {port:?}");
        conditions.fails(ACCEPTED, "TargetNotFound", message);
        return (None, conditions);
    }
    let winners = read.derived(TlsPoliciesOf(target.clone()));
    if let Some(winner) = winners
        .get(&section.cloned())
        .filter(|winner| *winner != policy)
    {
        let created = |name: &ObjectName| {
            let policy = read.get::<BackendTlsPolicy>(name);
            policy.map_or_else(Age::default, |policy| policy.meta.created)
        };
        let why = created(winner).why_before(created(policy));
        let message = format!(
            "BackendTLSPolicy {} {why} and is about the same",
            winner.name
        );
        conditions.fails(ACCEPTED, "Conflicted", message);
    }
    (Some(target), conditions)
}

/// What a policy can be about.
fn target_key(namespace: &Namespace, group: &str, kind: &str, name: &str) -> Option<ObjectKey> {
    let kind = Kind::find(group, kind)?;
    let name = ObjectName::new(namespace.clone(), name);
    matches!(kind, Kind::Service | Kind::ServiceEntry).then_some(ObjectKey { kind, name })
}

/// Whether the Service of an XBackendTrafficPolicy is there.
fn traffic_target(
    read: &Reader<'_, '_, Routes>,
    namespace: &Namespace,
    to: &LocalObjectRef,
) -> Result<(), String> {
    let target = target_key(namespace, &to.group, &to.kind, &to.name);
    let Some(target) = target.filter(|target| target.kind == Kind::Service) else {
        return Err(format!(
            "a {} is nothing that the policy can be about",
            to.kind
        ));
    };
    match read.derived(TargetOf(target.clone())).as_ref() {
        Some(_) => Ok(()),
        None => Err(format!("there is no {target}")),
    }
}

fn conditions_of(trust: &Trust) -> Conditions {
    let mut conditions = Conditions::default();
    let accepted = match trust.has_more {
        false => "the policy is in force",
        true => "the policy is in force, with the first of caCertificateRefs alone",
    };
    conditions.holds(ACCEPTED, "Accepted", accepted);
    conditions.holds(RESOLVED_REFS, "ResolvedRefs", "all references are resolved");
    if let Some(fault) = &trust.fault {
        conditions.fails(ACCEPTED, fault.accepted, fault.message.clone());
        if let Some(reason) = fault.resolved {
            conditions.fails(RESOLVED_REFS, reason, fault.message.clone());
        }
    }
    conditions
}

fn ignored() -> Conditions {
    let mut conditions = Conditions::default();
    let message = "ignored because of the annotation istio.io/ignore-policy-attachment";
    conditions.fails(ACCEPTED, "IgnoredByIstio", message);
    conditions
}

fn target_ref(to: &PolicyTargetRef) -> Value {
    let mut reference = json!({ "group": *to.group, "kind": *to.kind, "name": *to.name });
    if let Some(section) = &to.section_name {
        reference["sectionName"] = Value::from(&**section);
    }
    reference
}

fn gateway_ref(gateway: &ObjectName) -> Value {
    json!({
        "group": Kind::KubeGateway.group(),
        "kind": Kind::KubeGateway.name(),
        "namespace": *gateway.namespace,
        "name": *gateway.name,
    })
}

fn ancestor(reference: Value, controller: &str, conditions: &Conditions, generation: i64) -> Value {
    json!({
        "ancestorRef": reference,
        "controllerName": controller,
        "conditions": conditions.list(generation),
    })
}

fn ancestors(entries: impl Iterator<Item = Value>) -> Value {
    json!({ "ancestors": entries.take(ANCESTORS).collect::<Vec<_>>() })
}
