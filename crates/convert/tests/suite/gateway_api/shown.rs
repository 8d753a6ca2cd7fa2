//! Objects and statuses as they are compared: by place, in no order, without times and messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::derived::{GatewayRole, Semantics};
use model::{AnyObject, Kind};
use pilothouse_convert::status::Status;
use serde_json::{Map, Value, json};

/// What stands at each place.
pub(crate) type Places = BTreeMap<String, Value>;

/// A derived object.
pub(crate) fn made(object: &AnyObject) -> (String, Value) {
    let derived = object.meta().derived.as_deref();
    let kind = object.kind();
    let from = derived.iter().flat_map(|derived| derived.from.iter());
    let from: BTreeSet<String> = match kind {
        Kind::Gateway => from.take(1).map(ToString::to_string).collect(),
        _ => from
            .filter(|key| is_parent(key.kind, kind))
            .map(ToString::to_string)
            .collect(),
    };
    let role = derived.and_then(|derived| match &derived.semantics {
        Semantics::GatewayApi(role) => Some(role),
        Semantics::Istio | Semantics::Ingress | Semantics::Edge => None,
    });
    shown(object, from, role)
}

/// A derived object as it was recorded: Istio says in annotations what is typed here.
pub(crate) fn recorded(object: &AnyObject) -> (String, Value) {
    let kind = object.kind();
    let mark = |name: &str| {
        let annotations = &object.meta().annotations;
        annotations.get(&format!("internal.istio.io/{name}"))
    };
    let from = mark("parents").into_iter().flat_map(|list| list.split(','));
    let from = from.filter_map(|parent| {
        let (parent_kind, name) = parent.split_once('/')?;
        Some(match kind {
            Kind::DestinationRule => {
                let (namespace, name) = name.split_once('.')?;
                format!("{parent_kind} {namespace}/{name}")
            }
            _ => {
                let (name, namespace) = name.rsplit_once('.')?;
                // The listener of a Gateway is a part of its name.
                let name = name.split('/').next()?;
                format!("{parent_kind} {namespace}/{name}")
            }
        })
    });
    let marked = mark("gateway-semantics").or(mark("route-semantics"));
    let role = marked.map(|_| GatewayRole {
        services: mark("gateway-service").map(|hosts| hosts.split(',').map(Arc::from).collect()),
        parent_namespace: mark("parent-namespace").map(Into::into),
        service_account: mark("service-account-name").map(Into::into),
    });
    shown(object, from.collect(), role.as_ref())
}

fn shown(
    object: &AnyObject,
    from: BTreeSet<String>,
    role: Option<&GatewayRole>,
) -> (String, Value) {
    let service_account = role.and_then(|role| role.service_account.as_deref());
    let mut shown = json!({
        "spec": without_default_match(object.spec_json()),
        "from": from,
        "services": role.and_then(|role| role.services.clone()),
        "parent namespace": role.and_then(|role| role.parent_namespace.as_deref().map(str::to_owned)),
        "service account": service_account.filter(|name| !name.is_empty()),
    });
    // Istio marks no DestinationRule.
    if object.kind() != Kind::DestinationRule {
        shown["of the Gateway API"] = role.is_some().into();
    }
    let name = format!("{} {}", object.kind().name(), object.meta().name);
    (name, shown)
}

/// Whether Istio names objects of the kind where it says what an object of the kind `made` was made of.
fn is_parent(kind: Kind, made: Kind) -> bool {
    match made {
        Kind::VirtualService => matches!(
            kind,
            Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute
        ),
        _ => matches!(
            kind,
            Kind::BackendTlsPolicy | Kind::XBackendTrafficPolicy | Kind::XBackend
        ),
    }
}

