//! Bodies of requests: JSON, YAML or protobuf, and whether their fields are known and without duplicates.
//!
//! What becomes of a body with unknown or duplicate fields is for the client to say: `fieldValidation=Strict` rejects it, `Warn`,
//! which is the default, answers with warnings, and `Ignore` says nothing. Unknown fields are dropped, and of duplicate ones the last
//! counts. The options of a deletion are rejected where a field is duplicated.
// Kubernetes: apimachinery/pkg/runtime/serializer/json/json.go, apiserver/pkg/endpoints/handlers/patch.go, 1.36.

use model::parse::{Decoded, DuplicateKey, Step, decode_json, decode_yaml};
use serde_json::Value;

use super::{Call, Request};
use crate::protobuf;
use crate::schema::dotted;
use crate::status::Failure;

/// The most duplicate fields of one body that are reported.
const MOST: usize = 100;

/// What a client sent.
pub(super) struct Sent {
    pub(super) value: Value,
    pub(super) duplicates: Duplicates,
}

/// The duplicate fields of a body, as they are reported to the client.
#[derive(Default)]
pub(super) struct Duplicates {
    reported: Vec<String>,
    is_yaml: bool,
}

impl Duplicates {
    /// Those of a body. `of` is what it is, where that is said.
    fn new(mut found: Vec<DuplicateKey>, of: &str) -> Self {
        found.sort_by_key(|key| key.line);
        found.truncate(MOST);
        let words = found.iter().map(|key| format!("{of}{}", in_words(key)));
        let mut reported: Vec<String> = words.collect();
        reported.dedup();
        Self {
            reported,
            is_yaml: found.iter().any(|key| key.first_line.is_some()),
        }
    }

    /// What a strict decoder says.
    fn errors(&self) -> Vec<String> {
        match self.is_yaml {
            true => vec![format!(
                "yaml: unmarshal errors:\n  {}",
                self.reported.join("\n  ")
            )],
            false => self.reported.clone(),
        }
    }
}

/// A duplicate field as the decoders of Kubernetes report it: that of JSON knows its path, that of YAML its line.
fn in_words(key: &DuplicateKey) -> String {
    let path = dotted(&key.path);
    match (key.first_line, key.path.0.last()) {
        (Some(_), Some(Step::Field(name))) => {
            let within = match key.path.0.len() {
                1 => String::new(),
                _ => format!(" ({path})"),
            };
            format!("line {}: key {name:?} already set in map{within}", key.line)
        }
        _ => format!("duplicate field {path:?}"),
    }
}

impl Sent {
    /// Reads a body as JSON, or as YAML or protobuf where it says so.
    ///
    /// # Errors
    ///
    /// When it is of another type, or not what it says.
    pub(super) fn read(request: &Request) -> Result<Self, Failure> {
        let kind = request.content_type.split(';').next();
        let kind = kind.unwrap_or_default().trim();
        match kind {
            "application/yaml" | "application/apply-patch+yaml" => yaml(&request.body),
            protobuf::CONTENT_TYPE => of_protobuf(&request.body),
            ""
            | "application/json"
            | "application/json-patch+json"
            | "application/merge-patch+json"
            | "application/strategic-merge-patch+json"
            | "application/apply-patch+json" => {
                let of = match kind {
                    "application/json-patch+json" => "json patch ",
                    _ => "",
                };
                decode_json(&request.body)
                    .map(|decoded| Self::of(decoded, of))
                    .map_err(|e| Failure::bad_request(format!("error decoding JSON: {e}")))
            }
            _ => Err(Failure::unsupported_media_type(&[
                "application/json",
                "application/yaml",
                protobuf::CONTENT_TYPE,
            ])),
        }
    }

    fn of(decoded: Decoded, of: &str) -> Self {
        Self {
            value: decoded.value,
            duplicates: Duplicates::new(decoded.duplicates, of),
        }
    }
}

fn yaml(body: &[u8]) -> Result<Sent, Failure> {
    if let Ok(decoded) = decode_json(body) {
        return Ok(Sent::of(decoded, ""));
    }
    let text =
        std::str::from_utf8(body).map_err(|_| Failure::bad_request("the body is no text"))?;
    let mut documents = decode_yaml(text);
    match (documents.pop(), documents.is_empty()) {
        (Some(Ok(decoded)), true) => Ok(Sent::of(decoded, "")),
        (Some(Err(error)), _) => Err(Failure::bad_request(format!(
            "error decoding YAML: {error}"
        ))),
        _ => Err(Failure::bad_request(
            "the body holds no single YAML document",
        )),
    }
}

fn of_protobuf(body: &[u8]) -> Result<Sent, Failure> {
    let value = protobuf::decode(body).map_err(|error| match error {
        protobuf::DecodeError::Malformed => Failure::bad_request(error.to_string()),
        protobuf::DecodeError::Unknown(_) => {
            let status = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
            Failure::new(status, "UnsupportedMediaType", error.to_string())
        }
    })?;
    Ok(Sent {
        value,
        duplicates: Duplicates::default(),
    })
}

/// A body that is not to be stored, whatever its fields.
pub(super) fn read_body(request: &Request) -> Result<Value, Failure> {
    Sent::read(request).map(|sent| sent.value)
}

/// The options of a deletion, which may have no duplicate field: which of them counts decides about what is deleted.
///
/// # Errors
///
/// When the body cannot be read, or has a duplicate field, whatever `fieldValidation` says.
pub(super) fn read_delete_options(request: &Request) -> Result<Value, Failure> {
    let sent = Sent::read(request)?;
    if sent.duplicates.reported.is_empty() {
        return Ok(sent.value);
    }
    Err(Failure::bad_request(format!(
        "DeleteOptions cannot be read: strict decoding error: {}",
        sent.duplicates.errors().join(", ")
    )))
}

/// Reports fields that are duplicate or unknown, as the client wishes.
///
/// # Errors
///
/// When the client wants that to be rejected.
pub(super) fn validate_fields(
    call: &Call<'_>,
    duplicates: &Duplicates,
    unknown: &[String],
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    if duplicates.reported.is_empty() && unknown.is_empty() {
        return Ok(());
    }
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    match call.request.query.get("fieldValidation") {
        "Strict" => {
            let (kind, version) = (&call.resource.kind, &call.version);
            let mut errors = duplicates.errors();
            errors.extend(unknown);
            Err(Failure::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                errors.join(", ")
            )))
        }
        "Ignore" => Ok(()),
        "" | "Warn" => {
            warnings.extend(duplicates.reported.iter().cloned());
            warnings.extend(unknown);
            Ok(())
        }
        other => Err(Failure::bad_request(format!(
            "fieldValidation: Unsupported value: {other:?}"
        ))),
    }
}
