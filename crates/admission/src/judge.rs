//! The answer to reviews of configuration: by the rules that folders and the API store are judged by.
// Istio: pkg/webhooks/validation/server/server.go, 1.32.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use model::parse::{Validation, code, from_json_judged};
use model::{Kind, Severity};
use serde_json::Value;
use validate::Rules;

use crate::review::{Operation, Request, Response};

/// What messages call the place of an object that comes by a request.
static FROM: LazyLock<Arc<Path>> = LazyLock::new(|| Path::new("request").into());

/// Fields at the top of an object of one of Istio's kinds.
const TOP: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Why an object is counted as not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Neither made nor changed, and so let through.
    UnsupportedOperation,
    /// Nothing that can be read.
    Undecodable,
    /// Of a kind that is not known.
    UnknownType,
    /// It does not mean anything.
    Invalid,
}

impl Reason {
    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnsupportedOperation => "unsupported_operation",
            Self::Undecodable => "yaml_decode_error",
            Self::UnknownType => "unknown_type",
            Self::Invalid => "invalid_resource",
        }
    }
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The answer.
    pub response: Response,
    /// What it counts as; `None` where the object is valid.
    pub reason: Option<Reason>,
}

impl Judgement {
    fn refused(reason: Reason, message: String) -> Self {
        Self {
            response: Response::refused(message),
            reason: Some(reason),
        }
    }
}

/// Judges the object of a request.
pub fn judge(request: &Request) -> Judgement {
    if !matches!(request.operation, Operation::Create | Operation::Update) {
        return Judgement {
            response: Response::allowed(),
            reason: Some(Reason::UnsupportedOperation),
        };
    }
    let Some(map) = request.object.as_object() else {
        let message = "cannot decode configuration: the request has no object".to_owned();
        return Judgement::refused(Reason::Undecodable, message);
    };
    let text = |field: &str| map.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, name) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // The version does not matter: each has the same schema.
    let Some(kind) = Kind::find(group, name) else {
        let message = format!("unrecognized type {group}/{version}, Kind={name}");
        return Judgement::refused(Reason::UnknownType, message);
    };
    let of_istio = kind.group().ends_with(".istio.io");
    if let Some(field) = map
        .keys()
        .find(|key| of_istio && !TOP.contains(&key.as_str()))
    {
        let place = format!("{}/{}", request.namespace, request.name);
        let message = format!("unknown field {field:?} on {name} resource {place}");
        return Judgement::refused(Reason::Invalid, message);
    }
    found(kind, request)
}

/// What the rules say.
fn found(kind: Kind, request: &Request) -> Judgement {
    let mut object = request.object.clone();
    if !kind
        .versions()
        .iter()
        .any(|v| object["apiVersion"] == format!("{}/{v}", kind.group()))
    {
        object["apiVersion"] = kind.api_version().into();
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // Nothing in it means anything, and it is long.
        metadata.remove("managedFields");
        if metadata.get("name").is_none_or(|n| n == "") && metadata.contains_key("generateName") {
            let start = metadata["generateName"].as_str().unwrap_or_default();
            metadata.insert("name".to_owned(), format!("{start}x").into());
        }
    }
    let parsed = from_json_judged(object, &FROM, Validation::Strict, &Rules);
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    for diagnostic in parsed.diagnostics {
        let said = match &diagnostic.help {
            Some(help) => format!("{}; {help}", diagnostic.message),
            None => diagnostic.message.to_string(),
        };
        let field = diagnostic.path.to_string();
        let said = match field.as_str() {
            "" => said,
            field => format!("{field}: {said}"),
        };
        match diagnostic.severity {
            // The definition in the API decides on those.
            _ if diagnostic.code == code::UNKNOWN_FIELD => warnings.push(said),
            Severity::Error => faults.push(said),
            Severity::Warning => warnings.push(said),
            Severity::Info => {}
        }
    }
    if faults.is_empty() {
        let response = Response {
            warnings,
            ..Response::allowed()
        };
        let reason = None;
        return Judgement { response, reason };
    }
    let mut judgement = Judgement::refused(
        Reason::Invalid,
        format!("configuration is invalid: {}", faults.join("; ")),
    );
    judgement.response.warnings = warnings;
    judgement
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::review::Review;

    fn judged(operation: &str, object: Value) -> Judgement {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": operation, "namespace": "shop", "name": "a", "object": object}});
        judge(&Review::read(review.to_string().as_bytes()).unwrap().request)
    }

    fn route(weight: u32) -> Value {
        let to = |host: &str, weight: u32| json!({"destination": {"host": host}, "weight": weight});
        json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"hosts": ["a"], "http": [{"route": [to("a", weight), to("b", 0)]}]}})
    }

    #[test]
    fn configuration_is_judged_by_the_rules() {
        assert_eq!(judged("CREATE", route(100)).reason, None);
        let bad = judged(
            "UPDATE",
            json!({"apiVersion": "networking.istio.io/v1", "kind": "Gateway",
            "metadata": {"name": "a", "namespace": "shop"}, "spec": {"servers": [{"hosts": []}]}}),
        );
        assert_eq!(bad.reason, Some(Reason::Invalid));
        let message = bad.response.message.unwrap();
        assert!(
            message.starts_with("configuration is invalid: spec.servers[0]"),
            "{message}"
        );
    }

    #[test]
    fn any_version_of_a_kind_is_judged() {
        let mut route = route(100);
        route["apiVersion"] = "networking.istio.io/v9".into();
        assert_eq!(judged("CREATE", route).reason, None);
    }

    #[test]
    fn a_name_that_is_to_be_generated_is_none_that_is_missing() {
        let mut route = route(100);
        route["metadata"] = json!({"generateName": "a-", "namespace": "shop"});
        assert_eq!(judged("CREATE", route).reason, None);
    }

    #[test]
    fn what_is_not_configuration_is_counted_by_its_reason() {
        let mut unknown = route(100);
        unknown["extra"] = json!(1);
        for (operation, object, reason, allowed) in [
            ("DELETE", Value::Null, Reason::UnsupportedOperation, true),
            ("CREATE", Value::Null, Reason::Undecodable, false),
            (
                "CREATE",
                json!({"apiVersion": "a.b/v1", "kind": "C"}),
                Reason::UnknownType,
                false,
            ),
            ("CREATE", unknown, Reason::Invalid, false),
        ] {
            let judged = judged(operation, object);
            assert_eq!(judged.reason, Some(reason));
            assert_eq!(judged.response.allowed, allowed);
        }
    }
}
