//! What objects of the Gateway API refer to.

use std::sync::Arc;

use incr::Cx;
use model::kinds::Kinded;
use model::kinds::gateway_api::{
    BackendTlsPolicy, Gateway, GrpcRoute, HttpRoute, InferencePool, Listener, ListenerSet,
    ParentRef, ReferenceGrant, SecretRef, StreamRule, TcpRoute, TlsRoute, UdpRoute, XBackend,
    XBackendTrafficPolicy,
};
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::{Secret, Service};
use model::{Namespace, Object, ObjectName};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::hosts;
use crate::facts::several;
use crate::finding::Report;

const GROUP: &str = "gateway.networking.k8s.io";
const X_GROUP: &str = "gateway.networking.x-k8s.io";
const POOL_GROUP: &str = "inference.networking.k8s.io";

/// An object that takes requests, as the different routes name it.
struct Backend<'a> {
    group: &'a str,
    kind: &'a str,
    name: &'a str,
    namespace: Option<&'a Arc<str>>,
    port: Option<u16>,
}

macro_rules! backend {
    ($of:expr) => {
        Backend {
            group: &$of.group,
            kind: &$of.kind,
            name: &$of.name,
            namespace: $of.namespace.as_ref(),
            port: $of.port,
        }
    };
}

pub(crate) fn http(cx: &Cx<'_, Snapshot>, route: &Object<HttpRoute>, report: &mut Report<'_>) {
    parents(cx, route, &route.spec.parent_refs, report);
    for (i, rule) in route.spec.rules.iter().enumerate() {
        for (j, of) in rule.backend_refs.iter().enumerate() {
            let path = format!("spec.rules[{i}].backendRefs[{j}]");
            leads(cx, route, &backend!(of), path, report);
        }
        for (j, filter) in rule.filters.iter().enumerate() {
            if let Some(mirror) = &filter.request_mirror {
                let path = format!("spec.rules[{i}].filters[{j}].requestMirror.backendRef");
                leads(cx, route, &backend!(mirror.backend_ref), path, report);
            }
        }
    }
}

pub(crate) fn grpc(cx: &Cx<'_, Snapshot>, route: &Object<GrpcRoute>, report: &mut Report<'_>) {
    parents(cx, route, &route.spec.parent_refs, report);
    for (i, rule) in route.spec.rules.iter().enumerate() {
        for (j, of) in rule.backend_refs.iter().enumerate() {
            let path = format!("spec.rules[{i}].backendRefs[{j}]");
            leads(cx, route, &backend!(of), path, report);
        }
    }
}

macro_rules! stream_routes {
    ($($kind:ident: $function:ident;)+) => {$(
        pub(crate) fn $function(cx: &Cx<'_, Snapshot>, route: &Object<$kind>, report: &mut Report<'_>) {
            parents(cx, route, &route.spec.parent_refs, report);
            streams(cx, route, &route.spec.rules, report);
        }
    )+};
}

stream_routes! {
    TlsRoute: tls;
    TcpRoute: tcp;
    UdpRoute: udp;
}

fn streams<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    route: &Object<T>,
    rules: &[StreamRule],
    report: &mut Report<'_>,
) {
    for (i, rule) in rules.iter().enumerate() {
        for (j, of) in rule.backend_refs.iter().enumerate() {
            let path = format!("spec.rules[{i}].backendRefs[{j}]");
            leads(cx, route, &backend!(of), path, report);
        }
    }
}

fn home(stated: Option<&Arc<str>>, own: &Namespace) -> Namespace {
    stated.map_or_else(|| own.clone(), |n| Namespace::from(&**n))
}

fn parents<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    route: &Object<T>,
    parents: &[ParentRef],
    report: &mut Report<'_>,
) {
    for (i, parent) in parents.iter().enumerate() {
        let name = name_of(parent, route.namespace());
        let path = format!("spec.parentRefs[{i}]");
        let Some(found) = listeners_of(cx, parent, &name) else {
            continue;
        };
        let Some(listeners) = found else {
            no_parent(route, path, (&parent.kind, &name), report);
            continue;
        };
        if let Some(section) = missing_section(parent, &listeners) {
            report
                .add(
                    route,
                    &code::PARENT_NOT_FOUND,
                    format!("{path}.sectionName"),
                    format!("the {} {name} has no listener {section}", parent.kind),
                )
                .help(format!("its listeners are {}", several(&listeners)));
        }
    }
}

