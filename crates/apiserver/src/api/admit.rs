//! Whether an object may be stored: its metadata, its schema, and the rules of its kind.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use model::parse::{
    Path as FieldPath, Remark, Step, Validation, code, from_json, from_json_judged,
};
use model::{Diagnostic, Severity};
use serde_json::Value;
use validate::Rules;
use validate::report::{At, Report};
use validate::schema::{Schema, reason};
use validate::text::is_label_value;

use super::sent::{Duplicates, validate_fields};
use super::{Call, Further, defaults};
use crate::names::{
    LABEL_VALUE, QUALIFIED, is_qualified_name, label_fault, path_fault, service_fault,
    subdomain_fault,
};
use crate::object::{is_terminating, meta};
use crate::resource::Resource;
use crate::schema;
use crate::source::INSTEAD_OF_ENDPOINTS;
use crate::status::{Cause, Failure};

/// What messages call the place of an object that comes by a request.
static FROM: LazyLock<Arc<Path>> = LazyLock::new(|| Path::new("request").into());

/// Brings an object that a client sent into the form that is stored. `duplicates` are those of what was sent.
///
/// # Errors
///
/// When fields are unknown or duplicate and the client wants that to be rejected.
pub(super) fn take_in(
    call: &Call<'_>,
    object: &mut Value,
    duplicates: &Duplicates,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let unknown = form(call, object);
    validate_fields(call, duplicates, &unknown, warnings)
}

/// Brings an object into the form that is stored; returns the fields that are not known, which are taken out.
pub(super) fn form(call: &Call<'_>, object: &mut Value) -> Vec<String> {
    let resource = &call.resource;
    let schema = resource.schema(&call.version);
    let unknown = schema::prune(object, schema);
    if let (Value::Object(map), Some(properties)) = (
        &mut *object,
        schema.and_then(|s| s["properties"].as_object()),
    ) {
        // Absent and null are one at the top as well.
        map.retain(|key, value| !value.is_null() || !properties.contains_key(key));
    }
    schema::default(object, schema);
    defaults::set(resource, object);
    unknown
}

/// Says why an object in the form that is stored cannot be, if it cannot. `old` is what it is to replace.
///
/// # Errors
///
/// When values are not valid.
pub(super) fn check(
    call: &Call<'_>,
    object: &Value,
    old: Option<&Value>,
    further: Option<&Further>,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let resource = &call.resource;
    let schema = resource.schema(&call.version);
    let mut causes = metadata(resource, object);
    let patterns = resource.patterns(&call.version);
    causes.extend(aside(|| schema::check(object, schema, &patterns)));
    if let Some(judge) = resource.judge(&call.version).filter(|_| causes.is_empty()) {
        causes.extend(aside(|| rules(judge, object, old)));
    }
    if causes.is_empty() && resource.model.is_some() {
        // Rules must not keep an object from reporting its state or from going, should they be newer than it.
        let judged = !call.status_only && !is_terminating(object);
        let further = further.filter(|_| judged);
        let mut found = aside(|| meaning(object, judged, further));
        if let Some(old) = old.filter(|_| has_errors(&found)) {
            ratchet(&mut found, &aside(|| meaning(old, judged, further)));
        }
        causes.extend(told(found, warnings));
    }
    warnings.extend(unread(resource));
    if causes.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(resource, meta(object, "name"), causes))
}

/// What the author of an object is warned of whose kind is stored for clients, and that would have an effect in Kubernetes that is
/// easily counted on.
fn unread(resource: &Resource) -> Option<String> {
    let instead = match (&*resource.group, &*resource.kind) {
        ("", "Endpoints") => {
            return Some(format!(
                "Endpoints is stored and not read: {INSTEAD_OF_ENDPOINTS}"
            ));
        }
        ("rbac.authorization.k8s.io", _) => {
            "who may do what with this API is said by the grants of --api-access"
        }
        ("networking.k8s.io", "NetworkPolicy") => {
            "an AuthorizationPolicy of security.istio.io/v1 says who may call a workload"
        }
        ("", "ResourceQuota" | "LimitRange") => "no pods run here, and objects are not counted",
        _ => return None,
    };
    Some(format!(
        "{} is stored and not obeyed: {instead}",
        resource.kind
    ))
}

