//! Kinds that CustomResourceDefinitions describe.

use std::sync::Arc;

use serde_json::{Value, json};

use super::builtin::{age, column};
use super::{Resource, Shows, Version};
use crate::object::now;
use crate::store::ResourceName;

/// The kind that a definition describes; what is wrong with the definition is [`super::definition`]'s to say.
pub fn accept(definition: &Value) -> Resource {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural, kind) = (
        text(&spec["group"]),
        text(&spec["names"]["plural"]),
        text(&spec["names"]["kind"]),
    );
    let versions = spec["versions"].as_array();
    let versions = versions.map(Vec::as_slice).unwrap_or_default();
    let storage = versions.iter().find(|v| v["storage"] == true);
    let names = &spec["names"];
    let list = |value: &Value| -> Vec<Arc<str>> {
        let items = value.as_array();
        items
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(Into::into)
            .collect()
    };
    let or = |value: &Value, other: String| match value.as_str() {
        Some(text) if !text.is_empty() => text.into(),
        _ => other.into(),
    };
    let mut served: Vec<Version> = versions
        .iter()
        .filter(|v| v["served"] == true)
        .map(version)
        .collect();
    served.sort_by_key(|v| std::cmp::Reverse(super::rank(&v.name)));
    Resource {
        list_kind: or(&names["listKind"], format!("{kind}List")),
        singular: or(&names["singular"], kind.to_ascii_lowercase()),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        has_status: versions
            .iter()
            .any(|v| v["subresources"]["status"].is_object()),
        has_generation: true,
        native: false,
        custom: true,
        model: None,
        storage: storage
            .map(|version| text(&version["name"]))
            .unwrap_or_default()
            .into(),
        name: ResourceName::new(&plural, &group),
        versions: served,
        group: group.into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

fn version(version: &Value) -> Version {
    let text = |value: &Value| -> Arc<str> { value.as_str().unwrap_or_default().into() };
    let columns = version["additionalPrinterColumns"].as_array();
    let columns: Vec<_> = columns
        .into_iter()
        .flatten()
        .map(|c| {
            let path = Shows::Path(text(&c["jsonPath"]));
            let mut column = column(&text(&c["name"]), &text(&c["type"]), path);
            column.format = text(&c["format"]);
            column.description = text(&c["description"]);
            column.priority = c["priority"].as_i64().unwrap_or(0);
            column
        })
        .collect();
    let schema = &version["schema"]["openAPIV3Schema"];
    Version {
        patterns: crate::schema::Patterns::default(),
        name: text(&version["name"]),
        // A definition whose schema cannot be used is not accepted; an older program may have stored one.
        judge: validate::schema::compile(schema).ok().map(Arc::new),
        schema: Some(Arc::new(schema.clone())),
        columns: if columns.is_empty() {
            [age()].into()
        } else {
            columns.into()
        },
    }
}

/// The status of a definition that is served: its names are accepted and it is established at once.
pub fn conditions_of(definition: &Value) -> Value {
    let spec = &definition["spec"];
    let mut names = spec["names"].clone();
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    for (field, value) in [
        ("singular", kind.to_ascii_lowercase()),
        ("listKind", format!("{kind}List")),
    ] {
        if names.get(field).is_none() {
            names[field] = value.into();
        }
    }
    let old = &definition["status"];
    let condition = |kind: &str, reason: &str, message: &str| {
        let known = old["conditions"].as_array().into_iter().flatten();
        let since = known
            .filter(|c| c["type"] == kind)
            .find_map(|c| c["lastTransitionTime"].as_str());
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": since.map_or_else(now, str::to_owned)})
    };
    let storage = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|v| v["storage"] == true);
    let mut stored: Vec<Value> = old["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if let Some(version) = storage.map(|v| v["name"].clone())
        && !stored.contains(&version)
    {
        stored.push(version);
    }
    json!({
        "acceptedNames": names,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": stored,
    })
}
