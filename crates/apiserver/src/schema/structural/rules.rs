//! Rules in CEL as a definition states them: whether they fit the schema that they stand in, and what they may cost.
//!
//! Kubernetes: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go and cel_validation.go, 1.36.

use serde_json::Value;
use validate::cel::{self, Kind, Wanted};
use validate::schema::{field_path, reason};

use super::forbidden;
use crate::schema::{ListType, is_atomic_map, list_type};
use crate::status::Cause;

/// What one rule may cost, for all values of a request that it is asked about.
const ONE: u64 = 10_000_000;
/// What all rules of a schema may cost.
const ALL: u64 = 100_000_000;

/// What is wrong with the rules of a schema that is structural.
pub(super) fn faults(schema: &Value, path: &str) -> Vec<Cause> {
    let mut walk = Walk {
        causes: Vec::new(),
        cost: 0,
    };
    let place = SchemaContext {
        path: path.to_owned(),
        often: Some(1),
        lost: None,
        is_root: true,
    };
    walk.schema(schema, &place, 0);
    if walk.cost > ALL {
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let detail = too_dear(what, walk.cost, ALL);
        walk.causes.push(forbidden(path.to_owned(), &detail));
    }
    walk.causes
}

/// Where a schema stands.
struct SchemaContext {
    path: String,
    /// How many values of it an object may have; `None` where nothing limits them.
    often: Option<u64>,
    /// The part of the schema, at or above, whose values are not known again when an object changes.
    lost: Option<String>,
    is_root: bool,
}

struct Walk {
    causes: Vec<Cause>,
    /// What the rules that fit may cost together.
    cost: u64,
}