/// Does work that may take a second without keeping other requests of the thread waiting.
pub(super) fn aside<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// What the conditions and rules of a definition say.
fn rules(judge: &Schema, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    // Of metadata rules see names only.
    let bare = |object: &Value| {
        let mut bare = object.clone();
        let kept = |key: &str| key == "name" || key == "generateName";
        crate::object::meta_mut(&mut bare).retain(|key, _| kept(key));
        bare
    };
    let (object, old) = (bare(object), old.map(bare));
    let mut report = Report::default();
    match &old {
        Some(old) => judge.check_change(&object, old, &At::TOP, &mut report),
        None => judge.check(&object, &At::TOP, &mut report),
    }
    // Fields that are not known were taken out; what is left of them is metadata.
    let found = report
        .into_errors()
        .filter(|r| r.code != code::UNKNOWN_FIELD);
    let cause = |remark: Remark| {
        let field = remark.path.to_string();
        let said = &remark.message;
        let shown = match value_at(&remark.path, &object) {
            Some(Value::Object(_) | Value::Array(_)) | None => String::new(),
            Some(value) => format!("{value}: "),
        };
        let (reason, message) = match remark.code {
            reason::REQUIRED => (reason::REQUIRED, format!("Required value: {said}")),
            reason::FORBIDDEN => (reason::FORBIDDEN, format!("Forbidden: {said}")),
            reason::DUPLICATE => (reason::DUPLICATE, format!("Duplicate value: {shown}{said}")),
            // A rule that names another field judged more than that field's value.
            reason::INVALID => (reason::INVALID, format!("Invalid value: {said}")),
            _ => (reason::INVALID, format!("Invalid value: {shown}{said}")),
        };
        Cause {
            reason,
            field,
            message,
        }
    };
    found.map(cause).collect()
}

fn value_at<'v>(path: &FieldPath, object: &'v Value) -> Option<&'v Value> {
    path.0.iter().try_fold(object, |value, step| match step {
        Step::Field(name) => value.get(&**name),
        Step::Index(index) => value.get(*index),
    })
}

/// What reading the object for generation finds and, where it is to be judged, what all rules say about it.
fn meaning(object: &Value, judged: bool, further: Option<&Further>) -> Vec<Diagnostic> {
    let mut bare = object.clone();
    // Nothing in it means anything to generation, and it is long.
    crate::object::meta_mut(&mut bare).remove("managedFields");
    let parsed = match judged {
        true => from_json_judged(bare, &FROM, Validation::Strict, &Rules),
        false => from_json(bare, &FROM, Validation::Warn),
    };
    let sound = parsed.objects().next().cloned();
    let mut found = parsed.diagnostics;
    // Fields that are not known were reported already.
    found.retain(|d| d.code != code::UNKNOWN_FIELD);
    if let (Some(judge), Some(object)) = (further.filter(|_| !has_errors(&found)), &sound) {
        found.extend(judge(object));
    }
    found
}

fn has_errors(found: &[Diagnostic]) -> bool {
    found.iter().any(|d| d.severity == Severity::Error)
}

/// What was wrong before and is left as it was refuses no change of something else: rules may be newer than the object.
fn ratchet(found: &mut [Diagnostic], stood: &[Diagnostic]) {
    for error in found.iter_mut().filter(|d| d.severity == Severity::Error) {
        let same = |d: &Diagnostic| {
            (d.code, &d.path, &d.message) == (error.code, &error.path, &error.message)
        };
        if stood.iter().any(same) {
            error.severity = Severity::Warning;
        }
    }
}

/// Errors as causes of a refusal, and warnings as headers.
fn told(found: Vec<Diagnostic>, warnings: &mut Vec<String>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for diagnostic in found {
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
        ("rbac.authorization.k8s.io", _) => path_fault(name),
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
