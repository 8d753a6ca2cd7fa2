//! Whether a CustomResourceDefinition may be stored.
//!
//! Kubernetes: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, 1.36.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Catalog;
use crate::names::{is_label, service_fault};
use crate::object::meta;
use crate::schema::structural;
use crate::status::Cause;

/// What is wrong with a definition by itself. A schema that stands in `old` already was taken once, and is not judged anew.
pub fn faults(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let mut causes = Vec::new();
    let name = meta(definition, "name");
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &name.into(), detail));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if !group.contains('.') || !group.split('.').all(is_label) {
        let detail = "should be a domain with at least one dot";
        causes.push(Cause::invalid("spec.group", &spec["group"], detail));
    }
    match spec["scope"].as_str() {
        None | Some("") => causes.push(Cause::required("spec.scope", "")),
        Some("Namespaced" | "Cluster") => {}
        Some(other) => causes.push(Cause {
            reason: "FieldValueNotSupported",
            field: "spec.scope".to_owned(),
            message: format!(
                "Unsupported value: {other:?}: supported values: \"Cluster\", \"Namespaced\""
            ),
        }),
    }
    if let Some(strategy) = spec["conversion"]["strategy"].as_str()
        && strategy != "None"
    {
        let detail =
            "webhook conversion is not served here; versions may differ in their name only";
        let at = "spec.conversion.strategy";
        causes.push(Cause::invalid(at, &strategy.into(), detail));
    }
    names(&spec["names"], &mut causes);
    versions(spec, old, &mut causes);
    causes
}

fn names(names: &Value, causes: &mut Vec<Cause>) {
    for (field, needed, mixed) in [
        ("plural", true, false),
        ("singular", false, false),
        ("kind", true, true),
        ("listKind", false, true),
    ] {
        let at = format!("spec.names.{field}");
        let word = names[field].as_str().unwrap_or_default();
        let plain = if mixed {
            word.to_ascii_lowercase()
        } else {
            word.to_owned()
        };
        if word.is_empty() {
            if needed {
                causes.push(Cause::required(at, ""));
            }
        } else if let Some(fault) = service_fault(&plain) {
            let detail = if mixed {
                format!("may have mixed case, but should otherwise match: {fault}")
            } else {
                fault.to_owned()
            };
            causes.push(Cause::invalid(at, &word.into(), &detail));
        }
    }
    for field in ["shortNames", "categories"] {
        let all = names[field].as_array();
        for (index, word) in all.into_iter().flatten().enumerate() {
            if let Some(fault) = service_fault(word.as_str().unwrap_or_default()) {
                let at = format!("spec.names.{field}[{index}]");
                causes.push(Cause::invalid(at, word, fault));
            }
        }
    }
    if names["kind"].is_string() && names["kind"] == names["listKind"] {
        let detail = "kind and listKind may not be the same";
        let at = "spec.names.listKind";
        causes.push(Cause::invalid(at, &names["listKind"], detail));
    }
}