impl Walk {
    fn schema(&mut self, schema: &Value, place: &SchemaContext, depth: usize) {
        if depth > super::DEEPEST {
            return;
        }
        self.rules(schema, place);
        let within = |path: String, often: Option<u64>, lost: Option<String>| SchemaContext {
            path,
            often,
            lost,
            is_root: false,
        };
        let path = &place.path;
        let times = |most: Option<u64>| Some(place.often?.saturating_mul(most?));
        let lost_here = |is_lost: bool| match &place.lost {
            None if is_lost => Some(path.clone()),
            known => known.clone(),
        };
        let atomic = is_atomic_map(Some(schema));
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            if place.is_root && name == "metadata" {
                continue;
            }
            let at = format!("{path}.properties[{name}]");
            let at = within(at, place.often, lost_here(atomic));
            self.schema(inner, &at, depth + 1);
        }
        let most = cel::most_entries(schema);
        if let Some(inner) = schema.get("additionalProperties").filter(|a| a.is_object()) {
            let at = format!("{path}.additionalProperties");
            self.schema(
                inner,
                &within(at, times(most), lost_here(atomic)),
                depth + 1,
            );
        }
        if let Some(inner) = schema.get("items") {
            let keyed = matches!(list_type(Some(schema)), ListType::Map(_));
            let at = format!("{path}.items");
            self.schema(
                inner,
                &within(at, times(most), lost_here(!keyed)),
                depth + 1,
            );
        }
    }

    fn rules(&mut self, schema: &Value, place: &SchemaContext) {
        let Some(rules) = schema["x-kubernetes-validations"].as_array() else {
            return;
        };
        let is_root = place.is_root || schema["x-kubernetes-embedded-resource"] == true;
        let Some(kind) = Kind::of_schema(schema, is_root) else {
            return;
        };
        for (index, rule) in rules.iter().enumerate() {
            let at =
                |word: &str| format!("{}.x-kubernetes-validations[{index}].{word}", place.path);
            let is_optional = rule["optionalOldSelf"] == true;
            let past = match is_optional {
                true => kind.clone().optional(),
                false => kind.clone(),
            };
            let variables = [("self", kind.clone()), ("oldSelf", past)];
            let text = |word: &str| rule[word].as_str().map(str::trim);
            if let Some(stated) = text("reason")
                && !reason::ALL.contains(&stated)
            {
                let known = reason::ALL.map(|known| format!("{known:?}")).join(", ");
                self.causes.push(Cause {
                    reason: "FieldValueNotSupported",
                    field: at("reason"),
                    message: format!("Unsupported value: {stated:?}: supported values: {known}"),
                });
            }
            if let Some(stated) = text("fieldPath")
                && let Err(fault) = find_field(schema, stated)
            {
                let detail = format!("fieldPath must be a valid path: {fault}");
                self.causes
                    .push(Cause::invalid(at("fieldPath"), &rule["fieldPath"], &detail));
            }
            let judged =
                match cel::judge(text("rule").unwrap_or_default(), &variables, Wanted::Bool) {
                    Ok(judged) => judged,
                    Err(fault) => {
                        let detail = format!("compilation failed: {fault}");
                        self.causes
                            .push(Cause::invalid(at("rule"), &rule["rule"], &detail));
                        continue;
                    }
                };
            if let (true, Some(lost)) = (judged.is_of_change, &place.lost) {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {lost}"
                );
                self.causes
                    .push(Cause::invalid(at("rule"), &rule["rule"], &detail));
            }
            if rule["optionalOldSelf"].is_boolean() && !judged.is_of_change {
                let detail = "may not be set if oldSelf is not used in rule";
                let field = at("optionalOldSelf");
                self.causes
                    .push(Cause::invalid(field, &rule["optionalOldSelf"], detail));
            }
            self.charge(
                at("rule"),
                "estimated rule cost",
                judged.cost,
                schema,
                place,
            );
            if let Some(source) = text("messageExpression") {
                self.message(
                    rule,
                    source,
                    &variables,
                    at("messageExpression"),
                    schema,
                    place,
                );
            }
        }
    }

    fn message(
        &mut self,
        rule: &Value,
        source: &str,
        variables: &[(&str, Kind)],
        at: String,
        schema: &Value,
        place: &SchemaContext,
    ) {
        if source.is_empty() {
            let detail = "must be non-empty if specified";
            return self.causes.push(Cause::required(at, detail));
        }
        match cel::judge(source, variables, Wanted::Text) {
            Ok(judged) => {
                let what = "estimated messageExpression cost";
                self.charge(at, what, judged.cost, schema, place);
            }
            Err(fault) => {
                let detail = format!("messageExpression compilation failed: {fault}");
                let value = &rule["messageExpression"];
                self.causes.push(Cause::invalid(at, value, &detail));
            }
        }
    }

    /// Counts what an expression may cost for all values of a request, and refuses what is too dear by itself.
    fn charge(&mut self, at: String, what: &str, cost: u64, schema: &Value, place: &SchemaContext) {
        let often = place.often.unwrap_or_else(|| cel::most_often(schema));
        let cost = cost.saturating_mul(often);
        self.cost = self.cost.saturating_add(cost);
        if cost > ONE {
            self.causes.push(forbidden(at, &too_dear(what, cost, ONE)));
        }
    }
}

