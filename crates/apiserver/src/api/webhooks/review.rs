//! What webhooks are asked, and what they may answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::hook::ReviewVersion;
use super::{Asked, Operation};
use crate::object::map_mut;
use crate::status::Failure;

/// An object in a version.
pub(super) fn in_version(asked: &Asked<'_>, object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    if object.is_object() {
        object["apiVersion"] = asked.call.resource.api_version(version).into();
    }
    object
}

/// The request as webhooks see it, in a version of the resource, without the objects.
pub(super) fn request(asked: &Asked<'_>, uid: &str, version: &str, object: &Value) -> Value {
    let call = asked.call;
    let resource = &call.resource;
    let kind = |version: &str| json!({"group": *resource.group, "version": version, "kind": *resource.kind});
    let plural = |version: &str| json!({"group": *resource.group, "version": version, "resource": *resource.plural});
    let subresource = asked.subresource();
    let groups: Vec<&str> = call.who().groups.iter().map(|g| &**g).collect();
    let mut request = json!({
        "uid": uid,
        "kind": kind(version),
        "resource": plural(version),
        "requestKind": kind(&call.version),
        "requestResource": plural(&call.version),
        "operation": asked.operation.name(),
        "userInfo": {"username": *call.who().name, "groups": groups},
        "dryRun": call.dry_run,
        "options": options(asked),
    });
    let map = map_mut(&mut request);
    if !subresource.is_empty() {
        map.insert("subResource".to_owned(), subresource.into());
        map.insert("requestSubResource".to_owned(), subresource.into());
    }
    let (name, namespace) = (asked.name(object), asked.namespace(object));
    for (field, text) in [("name", name), ("namespace", namespace)] {
        if !text.is_empty() {
            map.insert(field.to_owned(), text.into());
        }
    }
    request
}

/// The options of the request, as its query states them.
fn options(asked: &Asked<'_>) -> Value {
    let kind = match asked.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    let query = &asked.call.request.query;
    let fields: &[&str] = match asked.operation {
        Operation::Delete => &["propagationPolicy"],
        _ => &["fieldManager", "fieldValidation"],
    };
    for field in fields.iter().filter(|field| !query.get(field).is_empty()) {
        options[*field] = query.get(field).into();
    }
    if asked.call.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}

/// The body of a call.
pub(super) fn review(version: ReviewVersion, request: Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": version.name(), "request": request})
}

/// An answer that may be.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// A JSON patch; null for none.
    pub(super) patch: Value,
    pub(super) warnings: Vec<String>,
    /// Why not, as the webhook says it.
    status: Map<String, Value>,
}

/// Reads an answer. `Err` says why it is none.
// Kubernetes: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go, 1.36.
pub(super) fn read(
    body: &[u8],
    version: ReviewVersion,
    uid: &str,
    mutating: bool,
) -> Result<Answer, String> {
    let review: Value = serde_json::from_slice(body).map_err(|e| {
        format!("failed to call webhook: couldn't get version/kind; json parse error: {e}")
    })?;
    let invalid = |why: String| Err(format!("received invalid webhook response: {why}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = (text(&review["apiVersion"]), text(&review["kind"]));
    let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"].contains(&found.0.as_str());
    let untyped = found.0.is_empty() && found.1.is_empty();
    let reviewed = known && found.1 == "AdmissionReview";
    if !(untyped || reviewed) {
        return Err(format!(
            "failed to call webhook: converting ({}, Kind={}) to (AdmissionReview): unknown conversion",
            found.0, found.1
        ));
    }
    if known && found.0 != version.name() {
        let short = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        return Err(format!(
            "failed to call webhook: converting ({}.AdmissionReview) to ({}.AdmissionReview): unknown conversion",
            short(&found.0),
            short(version.name())
        ));
    }
    let response = &review["response"];
    if !response.is_object() {
        return invalid("webhook response was absent".to_owned());
    }
    let (patch, patch_type) = (&response["patch"], &response["patchType"]);
    let has_patch = patch.as_str().is_some_and(|p| !p.is_empty());
    if version == ReviewVersion::V1 {
        let answered = text(&response["uid"]);
        if answered != uid {
            return invalid(format!("expected response.uid={uid:?}, got {answered:?}"));
        }
        if found.0 != version.name() || found.1 != "AdmissionReview" {
            return invalid(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {}, Kind={}",
                found.0, found.1
            ));
        }
        let fault = match (mutating, has_patch, patch_type.is_null()) {
            (true, true, true) => "webhook returned response.patch but not response.patchType",
            (true, false, false) => "webhook returned response.patchType but not response.patch",
            (true, true, false) if patch_type == "" => {
                "webhook returned invalid response.patchType of \"\""
            }
            (false, true, _) => "validating webhook may not return response.patch",
            (false, _, false) => "validating webhook may not return response.patchType",
            _ => "",
        };
        if !fault.is_empty() {
            return invalid(fault.to_owned());
        }
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let mut answer = Answer {
        allowed: response["allowed"] == true,
        patch: Value::Null,
        warnings: warnings
            .filter_map(|w| Some(w.as_str()?.to_owned()))
            .collect(),
        status: response["status"].as_object().cloned().unwrap_or_default(),
    };
    if mutating && answer.allowed && has_patch {
        if version == ReviewVersion::V1 && patch_type != "JSONPatch" {
            return Err(format!("unsupported patch type {patch_type}"));
        }
        answer.patch = decoded(patch.as_str().unwrap_or_default())?;
    }
    Ok(answer)
}

fn decoded(patch: &str) -> Result<Value, String> {
    let bytes = STANDARD
        .decode(patch)
        .map_err(|e| format!("failed to call webhook: illegal base64 data: {e}"))?;
    let undecodable = |e: String| format!("received undecodable patch in webhook response: {e}");
    let patch: Value = serde_json::from_slice(&bytes).map_err(|e| undecodable(e.to_string()))?;
    match patch.as_array() {
        Some(operations) if operations.is_empty() => Ok(Value::Null),
        Some(_) => Ok(patch),
        None => Err(undecodable("it is no list of operations".to_owned())),
    }
}

impl Answer {
    /// The refusal of a webhook that does not allow a request.
    // Kubernetes: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go, 1.36.
    pub(super) fn refusal(self, webhook: &str) -> Failure {
        let mut status = self.status;
        let text = |status: &Map<String, Value>, field: &str| {
            let text = status.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let code = status.get("code").and_then(Value::as_u64);
        let code = code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
        let code = code
            .filter(|code| code.as_u16() >= 400)
            .unwrap_or(StatusCode::BAD_REQUEST);
        let denied = format!("admission webhook {webhook:?} denied the request");
        let message = match (text(&status, "message"), text(&status, "reason")) {
            (message, _) if !message.is_empty() => format!("{denied}: {message}"),
            (_, reason) if !reason.is_empty() => format!("{denied}: {reason}"),
            _ => format!("{denied} without explanation"),
        };
        if !matches!(text(&status, "status").as_str(), "Failure") {
            let said = text(&status, "status");
            let kept = !said.is_empty() && said != "Success";
            let said = if kept { said } else { "Failure".to_owned() };
            status.insert("status".to_owned(), said.into());
        }
        for (field, value) in [
            ("kind", json!("Status")),
            ("apiVersion", json!("v1")),
            ("message", json!(message)),
            ("code", json!(code.as_u16())),
        ] {
            status.insert(field.to_owned(), value);
        }
        status.entry("metadata").or_insert(json!({}));
        Failure::of_status(code, message, Value::Object(status))
    }
}
