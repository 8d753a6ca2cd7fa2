//! Objects as a Kubernetes API has them.

use std::path::Path;
use std::sync::Arc;

use model::kinds::AnyObject;
use model::object::Origin;
use model::parse::{Validation, from_json};
use model::{Diagnostic, SourceId};
use serde_json::Value;

/// Reads an object of an API, and says what is wrong with it. None where it cannot be used.
pub fn read(
    source: &SourceId,
    object: Value,
    validation: Validation,
) -> (Option<AnyObject>, Vec<Diagnostic>) {
    let file: Arc<Path> = Path::new("api").into();
    let parsed = from_json(object, &file, validation);
    let origin = Origin::Source(source.clone());
    let diagnostics = parsed.diagnostics.into_iter().map(|mut d| {
        d.origin = Some(origin.clone());
        d.excerpt = None;
        d
    });
    let diagnostics = diagnostics.collect();
    let mut found = parsed.documents.into_iter().find_map(|d| d.object);
    if let Some(object) = &mut found {
        object.set_origin(origin);
    }
    (found, diagnostics)
}
