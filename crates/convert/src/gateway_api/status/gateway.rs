//! The status of a Gateway.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go reportGatewayStatus, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use model::kinds::gateway_api::{ClientTls, Gateway, ListenerSet, ValidationMode};
use model::{Kind, Object, ObjectKey, ObjectName};
use serde_json::{Value, json};
use store::index::{ObjectIndex, reference_value};

use super::Conditions;
use super::listeners::{AttachedTo, listeners};
use super::reach::{Reach, tell_of_programming};
use crate::gateway_api::class::Controller;
use crate::gateway_api::credential::CertificateOf;
use crate::gateway_api::listener::{Built, BuiltOf, Problem, Served, not_a_secret, secret_of};
use crate::reader::{Derive, Reader};
use crate::refer::{Author, Named, may_name};
use crate::strata::Routes;

/// Which type of addresses is reported where the gateway is reached from within the cluster alone.
const ADDRESS_TYPE: &str = "networking.istio.io/address-type";

/// The status of a Gateway; `None` where it is not ours.
pub(super) fn status(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Option<Value> {
    let gateway = read.get::<Gateway>(&key.name)?;
    let built = read.derived(BuiltOf(key.clone()));
    match (*built).as_ref()? {
        Built::Remote => Some(remote(&gateway)),
        Built::Served(served) => Some(of_served(read, key, &gateway, served)),
        Built::NotAllowed(_) => None,
    }
}

/// A gateway of another cluster has the addresses that it states.
fn remote(gateway: &Object<Gateway>) -> Value {
    let mut conditions = Conditions::default();
    conditions.holds("Accepted", "Accepted", "the Gateway is valid");
    let message = "the gateway is another cluster's, and is not programmed here";
    conditions.holds("Programmed", "Programmed", message);
    let stated = gateway
        .spec
        .addresses
        .iter()
        .filter(|address| address.value.is_some());
    let addresses =
        stated.map(|address| json!({ "type": address.address_type, "value": address.value }));
    json!({
        "addresses": addresses.collect::<Vec<_>>(),
        "conditions": conditions.list(gateway.meta.generation),
        "listeners": [],
    })
}

fn of_served(
    read: &Reader<'_, '_, Routes>,
    key: &ObjectKey,
    gateway: &Object<Gateway>,
    served: &Served,
) -> Value {
    let sets = sets(read, key);
    let own = served
        .listeners
        .iter()
        .filter(|built| built.server.is_some());
    let mut ports: BTreeSet<u16> = own.map(|built| built.listener.port).collect();
    ports.extend(sets.values().flatten());
    let namespace = gateway.namespace();
    let reach = Reach::of(read, namespace, &served.services, &ports);

    let mut conditions = Conditions::default();
    tell_of_acceptance(&mut conditions, served);
    tell_of_programming(&mut conditions, &served.services, &reach);
    match client_certificate(read, gateway) {
        Some(Problem { reason, message }) => conditions.fails("ResolvedRefs", reason, message),
        None => conditions.holds("ResolvedRefs", "ResolvedRefs", "all references are good"),
    }
    if lets_in_without_certificate(gateway) {
        let message = "clients without a valid certificate are let in: `tls.frontend` says AllowInsecureFallback";
        conditions.holds(
            "InsecureFrontendValidationMode",
            "ConfigurationChanged",
            message,
        );
    }
    let attached = read.derived(AttachedTo(key.clone()));
    let mut status = json!({
        "conditions": conditions.list(gateway.meta.generation),
        "listeners": listeners(served, &attached, gateway.meta.generation),
    });
    let addresses = addresses(gateway, served.controller, &reach);
    // Once there are any they stay, as those who use them are not told when they are gone for a moment.
    if !addresses.is_empty() {
        status["addresses"] = addresses
            .iter()
            .map(|address| address_value(address))
            .collect();
    }
    if !sets.is_empty() || gateway.spec.allowed_listeners.is_some() {
        status["attachedListenerSets"] = sets.len().into();
    }
    status
}

/// The ListenerSets with a listener that the Gateway serves, and the ports of those listeners.
fn sets(read: &Reader<'_, '_, Routes>, gateway: &ObjectKey) -> BTreeMap<ObjectName, BTreeSet<u16>> {
    let names = read.names_by::<ListenerSet>(ObjectIndex::Parent, &reference_value(gateway));
    let own = names.into_iter().filter(|name| name.cluster.is_none());
    let with_ports = own.map(|name| {
        let kind = Kind::ListenerSet;
        let ports = read.derived(PortsOf(ObjectKey {
            kind,
            name: name.clone(),
        }));
        (name, (*ports).clone())
    });
    with_ports.filter(|(_, ports)| !ports.is_empty()).collect()
}

/// The ports on which listeners of a Gateway or ListenerSet are served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PortsOf(ObjectKey);

impl Derive for PortsOf {
    type Stratum = Routes;
    type Value = BTreeSet<u16>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let built = read.derived(BuiltOf(self.0.clone()));
        let Some(Built::Served(served)) = &*built else {
            return BTreeSet::new();
        };
        let valid = served
            .listeners
            .iter()
            .filter(|built| built.is_valid && built.server.is_some());
        valid.map(|built| built.listener.port).collect()
    }
}