/// Whether the parent is there that a route of that namespace names, with the listener that it names.
pub(super) fn is_there(cx: &Cx<'_, Snapshot>, namespace: &Namespace, parent: &ParentRef) -> bool {
    let found = listeners_of(cx, parent, &name_of(parent, namespace)).flatten();
    found.is_some_and(|listeners| missing_section(parent, &listeners).is_none())
}

fn name_of(parent: &ParentRef, namespace: &Namespace) -> ObjectName {
    ObjectName::new(
        home(parent.namespace.as_ref(), namespace),
        parent.name.clone(),
    )
}

/// The listeners of a parent of that name, if it is there; `None` where it is of a kind that cannot be a parent.
fn listeners_of(
    cx: &Cx<'_, Snapshot>,
    parent: &ParentRef,
    name: &ObjectName,
) -> Option<Option<Vec<Arc<str>>>> {
    Some(match (&*parent.group, &*parent.kind) {
        (GROUP, "Gateway") => cx.get::<Gateway>(name).map(|g| names(&g.spec.listeners)),
        (GROUP, "ListenerSet") => cx
            .get::<ListenerSet>(name)
            .map(|s| names(&s.spec.listeners)),
        ("", "Service") => cx.get::<Service>(name).map(|_| Vec::new()),
        ("networking.istio.io", "ServiceEntry") => cx.get::<ServiceEntry>(name).map(|_| Vec::new()),
        _ => return None,
    })
}

/// The listener that a reference names, where the parent has no such listener.
fn missing_section<'a>(parent: &'a ParentRef, listeners: &[Arc<str>]) -> Option<&'a str> {
    let section = parent.section_name.as_deref();
    section.filter(|s| &*parent.group == GROUP && !listeners.iter().any(|l| **l == **s))
}

fn names(listeners: &[Listener]) -> Vec<Arc<str>> {
    listeners.iter().map(|l| l.name.clone()).collect()
}

fn leads<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    route: &Object<T>,
    backend: &Backend<'_>,
    path: String,
    report: &mut Report<'_>,
) {
    let namespace = home(backend.namespace, route.namespace());
    let name = ObjectName::new(namespace, backend.name);
    // Its ports, as far as they are known.
    let found: Option<Option<Vec<u32>>> = match (backend.group, backend.kind) {
        ("", "Service") => cx.get::<Service>(&name).map(|service| {
            alias(cx, route, &service, &path, report);
            let port = backend.port.map(u32::from);
            if let Some((host, ports)) =
                port.and_then(|port| hosts::alias_lacks(cx, route.namespace(), &service, port))
            {
                let message = format!(
                    "the Service {name} is an alias of {host}, which has no port {}",
                    port.unwrap_or_default()
                );
                report
                    .add(
                        route,
                        &code::BACKEND_NOT_FOUND,
                        format!("{path}.port"),
                        message,
                    )
                    .help(format!("its ports are {}", several(&ports)));
            }
            hosts::ports_of(&service)
        }),
        (X_GROUP, "XBackend") => cx
            .get::<XBackend>(&name)
            .map(|b| Some(vec![u32::from(b.spec.port.port)])),
        // The port of a reference to a pool means nothing.
        (POOL_GROUP, "InferencePool") => cx.get::<InferencePool>(&name).map(|_| None),
        ("networking.istio.io", "Hostname") => {
            hosts::find(cx, route.namespace(), &[], backend.name).map(|d| d.ports)
        }
        _ => return,
    };
    let Some(ports) = found else {
        report
            .add(
                route,
                &code::BACKEND_NOT_FOUND,
                path,
                format!("there is no {} {}", backend.kind, shown(backend, &name)),
            )
            .help("requests that the rule sends there get 500");
        return;
    };
    if let (Some(port), Some(ports)) = (backend.port, ports)
        && !ports.contains(&u32::from(port))
    {
        report
            .add(
                route,
                &code::BACKEND_NOT_FOUND,
                format!("{path}.port"),
                format!("{} has no port {port}", shown(backend, &name)),
            )
            .help(format!("its ports are {}", several(&ports)));
    }
    if matches!(backend.kind, "Service" | "InferencePool") {
        let kind = T::KIND;
        granted(
            cx,
            route,
            (kind.group(), kind.name()),
            (backend.group, backend.kind),
            &name,
            path,
            report,
        );
    }
}