fn too_dear(what: &str, cost: u64, limit: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // It is for people.
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// Whether a path leads to a field of the schema.
fn find_field(schema: &Value, path: &str) -> Result<(), String> {
    let mut schema = schema;
    for name in field_path(path)? {
        let properties = schema["properties"].as_object();
        let values = schema.get("additionalProperties").filter(|a| a.is_object());
        schema = match (properties, values) {
            (Some(fields), _) => fields.get(&name),
            (None, values) => values,
        }
        .ok_or("does not refer to a valid field")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of a rule of `spec`, and where below the schema of `spec`.
    fn said(rule: Value) -> Vec<(String, String)> {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 63},
                "names": {"type": "array", "items": {"type": "string"}},
                "few": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}},
            },
            "x-kubernetes-validations": [rule]}}});
        let below = "s.properties[spec].x-kubernetes-validations[0].";
        let all = faults(&schema, "s").into_iter();
        all.map(|c| (c.field.replace(below, ""), c.message))
            .collect()
    }

    #[test]
    fn a_rule_that_does_not_fit_is_told_with_its_place() {
        for (rule, field, message) in [
            (
                json!({"rule": "self.nmae == 'x'"}),
                "rule",
                r#"Invalid value: "self.nmae == 'x'": compilation failed: undefined field 'nmae'"#,
            ),
            (
                json!({"rule": "self.name"}),
                "rule",
                r#"Invalid value: "self.name": compilation failed: must evaluate to a bool"#,
            ),
            (
                json!({"rule": "true", "messageExpression": "1"}),
                "messageExpression",
                r#"Invalid value: "1": messageExpression compilation failed: must evaluate to a string"#,
            ),
            (
                json!({"rule": "true", "messageExpression": " "}),
                "messageExpression",
                "Required value: must be non-empty if specified",
            ),
            (
                json!({"rule": "true", "reason": "Wrong"}),
                "reason",
                r#"Unsupported value: "Wrong": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
            ),
            (
                json!({"rule": "true", "fieldPath": ".nmae"}),
                "fieldPath",
                r#"Invalid value: ".nmae": fieldPath must be a valid path: does not refer to a valid field"#,
            ),
            (
                json!({"rule": "true", "fieldPath": "name"}),
                "fieldPath",
                r#"Invalid value: "name": fieldPath must be a valid path: expected [ or . but got: name"#,
            ),
            (
                json!({"rule": "true", "optionalOldSelf": true}),
                "optionalOldSelf",
                "Invalid value: true: may not be set if oldSelf is not used in rule",
            ),
        ] {
            assert_eq!(
                said(rule.clone()),
                [(field.to_owned(), message.to_owned())],
                "{rule}"
            );
        }
        for rule in [
            json!({"rule": "oldSelf.hasValue() || self.name == 'x'", "optionalOldSelf": true}),
            json!({"rule": "self.name == oldSelf.name", "reason": "FieldValueForbidden", "fieldPath": ".name"}),
            json!({"rule": "self.few.all(n, n.size() > 1)", "messageExpression": "'of ' + self.name", "fieldPath": "['few']"}),
        ] {
            assert_eq!(said(rule.clone()), [], "{rule}");
        }
    }

    #[test]
    fn a_rule_that_may_cost_too_much_is_refused() {
        // A list without a limit, of texts without one.
        let all = said(json!({"rule": "self.names.all(a, self.names.exists(b, a == b))"}));
        assert_eq!(all[0].0, "rule");
        assert!(
            all[0].1.starts_with("Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule"),
            "{all:?}"
        );
        assert_eq!(all[1].0, "s", "the total as well");
        assert_eq!(
            said(json!({"rule": "self.few.all(a, self.few.exists(b, a == b))"})),
            []
        );
        // A cheap rule that is asked for every item of a list without a limit.
        let many = json!({"type": "object", "properties": {"spec": {"type": "array", "items": {"type": "string",
            "x-kubernetes-validations": [{"rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')"}]}}}});
        let fields: Vec<String> = faults(&many, "s").into_iter().map(|c| c.field).collect();
        assert_eq!(
            fields[0],
            "s.properties[spec].items.x-kubernetes-validations[0].rule"
        );
    }

    #[test]
    fn items_that_are_not_known_again_have_no_past() {
        let rule = json!([{"rule": "self == oldSelf"}]);
        let list = |kind: &str| {
            json!({"type": "object", "properties": {"l": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": kind,
            "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}},
            "x-kubernetes-validations": rule}}}})
        };
        assert_eq!(faults(&list("map"), "s"), []);
        let all = faults(&list("atomic"), "s");
        assert!(all[0].message.ends_with("oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[l]"), "{all:?}");
    }

    /// The published definitions of Istio, Higress and the Gateway API, where they are at hand.
    #[test]
    fn published_definitions_are_taken() {
        let Some(folder) = testkit::recording("crds") else {
            return;
        };
        let mut folders = vec![folder];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                for document in model::parse::to_json(&text).into_iter().flatten() {
                    if document["apiVersion"] != "apiextensions.k8s.io/v1" {
                        continue;
                    }
                    let versions = document["spec"]["versions"].as_array();
                    for version in versions.into_iter().flatten() {
                        let schema = &version["schema"]["openAPIV3Schema"];
                        let name = &document["metadata"]["name"];
                        assert_eq!(
                            super::super::faults(schema, "s"),
                            [],
                            "{name} in {}",
                            path.display()
                        );
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 30, "{seen}");
    }
}
