//! Which object a fault is reported at.

use std::sync::Arc;

use incr::Cx;
use judge::Fault;
use mesh::finding::code;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::kinds::gateway_api::{GrpcRoute, HttpRoute};
use model::kinds::istio::VirtualService;
use model::object::{ObjectKey, ObjectName};
use store::{Reads, Snapshot};

/// The finding about a value that Envoy would refuse: what came of it, and why.
pub(crate) fn finding(object: Option<ObjectKey>, effect: &str, fault: &Fault) -> Diagnostic {
    let why = format!("{effect}: Envoy would refuse {fault}");
    Diagnostic {
        object,
        ..Diagnostic::new(code::REFUSED_BY_ENVOY, Severity::Error, why)
    }
}

/// The object whose route it is that a rule has under that name: the rule, or what it was made from.
pub(crate) fn of_rule(cx: &Cx<'_, Snapshot>, rule: &ObjectName, route: &str) -> ObjectKey {
    let object = cx.get::<VirtualService>(rule);
    let derived = object.iter().filter_map(|rule| rule.meta.derived.as_ref());
    let from: Vec<&ObjectKey> = derived.flat_map(|derived| derived.from.iter()).collect();
    // Translators name routes after what they were made from.
    let named = from.iter().find(|key| {
        let ObjectName {
            namespace, name, ..
        } = &key.name;
        let rest = route.strip_prefix(&**namespace);
        let rest = rest.and_then(|rest| rest.strip_prefix(['/', '.'])?.strip_prefix(&**name));
        *route == **name || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    let by_rule = || from.iter().find(|key| rule_of(cx, key, route).is_some());
    match named.or_else(by_rule).or(from.first()) {
        Some(key) => (*key).clone(),
        None => ObjectKey {
            kind: Kind::VirtualService,
            name: rule.clone(),
        },
    }
}

/// The place of the rule of a route of the Gateway API from which a route of that name was made.
pub(crate) fn rule_of(cx: &Cx<'_, Snapshot>, object: &ObjectKey, route: &str) -> Option<usize> {
    let ObjectName {
        namespace, name, ..
    } = &object.name;
    let is_named = |rule: Option<&Arc<str>>| rule.is_some_and(|rule| **rule == *route);
    let (named, count) = match object.kind {
        Kind::HttpRoute => {
            let object = cx.get::<HttpRoute>(&object.name)?;
            let mut rules = object.spec.rules.iter();
            let named = rules.position(|rule| is_named(rule.name.as_ref()));
            (named, object.spec.rules.len())
        }
        Kind::GrpcRoute => {
            let object = cx.get::<GrpcRoute>(&object.name)?;
            let mut rules = object.spec.rules.iter();
            let named = rules.position(|rule| is_named(rule.name.as_ref()));
            (named, object.spec.rules.len())
        }
        _ => return None,
    };
    named.or_else(|| {
        let place = route.strip_prefix(&format!("{namespace}.{name}."))?;
        place.parse().ok().filter(|place| *place < count)
    })
}