/// Reports a backend of the type ExternalName that leads to a host which no proxy knows.
fn alias<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    route: &Object<T>,
    service: &Object<Service>,
    path: &str,
    report: &mut Report<'_>,
) {
    let Some(host) = hosts::unknown_alias(cx, route.namespace(), service) else {
        return;
    };
    report
        .add(
            route,
            &code::BACKEND_NOT_FOUND,
            path,
            format!(
                "the Service {} is an alias of {host}, which neither a Service nor a ServiceEntry has as its host",
                service.meta.name
            ),
        )
        .help(format!(
            "add a ServiceEntry with the host {host}, the port and `resolution: DNS`; until then requests that the rule sends there get 500"
        ));
}

fn shown(backend: &Backend<'_>, name: &ObjectName) -> String {
    match backend.kind {
        "Hostname" => backend.name.to_owned(),
        _ => name.to_string(),
    }
}

/// Reports a reference into another namespace that no ReferenceGrant there allows.
fn granted<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    object: &Object<T>,
    from: (&str, &str),
    to: (&str, &str),
    name: &ObjectName,
    path: String,
    report: &mut Report<'_>,
) {
    if name.namespace == *object.namespace() {
        return;
    }
    let grants = cx.list_in::<ReferenceGrant>(&name.namespace);
    let allowed = grants.iter().any(|grant| {
        let spec = &grant.spec;
        spec.from
            .iter()
            .any(|f| (&*f.group, &*f.kind) == from && *f.namespace == *object.namespace().as_str())
            && spec.to.iter().any(|t| {
                (&*t.group, &*t.kind) == to
                    && t.name.as_ref().is_none_or(|n| **n == *name.name.as_str())
            })
    });
    if !allowed {
        report
            .add(
                object,
                &code::REFERENCE_NOT_GRANTED,
                path,
                format!(
                    "{} {name} may not be referred to from {}",
                    to.1,
                    object.namespace()
                ),
            )
            .help(format!(
                "create a ReferenceGrant in {} that lets {} of {} refer to it",
                name.namespace,
                from.1,
                object.namespace()
            ));
    }
}

fn no_parent<T: Kinded>(
    object: &Object<T>,
    path: String,
    (kind, name): (&str, &ObjectName),
    report: &mut Report<'_>,
) {
    let message = format!("there is no {kind} {name}");
    report
        .add(object, &code::PARENT_NOT_FOUND, path, message)
        .help(format!(
            "correct name and namespace; until then the {} is attached to nothing",
            T::KIND.name()
        ));
}

pub(crate) fn gateway(cx: &Cx<'_, Snapshot>, object: &Object<Gateway>, report: &mut Report<'_>) {
    certificates(cx, object, &object.spec.listeners, report);
}

pub(crate) fn listener_set(
    cx: &Cx<'_, Snapshot>,
    object: &Object<ListenerSet>,
    report: &mut Report<'_>,
) {
    let gateway = object.spec.parent_ref.key(object.namespace());
    if let Some(gateway) = gateway.filter(|key| cx.get::<Gateway>(&key.name).is_none()) {
        let named = (gateway.kind.name(), &gateway.name);
        no_parent(object, "spec.parentRef".to_owned(), named, report);
    }
    certificates(cx, object, &object.spec.listeners, report);
}