fn versions(spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let known = old.and_then(|old| old["spec"]["versions"].as_array());
    let known = known.map(Vec::as_slice).unwrap_or_default();
    let versions = spec["versions"].as_array();
    let versions = versions.map(Vec::as_slice).unwrap_or_default();
    let storing = versions.iter().filter(|v| v["storage"] == true).count();
    let names: BTreeSet<&str> = versions.iter().filter_map(|v| v["name"].as_str()).collect();
    let omitted = |detail: &str| Cause {
        reason: "FieldValueInvalid",
        field: "spec.versions".to_owned(),
        message: format!("Invalid value: {detail}"),
    };
    if names.len() != versions.len() {
        causes.push(omitted("must contain unique version names"));
    }
    if storing != 1 {
        causes.push(omitted(
            "must have exactly one version marked as storage version",
        ));
    }
    for (index, version) in versions.iter().enumerate() {
        let at = |field: &str| format!("spec.versions[{index}].{field}");
        let name = version["name"].as_str().unwrap_or_default();
        if let Some(fault) = service_fault(name) {
            causes.push(Cause::invalid(at("name"), &version["name"], fault));
        }
        for (column, index) in version["additionalPrinterColumns"]
            .as_array()
            .into_iter()
            .flatten()
            .zip(0..)
        {
            let at = |field: &str| at(&format!("additionalPrinterColumns[{index}].{field}"));
            for field in ["name", "type", "jsonPath"] {
                if column[field].as_str().is_none_or(str::is_empty) {
                    causes.push(Cause::required(at(field), ""));
                }
            }
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_null() {
            let at = at("schema.openAPIV3Schema");
            causes.push(Cause::required(at, "schemas are required"));
            continue;
        }
        let before = known.iter().find(|v| v["name"] == version["name"]);
        if before.is_some_and(|v| v["schema"]["openAPIV3Schema"] == *schema) {
            continue;
        }
        causes.extend(structural::faults(schema, &at("schema.openAPIV3Schema")));
    }
}

/// What a definition may not change once it is there.
pub fn change_faults(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["group", "scope"] {
        if old["spec"][field] != new["spec"][field] {
            let at = format!("spec.{field}");
            causes.push(Cause::invalid(
                at,
                &new["spec"][field],
                "field is immutable",
            ));
        }
    }
    for field in ["plural", "kind"] {
        if old["spec"]["names"][field] != new["spec"]["names"][field] {
            let at = format!("spec.names.{field}");
            let value = &new["spec"]["names"][field];
            causes.push(Cause::invalid(at, value, "field is immutable"));
        }
    }
    let names: Vec<&Value> = new["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|v| &v["name"])
        .collect();
    let stored = new["status"]["storedVersions"].as_array();
    for (index, version) in stored.into_iter().flatten().enumerate() {
        if !names.contains(&version) {
            let detail = format!(
                "missing from spec.versions; {} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {} and removes {} from status.storedVersions",
                version.as_str().unwrap_or_default(),
                version.as_str().unwrap_or_default(),
                version.as_str().unwrap_or_default()
            );
            let at = format!("status.storedVersions[{index}]");
            causes.push(Cause::invalid(at, version, &detail));
        }
    }
    causes
}

/// A name of the definition that another kind of its group has.
pub fn taken(definition: &Value, catalog: &Catalog) -> Option<Cause> {
    let spec = &definition["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let plural = spec["names"]["plural"].as_str().unwrap_or_default();
    let kind = spec["names"]["kind"].as_str().unwrap_or_default();
    let other = catalog
        .of_kind(group, kind)
        .filter(|other| *other.plural != *plural)?;
    let detail = format!("{kind} is the kind of {} already", other.name());
    Some(Cause::invalid("spec.names.kind", &kind.into(), &detail))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        json!({"metadata": {"name": "bikes.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "bikes", "kind": "Bike"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
            "status": {"storedVersions": ["v1"]}})
    }

    #[test]
    fn a_definition_is_refused_with_the_field_that_is_wrong() {
        assert_eq!(faults(&definition(), None), []);
        let wrong: [(&str, Value, &str); 9] = [
            ("/spec/group", json!("example"), "spec.group"),
            ("/spec/scope", json!("Everywhere"), "spec.scope"),
            ("/spec/names/kind", json!("Bi ke"), "spec.names.kind"),
            ("/spec/names/plural", json!("Bikes"), "spec.names.plural"),
            ("/spec/names/listKind", json!("Bike"), "spec.names.listKind"),
            ("/spec/versions/0/storage", json!(false), "spec.versions"),
            (
                "/spec/versions/0/name",
                json!("V1"),
                "spec.versions[0].name",
            ),
            (
                "/spec/versions/0/schema",
                json!({}),
                "spec.versions[0].schema.openAPIV3Schema",
            ),
            (
                "/spec/conversion",
                json!({"strategy": "Webhook"}),
                "spec.conversion.strategy",
            ),
        ];
        for (pointer, value, field) in wrong {
            let mut definition = definition();
            definition["spec"]["names"]["listKind"] = "BikeList".into();
            definition["spec"]["conversion"] = json!({});
            *definition.pointer_mut(pointer).unwrap() = value;
            let fields: Vec<String> = faults(&definition, None)
                .into_iter()
                .map(|c| c.field)
                .collect();
            assert!(fields.contains(&field.to_owned()), "{pointer}: {fields:?}");
        }
    }

    #[test]
    fn a_schema_that_was_taken_once_is_not_judged_anew() {
        let mut definition = definition();
        definition["spec"]["names"]["listKind"] = "BikeList".into();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "properties": {"spec": {}}});
        assert_ne!(faults(&definition, None), []);
        assert_eq!(faults(&definition, Some(&definition)), []);
    }

    #[test]
    fn what_objects_are_stored_by_stays() {
        let old = definition();
        let mut new = old.clone();
        new["spec"]["scope"] = "Cluster".into();
        new["spec"]["versions"][0]["name"] = "v2".into();
        let fields: Vec<String> = change_faults(&old, &new)
            .into_iter()
            .map(|c| c.field)
            .collect();
        assert_eq!(fields, ["spec.scope", "status.storedVersions[0]"]);
        assert_eq!(change_faults(&old, &old), []);
    }
}
