//! Of several findings of one cause, one.

use std::collections::{BTreeMap, BTreeSet};

use analysis::code;
use mesh::finding::code::{LOCAL_ENDPOINT, NO_CREDENTIAL, REFUSED_BY_ENVOY};
use model::{Diagnostic, ObjectKey};
use validate::report::codes::LIMIT;

/// Codes of one cause, that which says more first: an analyzer names the field, and the translation what becomes of requests; an
/// address on the machine of each proxy is one that no other machine can reach; a parent does not accept a route whose rules are all
/// refused.
const SAME_CAUSE: [(&str, &str); 6] = [
    (code::BACKEND_NOT_FOUND.id, convert::code::NO_BACKEND),
    (code::SECRET_NOT_FOUND.id, convert::code::NO_BACKEND),
    (code::NOT_FOUND.id, NO_CREDENTIAL),
    (LOCAL_ENDPOINT, LIMIT),
    (REFUSED_BY_ENVOY, code::NOT_ATTACHED.id),
    (convert::code::OVER_LIMIT, code::NOT_ATTACHED.id),
];

/// The findings, each of them once: several analyzers may report the same, each in its words.
pub(super) fn once(found: impl Iterator<Item = Diagnostic>) -> Vec<Diagnostic> {
    by_cause(distinct(found))
}

/// The findings without those whose cause another one names.
pub(in crate::commands) fn by_cause(found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let is_named = named_by_others(&found);
    let kept = found.into_iter().zip(is_named);
    kept.filter_map(|(found, is_named)| (!is_named).then_some(found))
        .collect()
}

/// Of each finding whether another one names its cause.
fn named_by_others(found: &[Diagnostic]) -> Vec<bool> {
    let mut fields: BTreeMap<(&str, &ObjectKey), Vec<&Diagnostic>> = BTreeMap::new();
    for finding in found {
        let wider = SAME_CAUSE.iter().filter(|(code, _)| *code == finding.code);
        for (_, wider) in wider {
            if let Some(object) = &finding.object {
                let of_object = fields.entry((*wider, object)).or_default();
                of_object.push(finding);
            }
        }
    }
    let is_named = |finding: &Diagnostic| {
        let object = finding.object.as_ref();
        let narrower = object.and_then(|object| fields.get(&(finding.code, object)));
        let mut others = narrower.into_iter().flatten();
        others.any(|other| {
            let (path, own) = (&other.path, &finding.path);
            let of_one_field =
                is_within(path, own) || is_within(own, path) || states(&finding.message, path);
            other.severity >= finding.severity && of_one_field
        })
    };
    found.iter().map(is_named).collect()
}

/// Whether a field is another one, or a part of it.
fn is_within(path: &str, outer: &str) -> bool {
    let rest = path.strip_prefix(outer).filter(|_| !outer.is_empty());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether a message gives a reason for a field, as the message of a status does: `rules[0].matches[0].path.value: ...`.
fn states(message: &str, path: &str) -> bool {
    let field = path.strip_prefix("spec.").unwrap_or(path);
    !field.is_empty() && message.contains(&format!("{field}: "))
}

/// Findings, each of them once.
fn distinct(found: impl Iterator<Item = Diagnostic>) -> Vec<Diagnostic> {
    let mut reported = BTreeSet::new();
    let is_new = |found: &Diagnostic| {
        let Diagnostic {
            code,
            object,
            path,
            message,
            ..
        } = found;
        // What is no object is told apart by its file.
        let origin = found.origin.clone().filter(|_| object.is_none());
        reported.insert((*code, object.clone(), origin, path.clone(), message.clone()))
    };
    found.filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    use model::{Kind, ObjectName, Severity};

    use super::*;

    fn finding(code: &'static str, name: &str, path: &str) -> Diagnostic {
        let object = ObjectKey {
            kind: Kind::Ingress,
            name: ObjectName::new("shop", name),
        };
        Diagnostic {
            object: Some(object),
            ..Diagnostic::new(code, Severity::Warning, code).at(path)
        }
    }

    #[test]
    fn what_an_analyzer_and_the_translation_find_of_one_field_is_one_finding() {
        let narrow = finding(
            "PIL0105",
            "a",
            "spec.rules[0].http.paths[0].backend.service.name",
        );
        let wide = "spec.rules[0].http.paths[0].backend";
        let all = [
            finding("PIL0702", "a", wide),
            narrow.clone(),
            // Another field, another object, another cause.
            finding("PIL0702", "a", "spec.rules[0].http.paths[01].backend"),
            finding("PIL0702", "b", wide),
            finding("PIL0720", "a", wide),
        ];
        let left = once(all.iter().cloned());
        assert_eq!(left, all[1..]);
    }

    #[test]
    fn a_status_that_gives_the_reason_of_a_field_is_not_reported_beside_the_field() {
        let status = |name: &str, why: &str| Diagnostic {
            message: format!("is not accepted by the Gateway web: {why}").into(),
            ..finding(code::NOT_ATTACHED.id, name, "spec.parentRefs[0]")
        };
        let of_value = "spec.rules[1].matches[0].path.value";
        let all = [
            status("a", "rules[1].matches[0].path.value: not an expression"),
            status("b", "spec.rules[0]: it weighs too much"),
            finding(REFUSED_BY_ENVOY, "a", of_value),
            finding(convert::code::OVER_LIMIT, "b", "spec.rules[0]"),
            // Another field, another object, another reason.
            status("a", "rules[11].matches[0].path.value: not an expression"),
            status("c", "rules[1].matches[0].path.value: not an expression"),
            status("b", "there is no such listener"),
        ];
        let left = once(all.iter().cloned());
        assert_eq!(left, all[2..]);
    }
}
