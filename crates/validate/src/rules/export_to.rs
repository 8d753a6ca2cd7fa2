//! Which namespaces see an object.

use std::collections::BTreeSet;

use crate::report::{At, Report};
use crate::text::is_label;

/// What `exportTo` of a kind may hold.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Exports {
    /// Namespaces, `.` and `*`.
    Any,
    /// Also `~`, for nobody.
    OrNobody,
    /// Only the own namespace, as what selects workloads reaches no further.
    OwnNamespace,
}

/// Istio: pkg/config/validation/validation.go validateExportTo, 1.32.
pub(super) fn check(
    export_to: &[String],
    own: &str,
    may: Exports,
    at: &At<'_>,
    report: &mut Report,
) {
    let at = &at.field("exportTo");
    let mut seen = BTreeSet::new();
    for (at, text) in at.each(export_to) {
        let namespace = if text == "." { own } else { text };
        let nobody = namespace == "~" && may == Exports::OrNobody;
        if seen.contains(namespace) {
            report.error(&at, format!("{text:?} is there twice"));
        } else if nobody || namespace == "*" || is_label(namespace) {
            seen.insert(namespace);
        } else if namespace == "~" {
            report.error(&at, "only a ServiceEntry can be exported to nobody");
        } else {
            report.error(&at, format!("{namespace:?} is no namespace"));
        }
    }
    if may == Exports::OwnNamespace && !seen.is_empty() && (seen.len() > 1 || !seen.contains(own)) {
        report.error(
            at,
            "a rule that selects workloads can only be exported to its own namespace",
        );
    }
    if seen.contains("*") && export_to.len() > 1 {
        report.error(
            at,
            "`*` exports to everybody, beside it nothing has a meaning",
        );
    }
    if seen.contains("~") && export_to.len() > 1 {
        report.error(at, "`~` exports to nobody, beside it nothing has a meaning");
    }
}
