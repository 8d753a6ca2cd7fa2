//! Answers that say no, as `metav1.Status`.

use http::StatusCode;
use serde_json::{Value, json};

use crate::resource::Resource;
use crate::store::WriteError;

/// Why one field of an object is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// Machine-readable: `FieldValueInvalid`, `FieldValueRequired`, ...
    pub reason: &'static str,
    /// The field, as `spec.http[0].route`.
    pub field: String,
    /// For people; begins with what is said of the field, without the field itself.
    pub message: String,
}

impl Cause {
    /// A value that does not fit.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let shown = match value {
            Value::Object(_) => "{...}".to_owned(),
            Value::Array(_) => "[...]".to_owned(),
            other => other.to_string(),
        };
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {shown}: {detail}"),
        }
    }

    /// A value that is missing.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let detail = if detail.is_empty() {
            String::new()
        } else {
            format!(": {detail}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message: format!("Required value{detail}"),
        }
    }
}

/// A refusal. The client's to settle, unless the code is of the 500s.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The HTTP status.
    pub code: StatusCode,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// `details` of the Status.
    pub details: Value,
    /// What else there is to say, where webhooks were asked.
    told: Option<Box<Told>>,
}

/// What webhooks said.
#[derive(Clone, PartialEq, Debug, Default)]
struct Told {
    /// The whole Status, in place of the rest.
    status: Value,
    /// Warnings for the client.
    warnings: Vec<String>,
}

impl Failure {
    /// A refusal without details.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            told: None,
        }
    }

    /// A refusal in a Status that a webhook wrote.
    pub fn of_status(code: StatusCode, message: impl Into<String>, status: Value) -> Self {
        let mut failure = Self::new(code, "", message);
        failure.told = Some(Box::new(Told {
            status,
            warnings: Vec::new(),
        }));
        failure
    }

    /// With warnings that were said before it failed.
    #[must_use]
    pub fn with_warnings(mut self, warnings: &[String]) -> Self {
        if !warnings.is_empty() {
            let told = self.told.get_or_insert_default();
            told.warnings.splice(..0, warnings.iter().cloned());
        }
        self
    }

    /// Warnings for the client.
    pub fn warnings(&self) -> &[String] {
        self.told.as_ref().map_or(&[], |told| &told.warnings)
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 500.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// 507 or 500 of a write that the store did not take.
    pub fn of_store(error: &WriteError) -> Self {
        match error {
            WriteError::Full(_) => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "InsufficientStorage",
                error.to_string(),
            ),
            _ => Self::internal(error.to_string()),
        }
    }

    /// 404 of a path that leads nowhere.
    pub fn no_path() -> Self {
        let message = "the server could not find the requested resource";
        let mut failure = Self::new(StatusCode::NOT_FOUND, "NotFound", message);
        failure.details = json!({});
        failure
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 410: what is asked for is not known any more.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 429: as much as is done at once is being done.
    pub fn too_many() -> Self {
        let message = "Too many requests, please try again later.";
        let code = StatusCode::TOO_MANY_REQUESTS;
        let mut failure = Self::new(code, "TooManyRequests", message);
        failure.details = json!({"retryAfterSeconds": 1});
        failure
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 415.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    /// 404 of an object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.name());
        Self::of_object(StatusCode::NOT_FOUND, "NotFound", message, resource, name)
    }

    /// 409 of an object that is there.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.name());
        Self::of_object(
            StatusCode::CONFLICT,
            "AlreadyExists",
            message,
            resource,
            name,
        )
    }

    /// 409.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.name()
        );
        Self::of_object(StatusCode::CONFLICT, "Conflict", message, resource, name)
    }

    /// 409 of a write over a version that is not the newest.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 403 of an object.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let name_shown = if name.is_empty() {
            String::new()
        } else {
            format!(" {name:?}")
        };
        let message = format!("{}{name_shown} is forbidden: {why}", resource.name());
        Self::of_object(StatusCode::FORBIDDEN, "Forbidden", message, resource, name)
    }

    /// 422.
    pub fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Self {
        let qualified = match &*resource.group {
            "" => resource.kind.to_string(),
            group => format!("{}.{group}", resource.kind),
        };
        let told: Vec<String> = causes
            .iter()
            .map(|c| match &*c.field {
                "" => c.message.clone(),
                field => format!("{field}: {}", c.message),
            })
            .collect();
        let told = match told.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{qualified} {name:?} is invalid: {told}");
        let code = StatusCode::UNPROCESSABLE_ENTITY;
        let mut failure = Self::of_object(code, "Invalid", message, resource, name);
        failure.details["kind"] = (*resource.kind).into();
        failure.details["causes"] = causes
            .into_iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        failure
    }

    fn of_object(
        code: StatusCode,
        reason: &'static str,
        message: String,
        resource: &Resource,
        name: &str,
    ) -> Self {
        let mut details = json!({"name": name, "kind": &*resource.plural});
        if !resource.group.is_empty() {
            details["group"] = (*resource.group).into();
        }
        Self {
            code,
            reason,
            message,
            details,
            told: None,
        }
    }

    /// The `Status` that clients read.
    pub fn to_json(&self) -> Value {
        if let Some(told) = self.told.as_ref().filter(|told| !told.status.is_null()) {
            return told.status.clone();
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
