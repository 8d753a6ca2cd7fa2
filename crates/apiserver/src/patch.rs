//! Changes that clients send instead of whole objects.

mod strategic;

use serde_json::Value;

use crate::status::Failure;

/// The most operations of one JSON patch.
const MOST_OPERATIONS: usize = 10_000;
/// The most bytes that the copies of one JSON patch may add up to.
const MOST_COPIED: usize = 3 << 20;

/// How a patch is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, for its own kinds.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// The media types that objects of a kind take, as a refusal lists them.
    pub fn accepted(native: bool) -> Vec<&'static str> {
        const ALL: [&str; 4] = [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ];
        let all = ALL.into_iter();
        all.filter(|kind| native || !kind.contains("strategic"))
            .collect()
    }

    /// By the type of the body.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        Some(match essence {
            "application/json-patch+json" => Self::Json,
            "application/merge-patch+json" => Self::Merge,
            "application/strategic-merge-patch+json" => Self::Strategic,
            "application/apply-patch+yaml" | "application/apply-patch+json" => Self::Apply,
            _ => return None,
        })
    }
}

/// Changes an object by a patch that is not server-side apply.
///
/// # Errors
///
/// When the patch cannot be read, or does not fit the object.
pub fn patch(
    kind: PatchKind,
    object: &mut Value,
    patch: &Value,
    schema: Option<&Value>,
) -> Result<(), Failure> {
    match kind {
        PatchKind::Json => json(object, patch),
        PatchKind::Merge if patch.is_object() => {
            json_patch::merge(object, patch);
            Ok(())
        }
        PatchKind::Strategic if patch.is_object() => strategic::merge(object, patch, schema),
        _ => Err(Failure::bad_request("the patch is no object")),
    }
}

fn json(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let operations = patch.as_array().map_or(0, Vec::len);
    if operations > MOST_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {operations}"
        );
        return Err(Failure::new(
            http::StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        ));
    }
    let patch: json_patch::Patch = serde::Deserialize::deserialize(patch)
        .map_err(|e| Failure::bad_request(format!("error decoding patch: {e}")))?;
    let mut copied = 0;
    for operation in &patch.0 {
        if let json_patch::PatchOperation::Copy(copy) = operation
            && let Some(from) = object.pointer(copy.from.as_str())
        {
            copied += from.to_string().len();
            if copied > MOST_COPIED {
                let message = "the copies of the JSON patch are too large";
                return Err(Failure::new(
                    http::StatusCode::PAYLOAD_TOO_LARGE,
                    "RequestEntityTooLarge",
                    message,
                ));
            }
        }
        json_patch::patch(object, std::slice::from_ref(operation)).map_err(|_| {
            let message = "the server rejected our request due to an error in our request";
            Failure::new(http::StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_json_patch_changes_what_it_points_at() {
        let mut object = json!({"data": {"a": "1"}});
        patch(PatchKind::Json, &mut object, &json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "2"}]), None).unwrap();
        assert_eq!(object, json!({"data": {"a": "2"}}));
        let error = patch(
            PatchKind::Json,
            &mut object,
            &json!([{"op": "test", "path": "/data/a", "value": "1"}]),
            None,
        )
        .unwrap_err();
        assert_eq!(error.code, 422);
    }

    #[test]
    fn copies_cannot_blow_an_object_up() {
        let mut object = json!({"data": {"a": "x".repeat(1 << 20)}});
        let copies: Vec<Value> = (0..40)
            .map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/c{n}")}))
            .collect();
        let error = patch(PatchKind::Json, &mut object, &json!(copies), None).unwrap_err();
        assert_eq!(error.code, 413);
    }

    #[test]
    fn a_merge_patch_takes_out_what_it_sets_to_null() {
        let mut object = json!({"data": {"a": "1", "b": "2"}});
        patch(
            PatchKind::Merge,
            &mut object,
            &json!({"data": {"a": null, "c": "3"}}),
            None,
        )
        .unwrap();
        assert_eq!(object, json!({"data": {"b": "2", "c": "3"}}));
    }
}
