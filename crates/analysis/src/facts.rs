//! What several analyzers ask for: workloads by label, hosts, and the texts that name them.

pub(crate) mod hosts;
pub(crate) mod mesh_hosts;
pub(crate) mod selected;
pub(crate) mod stated;
pub(crate) mod workloads;

use std::collections::BTreeMap;

use model::{Meta, Namespace, ObjectName};

/// A selector as text: `a=b,c=d`.
pub(crate) fn selector_text<K: AsRef<str>, V: AsRef<str>>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> String {
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(k, v)| format!("{}={}", k.as_ref(), v.as_ref()))
        .collect();
    pairs.join(",")
}

/// The path of the first label of a selector below `path`; `path` itself where the selector is empty.
pub(crate) fn first_label(path: &str, selector: &BTreeMap<String, String>) -> String {
    match selector.keys().next() {
        Some(key) => below(path, key),
        None => path.to_owned(),
    }
}

/// The path of a key below `path`.
pub(crate) fn below(path: &str, key: &str) -> String {
    if key.contains(['.', '/', '[', ' ']) {
        format!("{path}[{key:?}]")
    } else {
        format!("{path}.{key}")
    }
}

/// The object that `name` or `namespace/name` stands for.
pub(crate) fn short_or_full(default: &Namespace, name: &str) -> ObjectName {
    match name.split_once('/') {
        Some((namespace, name)) => ObjectName::new(namespace, name),
        None => ObjectName::new(default.clone(), name),
    }
}

/// How people know an object: by its name or, where it was made of another one, as that one.
pub(crate) fn known_as(meta: &Meta) -> String {
    let derived = meta.derived.as_ref();
    match derived.and_then(|derived| derived.from.first()) {
        Some(written) => written.to_string(),
        None => meta.name.to_string(),
    }
}

/// Several names in a sentence: the first few and how many more.
pub(crate) fn several<T: std::fmt::Display>(names: &[T]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN).map(ToString::to_string).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
