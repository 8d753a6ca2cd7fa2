//! The objects of a folder of YAML, in the order in which a cluster would have got them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// When an object without a time was made: `kubefake`, over which the scenarios were recorded, says so.
const USUAL: &str = "2024-01-01T00:00:00Z";

/// Every object of the files of a folder and of the folders in it, those of `List`s each.
///
/// # Errors
///
/// When a file cannot be read or is not YAML.
pub fn read(dir: &Path) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in files(dir)? {
        let text = std::fs::read_to_string(&file)?;
        for document in model::parse::to_json(&text) {
            let document = document.map_err(anyhow::Error::msg);
            let document = document.with_context(|| file.display().to_string())?;
            match document["kind"].as_str() {
                Some(kind) if kind.ends_with("List") => {
                    objects.extend(document["items"].as_array().into_iter().flatten().cloned());
                }
                Some(_) => objects.push(document),
                None => bail!("{}: an object without a kind", file.display()),
            }
        }
    }
    Ok(objects)
}

fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    if !dir.exists() {
        return Ok(all); // Git keeps no empty folder.
    }
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)?
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    entries.sort();
    for entry in entries {
        let yaml = entry
            .extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if entry.is_dir() {
            all.extend(files(&entry)?);
        } else if yaml {
            all.push(entry);
        }
    }
    Ok(all)
}

/// A text of an object; empty where it is missing.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `KIND NAMESPACE/NAME`.
pub fn label(object: &Value) -> String {
    let namespace = text(object, "/metadata/namespace");
    let name = text(object, "/metadata/name");
    let kind = text(object, "/kind");
    match namespace {
        "" => format!("{kind} {name}"),
        _ => format!("{kind} {namespace}/{name}"),
    }
}

/// Objects of an equal age, oldest first: which is older than which decides conflicts, and an API lets nobody say when an
/// object was made. Within an age by name, as ties are broken.
pub fn by_age(mut objects: Vec<Value>) -> Vec<Vec<Value>> {
    let age = |o: &Value| match text(o, "/metadata/creationTimestamp") {
        "" => USUAL.to_owned(),
        time => time.to_owned(),
    };
    objects.sort_by_cached_key(|o| {
        let name = text(o, "/metadata/name").to_owned();
        (age(o), name, text(o, "/metadata/namespace").to_owned())
    });
    let mut ages: Vec<Vec<Value>> = Vec::new();
    for object in objects {
        match ages.last_mut() {
            Some(last) if age(&last[0]) == age(&object) => last.push(object),
            _ => ages.push(vec![object]),
        }
    }
    ages
}

/// The namespaces that objects lie in, as objects; those that are among the objects are not.
pub fn implied_namespaces(objects: &[Value]) -> Vec<Value> {
    let written: BTreeSet<&str> = objects
        .iter()
        .filter(|o| o["kind"] == "Namespace")
        .map(|o| text(o, "/metadata/name"))
        .collect();
    let used: BTreeSet<&str> = objects
        .iter()
        .map(|o| text(o, "/metadata/namespace"))
        .collect();
    let missing = used.difference(&written).filter(|n| !n.is_empty());
    missing
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect()
}