/// Istio's cases go around the API, which gives a rule of an HTTPRoute that matches nothing in particular the prefix `/`.
fn without_default_match(mut spec: Value) -> Value {
    let routes = spec["http"].as_array_mut();
    for route in routes.into_iter().flatten() {
        let Some(matches) = route.get_mut("match").and_then(Value::as_array_mut) else {
            continue;
        };
        for matched in &mut *matches {
            if matched.get("uri") == Some(&json!({"prefix": "/"})) {
                matched.as_object_mut().unwrap().remove("uri");
            }
        }
        if matches.iter().all(|matched| *matched == json!({})) {
            route.as_object_mut().unwrap().remove("match");
        }
    }
    spec
}

/// The places of a status, below the name of its object.
pub(crate) fn status(status: &Status) -> Places {
    let mut found = Places::new();
    walk(&status.object.to_string(), &status.status, &mut found);
    found
}

/// A status as it was recorded.
pub(crate) fn recorded_status(document: &Value) -> Places {
    let text = |key: &str| document["metadata"][key].as_str().unwrap_or_default();
    let name = match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    };
    let kind = document["kind"].as_str().unwrap();
    let mut found = Places::new();
    walk(&format!("{kind} {name}"), &document["status"], &mut found);
    found
}

fn walk(at: &str, value: &Value, found: &mut Places) {
    match value {
        Value::Object(fields) if fields.contains_key("type") && fields.contains_key("status") => {
            let of = |key: &str| fields.get(key).cloned().unwrap_or_default();
            insert(
                at,
                json!({"status": of("status"), "reason": of("reason")}),
                found,
            );
        }
        Value::Object(fields) => {
            // Go leaves out what is empty.
            let is_empty = |name: &str, value: &Value| match name {
                "listeners" => value == &json!([]),
                "attachedListenerSets" => value == &json!(0),
                _ => false,
            };
            for (name, value) in fields.iter().filter(|(name, value)| !is_empty(name, value)) {
                walk(&format!("{at} {name}"), value, found);
            }
        }
        Value::Array(list) if list.iter().any(|item| key(item).is_some()) => {
            for (index, item) in list.iter().enumerate() {
                let key = key(item).unwrap_or_else(|| index.to_string());
                walk(&format!("{at}[{key}]"), &without_key(item), found);
            }
        }
        leaf => insert(at, leaf.clone(), found),
    }
}

fn insert(at: &str, value: Value, found: &mut Places) {
    let mut place = at.to_owned();
    for number in 2.. {
        if !found.contains_key(&place) {
            break;
        }
        place = format!("{at} #{number}");
    }
    found.insert(place, value);
}

/// What tells an item of a list from the others.
fn key(item: &Value) -> Option<String> {
    for name in ["parentRef", "ancestorRef"] {
        if let Some(reference) = item[name].as_object() {
            // What the API defaults, the cases leave out.
            let default = [
                ("group", json!("gateway.networking.k8s.io")),
                ("kind", json!("Gateway")),
            ];
            let mut sorted: BTreeMap<&str, &Value> =
                default.iter().map(|(name, value)| (*name, value)).collect();
            sorted.extend(reference.iter().map(|(name, value)| (name.as_str(), value)));
            let parts = sorted.iter().map(|(name, value)| format!("{name}={value}"));
            let parts: Vec<String> = parts.collect();
            let by = item["controllerName"].as_str().unwrap_or_default();
            return Some(format!("{} {by}", parts.join(",").replace('"', "")));
        }
    }
    // Addresses have a type and a value, kinds a group and a kind: such lists are compared whole.
    let is_condition = item["status"].is_string();
    let name = if is_condition { "type" } else { "name" };
    item[name].as_str().map(str::to_owned)
}

fn without_key(item: &Value) -> Value {
    let Some(fields) = item.as_object() else {
        return item.clone();
    };
    let kept = fields.iter().filter(|(name, _)| {
        !matches!(
            name.as_str(),
            "parentRef" | "ancestorRef" | "controllerName" | "name"
        )
    });
    let kept: Map<String, Value> = kept.map(|(k, v)| (k.clone(), v.clone())).collect();
    Value::Object(kept)
}
