//! Why a route may not attach.

use std::sync::Arc;

use model::kinds::gateway_api::ParentRef;
use model::{Kind, Namespace, ObjectKey, host};

use super::super::limits;
use super::super::listener::Listener;
use crate::budget;

/// Why a route may not attach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    /// The reason of the condition `Accepted`.
    pub reason: RefusedReason,
    /// For people.
    pub message: Arc<str>,
}

/// A reason why a route may not attach, the one that outweighs the others first.
///
/// Istio: pilot/pkg/config/kube/gateway/conditions.go createRouteStatus, 1.32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum RefusedReason {
    /// It would make too much.
    UnsupportedValue,
    /// It would make more than is left of the budget of its namespace.
    OverBudget,
    /// All of its hosts there belong to other namespaces.
    HostsOfOthers,
    /// Its kind or namespace is not allowed.
    NotAllowedByListeners,
    /// None of its hosts is one of the listener.
    NoMatchingListenerHostname,
    /// The listener is there and not served.
    ListenerNotServed,
    /// The parent, section or port is not there.
    NoMatchingParent,
}

impl RefusedReason {
    /// Its name in conditions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::UnsupportedValue | Self::OverBudget => "UnsupportedValue",
            Self::NotAllowedByListeners => "NotAllowedByListeners",
            // The API has no reason of its own for it.
            Self::HostsOfOthers | Self::NoMatchingListenerHostname => "NoMatchingListenerHostname",
            Self::ListenerNotServed | Self::NoMatchingParent => "NoMatchingParent",
        }
    }
}

fn refused(reason: RefusedReason, message: String) -> Option<Refused> {
    Some(Refused {
        reason,
        message: message.into(),
    })
}

/// Why a route may not attach to a listener by a reference, if it may not.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go referenceAllowed, 1.32.
pub(super) fn at_listener(
    route: &ObjectKey,
    hostnames: &[Arc<str>],
    reference: &ParentRef,
    listener: &Listener,
) -> Option<Refused> {
    let section = reference.section_name.as_ref();
    let is_section = section.is_none_or(|section| *section == listener.section);
    if !is_section || reference.port.is_some_and(|port| port != listener.port) {
        let mut message = "it has no listener".to_owned();
        if let Some(section) = section {
            message.push_str(&format!(" named {section}"));
        }
        if let Some(port) = reference.port {
            message.push_str(&format!(" on port {port}"));
        }
        return refused(RefusedReason::NoMatchingParent, message);
    }
    if let Some(why) = &listener.refused {
        return refused(RefusedReason::ListenerNotServed, why.to_string());
    }
    let namespace = &route.name.namespace;
    if let Some(refused) = by_host(hostnames, namespace, listener) {
        return Some(refused);
    }
    by_kind(route.kind, listener)
}

/// One of the hosts must be one of the listener and in a namespace that it allows.
fn by_host(hostnames: &[Arc<str>], namespace: &Namespace, listener: &Listener) -> Option<Refused> {
    if listener.hosts.is_empty() {
        return None;
    }
    let mut meets = false;
    for server_host in &listener.hosts {
        let (of, server_host) = server_host.split_once('/').unwrap_or(("*", server_host));
        if !hostnames.iter().any(|own| host::matches(server_host, own)) {
            continue;
        }
        if of == "*" || *of == **namespace {
            return None;
        }
        meets = true;
    }
    let section = &listener.section;
    if meets {
        let message = format!("listener {section} allows no routes of the namespace {namespace}");
        return refused(RefusedReason::NotAllowedByListeners, message);
    }
    let message = format!(
        "none of the route's hosts is a host of listener {section}, which serves {:?}",
        listener.hostname
    );
    refused(RefusedReason::NoMatchingListenerHostname, message)
}

fn by_kind(kind: Kind, listener: &Listener) -> Option<Refused> {
    if listener.kinds.contains(&kind) {
        return None;
    }
    let message = match kind {
        Kind::UdpRoute => "no listener serves UDP".to_owned(),
        _ => format!("listener {} takes no {}s", listener.section, kind.name()),
    };
    refused(RefusedReason::NotAllowedByListeners, message)
}

/// The parent is not there.
pub(super) fn no_parent(parent: &ObjectKey) -> Option<Refused> {
    let message = format!("there is no {parent}");
    refused(RefusedReason::NoMatchingParent, message)
}

/// Services are routed to by all kinds of routes but one.
pub(super) fn at_service(kind: Kind) -> Option<Refused> {
    if kind != Kind::UdpRoute {
        return None;
    }
    let message = "the mesh does not route UDP".to_owned();
    refused(RefusedReason::NotAllowedByListeners, message)
}

/// Nothing of the namespace's budget is left for the route.
pub(super) fn over_budget(route: &ObjectKey) -> Refused {
    Refused {
        reason: RefusedReason::OverBudget,
        message: budget::reason(route).into(),
    }
}

/// The route would be copied too often.
pub(super) fn too_much(copies: usize, weight: usize) -> Refused {
    let message = format!(
        "its rules weigh {weight} bytes and would be copied {copies} times, for each host and listener; {} MiB are allowed",
        limits::COPIED_BYTES >> 20
    );
    Refused {
        reason: RefusedReason::UnsupportedValue,
        message: message.into(),
    }
}
