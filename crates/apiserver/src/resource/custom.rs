//! Kinds that CustomResourceDefinitions describe.

use std::sync::Arc;

use serde_json::{Value, json};

use super::builtin::{age, column};
use super::{Resource, Shows, Version};
use crate::object::now;
use crate::status::{Cause, Failure};
use crate::store::ResourceName;

/// The kind that a definition describes.
///
/// # Errors
///
/// When it describes none that can be served.
pub fn accept(definition: &Value) -> Result<Resource, Failure> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural, kind) = (
        text(&spec["group"]),
        text(&spec["names"]["plural"]),
        text(&spec["names"]["kind"]),
    );
    let mut causes = Vec::new();
    for (field, value) in [
        ("spec.group", &group),
        ("spec.names.plural", &plural),
        ("spec.names.kind", &kind),
    ] {
        if value.is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    let name = crate::object::meta(definition, "name");
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &name.into(), detail));
    }
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    let storage: Vec<String> = versions
        .iter()
        .filter(|v| v["storage"] == true)
        .map(|v| text(&v["name"]))
        .collect();
    if storage.len() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], detail));
    }
    for (index, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            causes.push(Cause::required(field, "schemas are required"));
        }
    }
    if let Some(strategy) = spec["conversion"]["strategy"].as_str()
        && strategy != "None"
    {
        let detail =
            "webhook conversion is not served here; versions may differ in their name only";
        causes.push(Cause::invalid(
            "spec.conversion.strategy",
            &strategy.into(),
            detail,
        ));
    }
    if !causes.is_empty() {
        let resource = super::builtin::resources(&super::Schemas(Default::default()));
        let this = resource
            .into_iter()
            .find(|r| r.is("apiextensions.k8s.io", "customresourcedefinitions"));
        let this = this.ok_or_else(Failure::no_path)?;
        return Err(Failure::invalid(&this, name, causes));
    }
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
    Ok(Resource {
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
            .first()
            .map(|s| s.as_str())
            .unwrap_or_default()
            .into(),
        name: ResourceName::new(&plural, &group),
        versions: served,
        group: group.into(),
        kind: kind.into(),
        plural: plural.into(),
    })
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
    Version {
        name: text(&version["name"]),
        schema: Some(Arc::new(version["schema"]["openAPIV3Schema"].clone())),
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
