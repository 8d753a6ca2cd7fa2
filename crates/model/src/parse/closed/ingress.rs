//! Ingresses whose annotations say who may send requests: their hosts and paths, as far as they can be read.
//!
//! In a substitute a rule without paths covers all that its namespace has on the host, as paths of it cannot be read; and a rule with
//! neither covers all that its namespace has on any host ([`IngressRule::is_unread`](crate::kinds::kube::IngressRule::is_unread)).

use super::super::head::{is_near, near};
use super::super::node::{Entry, Node, Value};
use super::{list, map, text};
use crate::host::canonical;
use crate::kinds::kube::{
    PREFIXES, is_canary_annotation, is_host, is_protecting_annotation, is_true,
};

/// The fields of an Ingress.
const OF_OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// The fields of a spec.
const OF_SPEC: [&str; 4] = ["defaultBackend", "ingressClassName", "rules", "tls"];
/// The fields of a rule.
const OF_RULE: [&str; 2] = ["host", "http"];
/// The fields of a path.
const OF_PATH: [&str; 3] = ["backend", "path", "pathType"];

/// An Ingress with the same hosts and paths and without backends, with its certificates if they can be read and without them.
pub(super) fn specs<'a>(document: &Node<'a>) -> Vec<Node<'a>> {
    if !protects(document) {
        return Vec::new();
    }
    let spec = near(document, "spec").or_else(|| near(document, "metadata")?.get("spec"));
    let spec = spec.filter(|spec| !spec.is_null());
    let stated = |field: &str| near(spec?, field).filter(|value| !value.is_null());
    let entries = spec.and_then(Node::entries).unwrap_or_default().iter();
    let mut rules: Vec<Node<'a>> = entries
        .filter(|entry| is_near(&entry.key, "rules") && !entry.value.is_null())
        .flat_map(|entry| rules(&entry.value))
        .collect();
    // What is not known may have been the rules.
    let is_unread = match spec {
        Some(spec) => spec.entries().is_none() || has_others(spec, &OF_SPEC),
        None => has_others(document, &OF_OBJECT),
    };
    if rules.is_empty() && is_unread {
        rules.push(unread());
    }
    let default = stated("defaultBackend");
    if rules.is_empty() && default.is_none() {
        return Vec::new();
    }
    let mut fields = Vec::new();
    let class = stated("ingressClassName").and_then(only);
    fields.extend(class.map(|class| ("ingressClassName", class.clone())));
    fields.extend(default.map(|_| ("defaultBackend", backend())));
    fields.push(("rules", list(rules)));
    let without = map(fields.clone());
    let Some(tls) = spec.and_then(|spec| spec.get("tls")) else {
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

/// Whether annotations say who may send requests, also where they stand in the wrong place. Those of a canary do not: its rule
/// decides.
fn protects(document: &Node<'_>) -> bool {
    let metadata = near(document, "metadata").and_then(Node::entries);
    let annotations = metadata.unwrap_or_default().iter();
    let mut annotations = annotations
        .filter(|entry| is_near(&entry.key, "annotations"))
        .map(|entry| &entry.value);
    let is_unread = |value: &Node<'_>| !value.is_null() && value.entries().is_none();
    !is_canary(document) && (annotations.any(is_unread) || states_protection(document))
}

/// Whether annotations make a canary: all that say whether they do.
fn is_canary(document: &Node<'_>) -> bool {
    let annotations = document
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations")?.entries());
    let stated = annotations.unwrap_or_default().iter();
    let mut stated = stated
        .filter(|entry| is_canary_annotation(&entry.key))
        .map(|entry| match &entry.value.value {
            Value::Bool(is_on) => *is_on,
            Value::Int(number) => *number == 1,
            Value::String(text) => is_true(text),
            _ => false,
        })
        .peekable();
    stated.peek().is_some() && stated.all(|is_on| is_on)
}

/// Whether a key anywhere in a document is an annotation that protects, in one piece or divided at its slash.
fn states_protection(node: &Node<'_>) -> bool {
    let is_divided = |entry: &Entry<'_>| {
        let is_prefix = |prefix: &&str| prefix.strip_suffix('/') == Some(&*entry.key);
        let inner = entry.value.entries().unwrap_or_default().iter();
        let prefix = PREFIXES.into_iter().find(is_prefix);
        prefix.is_some_and(|prefix| {
            let mut names = inner.map(|inner| format!("{prefix}{}", inner.key));
            names.any(|name| is_protecting_annotation(&name))
        })
    };
    match &node.value {
        Value::Seq(items) => items.iter().any(states_protection),
        Value::Map(entries) => entries.iter().any(|entry| {
            is_protecting_annotation(&entry.key)
                || is_divided(entry)
                || states_protection(&entry.value)
        }),
        _ => false,
    }
}

/// A text, or that of a list of one.
fn only<'n, 'a>(stated: &'n Node<'a>) -> Option<&'n Node<'a>> {
    let value = match &stated.value {
        Value::Seq(items) => match items.as_slice() {
            [only] => only,
            _ => return None,
        },
        _ => stated,
    };
    value.as_str().map(|_| value)
}

/// Whether a map has fields beside those that are known, misspelt or not.
fn has_others(stated: &Node<'_>, known: &[&str]) -> bool {
    let mut entries = stated.entries().unwrap_or_default().iter();
    entries.any(|entry| !known.iter().any(|known| is_near(&entry.key, known)))
}

/// A rule for hosts and paths that cannot be read.
fn unread<'a>() -> Node<'a> {
    map(Vec::new())
}

/// Whether a map has one of these fields, misspelt or not.
fn has_any(stated: &Node<'_>, fields: &[&str]) -> bool {
    fields.iter().any(|field| near(stated, field).is_some())
}