fn tell_of_acceptance(conditions: &mut Conditions, served: &Served) {
    let (all, valid) = (
        served.listeners.len(),
        served
            .listeners
            .iter()
            .filter(|built| built.is_valid)
            .count(),
    );
    match &served.problem {
        Some(Problem { reason, message }) => conditions.fails("Accepted", reason, message.clone()),
        None if valid == all => conditions.holds("Accepted", "Accepted", "the Gateway is valid"),
        None if valid == 0 => {
            conditions.fails(
                "Accepted",
                "ListenersNotValid",
                "none of the listeners can be served",
            );
        }
        None => {
            let message = format!("{} of {all} listeners cannot be served", all - valid);
            conditions.holds("Accepted", "ListenersNotValid", message);
        }
    }
}

/// What is wrong with the certificate that the gateway is to show to backends.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go validateBackendClientCertificateRef, 1.32.
fn client_certificate(read: &Reader<'_, '_, Routes>, gateway: &Object<Gateway>) -> Option<Problem> {
    const REASON: &str = "InvalidClientCertificateRef";
    let backend = gateway.spec.tls.as_ref()?.backend.as_ref()?;
    let reference = backend.client_certificate_ref.as_ref()?;
    let Some(to) = secret_of(reference, gateway.namespace()) else {
        return Some(Problem::new(REASON, not_a_secret(reference)));
    };
    let by = Author::new(Kind::KubeGateway, &gateway.meta.name);
    if may_name(read, by, Named::Object(to.clone())).is_err() {
        // Whether it is there is reported to nobody who may not refer to it.
        let message = format!(
            "no ReferenceGrant of the namespace lets a Gateway of {} refer to {to}",
            gateway.namespace()
        );
        return Some(Problem::new("RefNotPermitted", message));
    }
    let fault = (*read.derived(CertificateOf(to.name.clone())))?;
    Some(Problem::new(REASON, format!("{to} {fault}")))
}

fn lets_in_without_certificate(gateway: &Object<Gateway>) -> bool {
    let frontend = gateway
        .spec
        .tls
        .as_ref()
        .and_then(|tls| tls.frontend.as_ref());
    let insecure = |tls: &ClientTls| {
        let validation = tls.validation.as_ref();
        validation
            .is_some_and(|validation| validation.mode == ValidationMode::AllowInsecureFallback)
    };
    frontend.is_some_and(|frontend| {
        insecure(&frontend.default) || frontend.per_port.iter().any(|of| insecure(&of.tls))
    })
}

/// The addresses at which clients reach the gateway: those from outside or, where there are none, those within the
/// cluster, by name, by IP address or both.
fn addresses(
    gateway: &Object<Gateway>,
    controller: Controller,
    reach: &Reach,
) -> BTreeSet<Arc<str>> {
    if !reach.outside.is_empty() {
        return reach.outside.clone();
    }
    let default = match controller {
        Controller::Gateway | Controller::Remote => "Hostname",
        // Their clients take the one or the other.
        Controller::Waypoint | Controller::EastWest => "",
    };
    let wanted = gateway
        .meta
        .annotations
        .get(ADDRESS_TYPE)
        .unwrap_or(default);
    let mut addresses = BTreeSet::new();
    if wanted != "Hostname" {
        addresses.extend(reach.inside.iter().cloned());
    }
    if wanted != "IPAddress" {
        addresses.extend(reach.assigned.difference(&reach.pending).cloned());
    }
    addresses
}

fn address_value(address: &str) -> Value {
    let kind = match address.parse::<IpAddr>() {
        Ok(_) => "IPAddress",
        Err(_) => "Hostname",
    };
    json!({ "type": kind, "value": address })
}
