//! Ingresses whose annotations say who may send requests: their paths, as far as they can be read.

use super::super::nearest::distance;
use super::super::node::{Entry, Node, Value};
use super::{list, map, text};
use crate::kinds::kube::is_protecting_annotation;

/// An Ingress with the same hosts and paths and without backends, with its certificates if they can be read and without them.
pub(super) fn specs<'a>(document: &Node<'a>) -> Vec<Node<'a>> {
    let spec = near(document, "spec");
    let Some(spec) = spec.filter(|_| protects(document)) else {
        return Vec::new();
    };
    let mut fields = Vec::new();
    let class = near(spec, "ingressClassName").filter(|class| class.as_str().is_some());
    fields.extend(class.map(|class| ("ingressClassName", class.clone())));
    let rules: Vec<Node<'a>> = items(near(spec, "rules")).iter().filter_map(rule).collect();
    let default = near(spec, "defaultBackend").filter(|default| !default.is_null());
    if rules.is_empty() && default.is_none() {
        return Vec::new();
    }
    fields.extend(default.map(|_| ("defaultBackend", backend())));
    fields.push(("rules", list(rules)));
    let without = map(fields.clone());
    let Some(tls) = spec.get("tls") else {
        return vec![without];
    };
    fields.push(("tls", tls.clone()));
    vec![map(fields), without]
}

/// One spec for those of several readings of a document.
pub(super) fn joined(all: Vec<Vec<Node<'_>>>) -> Vec<Node<'_>> {
    let mut last = all.into_iter().filter_map(|mut specs| specs.pop());
    let Some(mut first) = last.next() else {
        return Vec::new();
    };
    for other in last {
        let Value::Map(entries) = other.value else {
            continue;
        };
        for entry in entries {
            add(&mut first, entry);
        }
    }
    vec![first]
}

/// Adds a field that is not there, and the rules of those that are.
fn add<'a>(spec: &mut Node<'a>, entry: Entry<'a>) {
    let Value::Map(entries) = &mut spec.value else {
        return;
    };
    match entries.iter_mut().find(|there| there.key == entry.key) {
        None => entries.push(entry),
        Some(there) => {
            if let (Value::Seq(rules), Value::Seq(more)) =
                (&mut there.value.value, entry.value.value)
            {
                let new = |rule: &Node<'a>| !rules.iter().any(|there| there.says(rule));
                let more: Vec<Node<'a>> = more.into_iter().filter(new).collect();
                rules.extend(more);
            }
        }
    }
}

/// Whether annotations say who may send requests. Those of a canary do not: its rule decides.
fn protects(document: &Node<'_>) -> bool {
    let annotations = document
        .get("metadata")
        .and_then(|metadata| near(metadata, "annotations"));
    match annotations.map(|annotations| &annotations.value) {
        None | Some(Value::Null) => false,
        Some(Value::Map(entries)) => {
            let is_canary = |entry: &Entry<'_>| entry.key.ends_with("/canary");
            entries
                .iter()
                .any(|entry| is_protecting_annotation(&entry.key))
                && !entries.iter().any(is_canary)
        }
        Some(_) => true,
    }
}

/// Whether a field of metadata is that of annotations, misspelt or not.
pub(super) fn is_annotations(field: &str) -> bool {
    distance(field, "annotations") <= 2
}

fn rule<'a>(rule: &Node<'a>) -> Option<Node<'a>> {
    rule.entries()?;
    let mut fields = Vec::new();
    match near(rule, "host").filter(|host| !host.is_null()) {
        None => {}
        Some(host) if host.as_str().is_some() => fields.push(("host", host.clone())),
        Some(_) => return None,
    }
    let stated = near(rule, "http").and_then(|http| near(http, "paths"));
    let mut paths: Vec<Node<'a>> = items(stated).iter().map(path).collect();
    if paths.is_empty() {
        paths.push(path(&map(Vec::new())));
    }
    fields.push(("http", map(vec![("paths", list(paths))])));
    Some(map(fields))
}

/// A path; one that cannot be read is all paths.
fn path<'a>(stated: &Node<'a>) -> Node<'a> {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let of = near(stated, "pathType").and_then(Node::as_str);
    let of = TYPES.into_iter().find(|known| of == Some(*known));
    let (path, of) = match near(stated, "path").filter(|path| path.as_str().is_some()) {
        Some(path) => (path.clone(), of.unwrap_or("ImplementationSpecific")),
        None => (text("/"), "Prefix"),
    };
    map(vec![
        ("path", path),
        ("pathType", text(of)),
        ("backend", backend()),
    ])
}

/// A backend to which nothing is sent.
fn backend<'a>() -> Node<'a> {
    let port = map(vec![("number", super::node(Value::Int(80)))]);
    let service = map(vec![("name", text("closed")), ("port", port)]);
    map(vec![("service", service)])
}

/// The value of a field, or else of one that is called nearly so.
fn near<'n, 'a>(node: &'n Node<'a>, field: &str) -> Option<&'n Node<'a>> {
    node.get(field).or_else(|| {
        let mut entries = node.entries()?.iter();
        let found = entries
            .find(|entry| distance(&entry.key, field) <= if field.len() > 4 { 2 } else { 1 });
        found.map(|entry| &entry.value)
    })
}

fn items<'n, 'a>(node: Option<&'n Node<'a>>) -> &'n [Node<'a>] {
    match node.map(|node| &node.value) {
        Some(Value::Seq(items)) => items,
        _ => &[],
    }
}