/// The rules of a list; also where there is one of them in place of the list, or a map of them.
fn rules<'a>(stated: &Node<'a>) -> Vec<Node<'a>> {
    match &stated.value {
        Value::Seq(rules) => rules.iter().flat_map(rule).collect(),
        Value::Map(_) if has_any(stated, &OF_RULE) => rule(stated),
        Value::Map(rules) => rules.iter().flat_map(keyed).collect(),
        _ => vec![unread()],
    }
}

/// A rule of a map, whose key may be its host where it states none.
fn keyed<'a>(entry: &Entry<'a>) -> Vec<Node<'a>> {
    match near(&entry.value, "host") {
        Some(_) => rule(&entry.value),
        None => vec![unread()],
    }
}

/// A rule for each host of one.
fn rule<'a>(stated: &Node<'a>) -> Vec<Node<'a>> {
    if stated.is_null() {
        return Vec::new();
    }
    let Some(entries) = stated.entries() else {
        return vec![unread()];
    };
    let hosts = entries.iter().filter(|entry| is_near(&entry.key, "host"));
    let hosts: Vec<&Node<'a>> = hosts
        .map(|entry| &entry.value)
        .filter(|host| !host.is_null())
        .collect();
    let paths = paths(stated);
    let with = |host: Option<Node<'a>>| {
        let mut fields = Vec::new();
        fields.extend(host.map(|host| ("host", host)));
        fields.extend(
            paths
                .clone()
                .map(|paths| ("http", map(vec![("paths", list(paths))]))),
        );
        map(fields)
    };
    if hosts.is_empty() {
        // What is not known may have been the host.
        return match has_others(stated, &OF_RULE) {
            true => vec![unread()],
            false => vec![with(None)],
        };
    }
    let mut rules = Vec::new();
    for host in hosts {
        match &host.value {
            Value::Seq(all) if !all.is_empty() => {
                rules.extend(
                    all.iter()
                        .map(|stated| host_of(stated).map(|host| with(Some(host)))),
                );
            }
            _ => rules.push(host_of(host).map(|host| with(Some(host)))),
        }
    }
    rules
        .into_iter()
        .map(|rule| rule.unwrap_or_else(unread))
        .collect()
}

/// A host as requests have it, if it can be read.
fn host_of<'a>(stated: &Node<'a>) -> Option<Node<'a>> {
    let host = canonical(stated.as_str()?.trim());
    let is_read = host.is_empty() || is_host(&host);
    is_read.then(|| super::node(Value::String(host.into_owned().into())))
}

/// The paths of a rule; none where one of them cannot be read. A rule that states none is for all paths that no other has.
fn paths<'a>(rule: &Node<'a>) -> Option<Vec<Node<'a>>> {
    let every = || vec![path_of(text("/"), Some("Prefix"))];
    let Some(http) = near(rule, "http").filter(|http| !http.is_null()) else {
        return (!has_others(rule, &OF_RULE)).then(every);
    };
    let stated = match &http.value {
        Value::Seq(_) => http,
        _ => near(http, "paths").filter(|paths| !paths.is_null())?,
    };
    match &stated.value {
        Value::Seq(paths) if paths.is_empty() => Some(every()),
        Value::Seq(paths) => paths.iter().map(path).collect(),
        Value::Map(paths) if !has_any(stated, &OF_PATH) => {
            // Where one states no path, its key may be it.
            let keyed = |entry: &Entry<'a>| near(&entry.value, "path").and(path(&entry.value));
            paths.iter().map(keyed).collect()
        }
        _ => Some(vec![path(stated)?]),
    }
}

/// A path, if it can be read.
fn path<'a>(stated: &Node<'a>) -> Option<Node<'a>> {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    if stated.as_str().is_some() {
        return Some(path_of(readable(stated, None)?, None));
    }
    stated.entries()?;
    let of = near(stated, "pathType").and_then(Node::as_str);
    let of = TYPES.into_iter().find(|known| of == Some(*known));
    match near(stated, "path").filter(|path| !path.is_null()) {
        Some(path) => Some(path_of(readable(path, of)?, of)),
        None if has_others(stated, &OF_PATH) => None,
        None => Some(path_of(text("/"), Some("Prefix"))),
    }
}

/// A path as requests have it. The slash at its begin may be missing; what no request has, and so is not what was meant, cannot be
/// read.
fn readable<'a>(stated: &Node<'a>, of: Option<&str>) -> Option<Node<'a>> {
    let path = stated.as_str()?.trim();
    if path.starts_with('/') && of == Some("ImplementationSpecific") {
        return Some(stated.clone());
    }
    let path = match path.strip_prefix('/') {
        Some(_) => path.to_owned(),
        None => format!("/{path}"),
    };
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '.' | '_' | '~' | ':' | '@');
    let mut parts = path.split('/').skip(1).peekable();
    let mut is_read = path.chars().all(is_plain);
    while let Some(part) = parts.next() {
        is_read &= !matches!(part, "." | "..") && (!part.is_empty() || parts.peek().is_none());
    }
    // A whole address in the place of a path.
    is_read &= !path.contains(':') || stated.as_str() == Some(&*path);
    is_read.then(|| super::node(Value::String(path.into())))
}

fn path_of<'a>(path: Node<'a>, of: Option<&'static str>) -> Node<'a> {
    map(vec![
        ("path", path),
        ("pathType", text(of.unwrap_or("ImplementationSpecific"))),
        ("backend", backend()),
    ])
}

/// A backend to which nothing is sent.
fn backend<'a>() -> Node<'a> {
    let port = map(vec![("number", super::node(Value::Int(80)))]);
    let service = map(vec![("name", text("closed")), ("port", port)]);
    map(vec![("service", service)])
}
