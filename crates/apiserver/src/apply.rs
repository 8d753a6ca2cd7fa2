//! Server-side apply, and who manages which field.
//!
//! The algorithm is that of Kubernetes' structured-merge-diff: an applied configuration is merged into the object, what
//! the same applier set before and does not set any more is taken out unless somebody else manages it, and a change of a
//! field that somebody else manages is a conflict. Whoever writes by other means becomes the manager of what changed.

mod managers;
mod typed;

use serde_json::Value;

pub use managers::{Entry, Managers, Operation};
pub use typed::{compare, doubled, field_set, merge, remove};

use crate::fields::{Path, Set, path_text};
use crate::status::Failure;

/// Who writes.
#[derive(Clone, Debug)]
pub struct Writer<'a> {
    /// The name of the manager.
    pub manager: &'a str,
    /// `apiVersion` of the object as it was sent.
    pub api_version: &'a str,
    /// `status` where only that is written; else empty.
    pub subresource: &'a str,
    /// When.
    pub time: &'a str,
}

/// Records who manages what after a write that is no apply.
pub fn record(old: Option<&Value>, new: &mut Value, schema: Option<&Value>, writer: &Writer<'_>) {
    // Clients may set managers themselves, as kubectl does to turn its own updates into applies; one empty entry resets.
    let sent = new["metadata"]["managedFields"].as_array();
    let reset = sent
        .is_some_and(|all| matches!(all.as_slice(), [Value::Object(entry)] if entry.is_empty()));
    let mut managers = Managers::of(new);
    if let (Some(old), true, false) = (old, managers == Managers::default(), reset) {
        managers = Managers::of(old);
    }
    let empty = serde_json::json!({"metadata": {}});
    let compared = compare(old.unwrap_or(&empty), new, schema);
    let mut changed = compared.added.union(&compared.modified);
    changed.strip();
    let mut gone = compared.removed.clone();
    gone.strip();
    if reset {
        managers.store(new);
        return;
    }
    if !changed.is_empty() || !gone.is_empty() {
        for entry in managers.entries_mut() {
            if entry.is(writer, Operation::Update) {
                continue;
            }
            entry.fields = entry.fields.without_below(&gone).difference(&changed);
        }
        let own = managers.entry(writer, Operation::Update);
        let fields = own.fields.without_below(&gone).union(&changed);
        if fields != own.fields {
            own.fields = fields;
            own.time = writer.time.to_owned();
        }
    }
    managers.store(new);
}

/// What becomes of an object when a configuration is applied to it.
///
/// # Errors
///
/// When others manage what it would change, unless it is forced; when it says twice what an item of a list is to be.
pub fn apply(
    live: &Value,
    config: &Value,
    schema: Option<&Value>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Failure> {
    if let Some(path) = doubled(config, schema) {
        return Err(Failure::bad_request(format!(
            "failed to create typed patch object ({}): {}: duplicate entries for the key",
            named(config),
            path_text(&path)
        )));
    }
    let mut managers = Managers::of(live);
    let mut wanted = field_set(config, schema);
    wanted.strip();
    let mut merged = live.clone();
    merge(&mut merged, config, schema);

    let compared = compare(live, &merged, schema);
    let changed = compared.added.union(&compared.modified);
    let mut conflicts: Vec<(String, Path)> = Vec::new();
    for entry in managers.entries_mut() {
        if entry.is(writer, Operation::Apply) {
            continue;
        }
        let both = entry.fields.intersection(&changed);
        if both.is_empty() {
            continue;
        }
        if force {
            entry.fields = entry.fields.difference(&both);
        } else {
            conflicts.extend(both.0.into_iter().map(|path| (entry.describe(), path)));
        }
    }
    if !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }

    // What was applied before and is not any more goes, unless somebody else manages it or something below it.
    let before = managers
        .get(writer, Operation::Apply)
        .map(|e| e.fields.clone())
        .unwrap_or_default();
    let others = managers.others(writer, Operation::Apply);
    let mut dropped = Set::default();
    for path in before.difference(&wanted).0 {
        if !wanted.has_at_or_below(&path) && !others.has_at_or_below(&path) {
            dropped.0.insert(path);
        }
    }
    remove(&mut merged, schema, &dropped);

    let compared = compare(live, &merged, schema);
    let mut gone = compared.removed;
    gone.strip();
    for entry in managers.entries_mut() {
        if !entry.is(writer, Operation::Apply) {
            entry.fields = entry.fields.without_below(&gone);
        }
    }
    let own = managers.entry(writer, Operation::Apply);
    if own.fields != wanted || own.api_version != writer.api_version {
        own.fields = wanted;
        own.api_version = writer.api_version.to_owned();
        own.time = writer.time.to_owned();
    }
    managers.store(&mut merged);
    Ok(merged)
}

/// A configuration as Kubernetes names it in messages: `NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`.
fn named(config: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &config["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let (version, kind) = (text(&config["apiVersion"]), text(&config["kind"]));
    let group = if version.contains('/') { "" } else { "/" };
    format!("{namespace}/{name}; {group}{version}, Kind={kind}")
}

fn conflict(conflicts: &[(String, Path)]) -> Failure {
    let mut by_manager: Vec<(&str, Vec<String>)> = Vec::new();
    for (manager, path) in conflicts {
        match by_manager.iter_mut().find(|(m, _)| m == manager) {
            Some((_, paths)) => paths.push(path_text(path)),
            None => by_manager.push((manager, vec![path_text(path)])),
        }
    }
    let told = match by_manager.as_slice() {
        [(manager, paths)] if paths.len() == 1 => {
            format!("conflict with {manager}: {}", paths.join(""))
        }
        all => {
            let lines = all.iter().map(|(manager, paths)| {
                let paths: String = paths.iter().map(|p| format!("\n- {p}")).collect();
                format!("conflicts with {manager}:{paths}")
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    let count = conflicts.len();
    let message = format!(
        "Apply failed with {count} conflict{}: {told}",
        if count == 1 { "" } else { "s" }
    );
    let mut failure = Failure::new(http::StatusCode::CONFLICT, "Conflict", message);
    let causes = conflicts.iter().map(|(manager, path)| {
        serde_json::json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": path_text(path)})
    });
    failure.details = serde_json::json!({"causes": causes.collect::<Vec<_>>()});
    failure
}

#[cfg(test)]
mod tests;
