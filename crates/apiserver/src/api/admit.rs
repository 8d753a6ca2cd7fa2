//! Whether an object may be stored: its metadata, its schema, and the rules of its kind.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use model::Severity;
use model::parse::{Validation, code, from_json, from_json_judged};
use serde_json::Value;
use validate::Rules;

use super::{Call, defaults};
use crate::object::{is_terminating, meta};
use crate::resource::Resource;
use crate::schema;
use crate::status::{Cause, Failure};

/// What messages call the place of an object that comes by a request.
static FROM: LazyLock<Arc<Path>> = LazyLock::new(|| Path::new("request").into());

/// Brings an object into the form that is stored, or says why it cannot be.
///
/// # Errors
///
/// When fields are not known and the client wants to be told (400), or when values are not valid (422).
pub(super) fn admit(
    call: &Call<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let resource = &call.resource;
    let schema = resource.schema(&call.version);
    let unknown = schema::prune(object, schema);
    if !unknown.is_empty() {
        let told: Vec<String> = unknown
            .iter()
            .map(|f| format!("unknown field {f:?}"))
            .collect();
        match call.request.query.get("fieldValidation") {
            "Strict" => {
                return Err(Failure::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                    resource.kind,
                    call.version,
                    resource.kind,
                    told.join(", ")
                )));
            }
            "Ignore" => {}
            "" | "Warn" => warnings.extend(told),
            other => {
                return Err(Failure::bad_request(format!(
                    "fieldValidation: Unsupported value: {other:?}"
                )));
            }
        }
    }
    if let (Value::Object(map), Some(properties)) = (
        &mut *object,
        schema.and_then(|s| s["properties"].as_object()),
    ) {
        // Absent and null are one at the top as well.
        map.retain(|key, value| !value.is_null() || !properties.contains_key(key));
    }
    schema::default(object, schema);
    defaults::set(resource, object);
    let mut causes = metadata(resource, object);
    causes.extend(schema::check(object, schema));
    if causes.is_empty() && resource.model.is_some() {
        // Rules must not keep an object from reporting its state or from going, should they be newer than it.
        let judged = !call.status_only && !is_terminating(object);
        causes.extend(meaning(object, judged, warnings));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(resource, meta(object, "name"), causes))
}

/// What reading the object for generation finds and, where it is to be judged, what all rules say about it.
fn meaning(object: &Value, judged: bool, warnings: &mut Vec<String>) -> Vec<Cause> {
    let mut bare = object.clone();
    // Nothing in it means anything to generation, and it is long.
    crate::object::meta_mut(&mut bare).remove("managedFields");
    let parsed = match judged {
        true => from_json_judged(bare, &FROM, Validation::Strict, &Rules),
        false => from_json(bare, &FROM, Validation::Warn),
    };
    let mut causes = Vec::new();
    // Fields that are not known were told already.
    let found = parsed.diagnostics.into_iter();
    for diagnostic in found.filter(|d| d.code != code::UNKNOWN_FIELD) {
        let field = diagnostic.path.to_string();
        let said = match &diagnostic.help {
            Some(help) => format!("{}; {help}", diagnostic.message),
            None => diagnostic.message.to_string(),
        };
        match diagnostic.severity {
            Severity::Error => causes.push(Cause {
                reason: "FieldValueInvalid",
                message: format!("Invalid value: {said}"),
                field,
            }),
            Severity::Warning if field.is_empty() => warnings.push(said),
            Severity::Warning => warnings.push(format!("{field}: {said}")),
            Severity::Info => {}
        }
    }
    causes
}

fn metadata(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = meta(object, "name");
    let fault = match (&*resource.group, &*resource.kind) {
        ("", "Namespace") => label_fault(name),
        ("", "Service") => service_fault(name),
        _ => subdomain_fault(name),
    };
    if let Some(fault) = fault {
        causes.push(Cause::invalid("metadata.name", &name.into(), fault));
    }
    for (field, is_label) in [("labels", true), ("annotations", false)] {
        let map = &object["metadata"][field];
        if !map.is_null() && !map.is_object() {
            causes.push(Cause::invalid(
                format!("metadata.{field}"),
                map,
                "must be a map of texts",
            ));
        }
        for (key, value) in map.as_object().into_iter().flatten() {
            let at = format!("metadata.{field}");
            if !is_qualified_name(key) {
                causes.push(Cause::invalid(at.clone(), &key.as_str().into(), QUALIFIED));
            }
            match value.as_str() {
                Some(text) if is_label && !is_label_value(text) => {
                    causes.push(Cause::invalid(at, value, LABEL_VALUE));
                }
                Some(_) => {}
                None => causes.push(Cause::invalid(
                    format!("{at}.{key}"),
                    value,
                    "must be a text",
                )),
            }
        }
    }
    for finalizer in crate::object::meta_list(object, "finalizers") {
        if !is_qualified_name(finalizer) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &finalizer.into(),
                QUALIFIED,
            ));
        }
    }
    causes
}

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn label_fault(name: &str) -> Option<&'static str> {
    if name.len() > 63 {
        return Some("must be no more than 63 characters");
    }
    (!is_label(name)).then_some(LABEL)
}

fn service_fault(name: &str) -> Option<&'static str> {
    if name.len() > 63 {
        return Some("must be no more than 63 characters");
    }
    let starts_well = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    (!is_label(name) || !starts_well).then_some(SERVICE)
}

fn subdomain_fault(name: &str) -> Option<&'static str> {
    if name.len() > 253 {
        return Some("must be no more than 253 characters");
    }
    (!name.split('.').all(is_label)).then_some(SUBDOMAIN)
}

fn is_label_value(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.is_empty()
        || (text.len() <= 63
            && text.bytes().all(inner)
            && edge(text.bytes().next())
            && edge(text.bytes().last()))
}

fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => {
            subdomain_fault(&prefix.to_ascii_lowercase()).is_none()
                && !name.is_empty()
                && is_label_value(name)
        }
        None => !text.is_empty() && is_label_value(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_to_the_rules_of_their_kind() {
        assert!(
            subdomain_fault("a.b-c").is_none()
                && subdomain_fault("A").is_some()
                && subdomain_fault("a..b").is_some()
        );
        assert!(label_fault("1a").is_none() && label_fault("a.b").is_some());
        assert!(service_fault("a1").is_none() && service_fault("1a").is_some());
        assert!(
            is_qualified_name("example.com/a_b")
                && !is_qualified_name("a/b/c")
                && !is_qualified_name("")
        );
        assert!(
            is_label_value("")
                && is_label_value("A.b_c-1")
                && !is_label_value("-a")
                && !is_label_value(&"a".repeat(64))
        );
    }
}