fn certificates<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    object: &Object<T>,
    listeners: &[Listener],
    report: &mut Report<'_>,
) {
    for (i, listener) in listeners.iter().enumerate() {
        let Some(tls) = &listener.tls else { continue };
        for (
            j,
            SecretRef {
                group,
                kind,
                name,
                namespace,
            },
        ) in tls.certificate_refs.iter().enumerate()
        {
            if !group.is_empty() || &**kind != "Secret" {
                continue;
            }
            let name = ObjectName::new(home(namespace.as_ref(), object.namespace()), name.clone());
            let path = format!("spec.listeners[{i}].tls.certificateRefs[{j}]");
            if cx.get::<Secret>(&name).is_none() {
                report
                    .add(
                        object,
                        &code::SECRET_NOT_FOUND,
                        path,
                        format!("there is no Secret {name}"),
                    )
                    .help("the listener refuses connections until the Secret exists");
                continue;
            }
            let kind = T::KIND;
            granted(
                cx,
                object,
                (kind.group(), kind.name()),
                ("", "Secret"),
                &name,
                path,
                report,
            );
        }
    }
}

pub(crate) fn backend_tls_policy(
    cx: &Cx<'_, Snapshot>,
    object: &Object<BackendTlsPolicy>,
    report: &mut Report<'_>,
) {
    let targets = object.spec.target_refs.iter();
    targets_of(
        cx,
        object,
        targets.map(|t| (&*t.group, &*t.kind, &t.name)),
        report,
    );
}

pub(crate) fn x_backend_traffic_policy(
    cx: &Cx<'_, Snapshot>,
    object: &Object<XBackendTrafficPolicy>,
    report: &mut Report<'_>,
) {
    let targets = object.spec.target_refs.iter();
    targets_of(
        cx,
        object,
        targets.map(|t| (&*t.group, &*t.kind, &t.name)),
        report,
    );
}

/// Reports backends that a policy is for and that do not exist in its namespace.
fn targets_of<'a, T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    object: &Object<T>,
    targets: impl Iterator<Item = (&'a str, &'a str, &'a Arc<str>)>,
    report: &mut Report<'_>,
) {
    for (i, (group, kind, name)) in targets.enumerate() {
        let name = ObjectName::new(object.namespace().clone(), name.clone());
        let there = match (group, kind) {
            ("", "Service") => cx.get::<Service>(&name).is_some(),
            (X_GROUP, "XBackend") => cx.get::<XBackend>(&name).is_some(),
            _ => continue,
        };
        if !there {
            report
                .add(
                    object,
                    &code::TARGET_NOT_FOUND,
                    format!("spec.targetRefs[{i}]"),
                    format!("there is no {kind} {name}"),
                )
                .help("correct the name: a policy applies to backends of its own namespace");
        }
    }
}

/// Reports an endpoint picker that is not there.
pub(crate) fn inference_pool(
    cx: &Cx<'_, Snapshot>,
    pool: &Object<InferencePool>,
    report: &mut Report<'_>,
) {
    let picker = &pool.spec.endpoint_picker_ref;
    let Some(port) = picker.port.as_ref().filter(|_| picker.is_service()) else {
        return;
    };
    let path = "spec.endpointPickerRef";
    let name = ObjectName::new(pool.namespace().clone(), picker.name.clone());
    let Some(service) = cx.get::<Service>(&name) else {
        report
            .add(
                pool,
                &code::BACKEND_NOT_FOUND,
                path.to_owned(),
                format!("there is no Service {name}"),
            )
            .help("without it requests go to any Pod (FailOpen) or are refused (FailClose)");
        return;
    };
    let ports = service.spec.ports.iter();
    let ports: Vec<u32> = ports.filter_map(|p| u32::try_from(p.port).ok()).collect();
    if !ports.contains(&u32::from(port.number)) {
        report
            .add(
                pool,
                &code::BACKEND_NOT_FOUND,
                format!("{path}.port"),
                format!("the Service {name} has no port {}", port.number),
            )
            .help(format!("its ports are {}", several(&ports)));
    }
}
