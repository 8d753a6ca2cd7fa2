//! Limits of what stands in the metadata of every object.
// Kubernetes: k8s.io/apimachinery/pkg/api/validation/objectmeta.go and apis/meta/v1/validation.

use model::labels;
use model::parse::Raw;

use crate::report::{At, Report};

/// Bytes of all annotations of an object.
const LARGEST_ANNOTATIONS: usize = 256 << 10;

pub(super) fn check(object: Raw<'_>, report: &mut Report) {
    let Some(metadata) = object.get("metadata") else {
        return;
    };
    let top = At::TOP;
    let at = top.field("metadata");
    if let Some(pairs) = metadata.get("labels") {
        check_labels(pairs, &at.field("labels"), report);
    }
    let at = at.field("annotations");
    let mut size = 0;
    let annotations = metadata.get("annotations").and_then(Raw::all_entries);
    for (key, value) in annotations.into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        // Keys of annotations may have upper-case prefixes, labels may not; their form is the same otherwise.
        if let Some(fault) = labels::fault(&key.to_ascii_lowercase(), "") {
            let fault = fault.replace("a label", "an annotation");
            report.error(&at.field(key), format!("{key:?} {fault}"));
        }
    }
    if size > LARGEST_ANNOTATIONS {
        let message = format!("annotations have {size} bytes, more than {LARGEST_ANNOTATIONS}");
        report.error(&at, message);
    }
}

/// Checks labels as written: their keys and values. Values that are no text are for reading to find.
pub(super) fn check_labels(pairs: Raw<'_>, at: &At<'_>, report: &mut Report) {
    for (key, value) in pairs.all_entries().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if let Some(fault) = labels::fault(key, "") {
            report.error(&at.field(key), format!("{key:?} {fault}"));
        } else if let Some(fault) = value_fault(value) {
            report.error(&at.field(key), format!("{value:?} {fault}"));
        }
    }
}

fn value_fault(value: &str) -> Option<&'static str> {
    if value.len() > 63 {
        Some("has more than 63 characters, which no value of a label can have")
    } else if labels::fault("key", value).is_some() {
        Some(
            "is no value of a label: it needs letters, digits, -, _ and ., with a letter or digit at both ends",
        )
    } else {
        None
    }
}
