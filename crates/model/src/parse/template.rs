//! Marks secret templates in a document, after it has taken out what could be mistaken for a mark.
//!
//! Each mark says which object asks and which gateways it names: their proxies may have values, too.

use std::sync::Arc;

use super::DEFAULT_NAMESPACE;
use super::node::{Node, Path, Step, Value};
use crate::kinds::{Kind, Scope};
use crate::names::{Namespace, gateway_name};
use crate::object::ObjectName;
use crate::template::{self, Asker, Gateways, Template};

/// So many templates of an object are told of.
const MOST_TOLD: usize = 100;

/// Marks the templates of an object of that kind, everywhere but in its metadata other than annotations, and in no Secret.
pub(super) fn mark(document: &mut Node<'_>, kind: Kind) -> Option<Arc<[Template]>> {
    if !prepare(document) {
        return None;
    }
    let metadata = document.get("metadata");
    let text = |field| metadata.and_then(|m| m.get(field)?.as_str());
    let namespace: Namespace = match (kind.scope(), text("namespace")) {
        (Scope::Cluster, _) => return None,
        (Scope::Namespaced, None | Some("")) => DEFAULT_NAMESPACE.into(),
        (Scope::Namespaced, Some(namespace)) => namespace.into(),
    };
    if kind == Kind::Secret {
        return None;
    }
    let asker = Asker {
        kind,
        gateways: gateways(document, kind, &namespace),
        name: ObjectName::new(namespace, text("name").unwrap_or_default()),
        path: "".into(),
    };
    let mut found = Vec::new();
    let Value::Map(entries) = &mut document.value else {
        return None;
    };
    for entry in entries {
        let mut path = Path::of(&entry.key);
        if entry.key != "metadata" {
            walk(&mut entry.value, &asker, &mut path, &mut found);
        } else if let Value::Map(entries) = &mut entry.value.value
            && let Some(annotations) = entries.iter_mut().find(|e| e.key == "annotations")
        {
            let mut path = path.with("annotations");
            walk(&mut annotations.value, &asker, &mut path, &mut found);
        }
    }
    found.truncate(MOST_TOLD);
    (!found.is_empty()).then(|| found.into())
}

/// The gateways that an object names. Objects that select proxies of their own namespace name none.
fn gateways(document: &Node<'_>, kind: Kind, namespace: &Namespace) -> Gateways {
    let listed = |field: &str| match document.get("spec").and_then(|spec| spec.get(field)) {
        Some(Node {
            value: Value::Seq(items),
            ..
        }) => items.as_slice(),
        _ => &[],
    };
    let of_rule = |gateway: &Node<'_>| {
        let stated = gateway.as_str()?;
        let full = gateway_name(stated, namespace);
        let (found, _) = full.as_deref().unwrap_or(stated).split_once('/')?;
        Some(Namespace::from(found))
    };
    let of_route = |parent: &Node<'_>| {
        let text = |field| parent.get(field).and_then(Node::as_str);
        let named = text("kind").unwrap_or("Gateway");
        let found = text("namespace").map_or_else(|| namespace.clone(), Namespace::from);
        matches!(named, "Gateway" | "ListenerSet" | "XListenerSet").then_some(found)
    };
    let found: Vec<Namespace> = match kind {
        Kind::Ingress | Kind::KnativeIngress => return Gateways::Edge,
        Kind::VirtualService => listed("gateways").iter().filter_map(of_rule).collect(),
        Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute => {
            listed("parentRefs").iter().filter_map(of_route).collect()
        }
        _ => Vec::new(),
    };
    Gateways::Of(found.into())
}

fn walk(node: &mut Node<'_>, asker: &Asker, path: &mut Path, found: &mut Vec<Template>) {
    match &mut node.value {
        Value::String(text) if template::may_have(text) => {
            let path: Arc<str> = path.to_string().into();
            let asker = Asker {
                path: path.clone(),
                ..asker.clone()
            };
            if let Some((marked, refs)) = template::marked(text, &asker) {
                *text = marked.into();
                let told = refs.into_iter().map(|secret| Template {
                    path: path.clone(),
                    secret,
                });
                found.extend(told);
            }
        }
        Value::Seq(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.0.push(Step::Index(index));
                walk(item, asker, path, found);
                path.0.pop();
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                path.0.push(Step::Field(entry.key.as_ref().into()));
                walk(&mut entry.value, asker, path, found);
                path.0.pop();
            }
        }
        _ => {}
    }
}

/// Takes marks out, and says whether there are templates.
fn prepare(node: &mut Node<'_>) -> bool {
    match &mut node.value {
        Value::String(text) => {
            if let Some(cleaned) = template::clean(text) {
                *text = cleaned.into();
            }
            template::may_have(text)
        }
        Value::Seq(items) => items
            .iter_mut()
            .fold(false, |any, item| prepare(item) | any),
        Value::Map(entries) => entries.iter_mut().fold(false, |any, entry| {
            if let Some(cleaned) = template::clean(&entry.key) {
                entry.key = cleaned.into();
            }
            prepare(&mut entry.value) | any
        }),
        _ => false,
    }
}
