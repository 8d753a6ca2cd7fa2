//! Heads of objects that are not what they should be: nothing that protects is lost without an error, and no value of a Secret
//! is shown.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use pilothouse_model::Severity;
use pilothouse_model::parse::{Parsed, Validation, parse};

fn read(text: &str, validation: Validation) -> Parsed {
    parse(text, &Path::new("f.yaml").into(), validation)
}

/// How many objects are closed.
fn closed(parsed: &Parsed) -> usize {
    let documents = parsed.documents.iter();
    documents.filter(|d| d.substitute.is_some()).count()
}

fn errors(parsed: &Parsed) -> Vec<String> {
    let found = parsed.diagnostics.iter();
    let errors = found.filter(|d| d.severity == Severity::Error);
    errors.map(|d| format!("{d} {d:#}")).collect()
}

const POLICY: &str = "metadata: {name: p, namespace: shop}\nspec: {action: DENY, rules: [{}]}\n";

#[test]
fn what_protects_is_closed_where_its_kind_is_in_question() {
    let list = "kind: list\napiVersion: v1\nitems:\n- {apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: p}, spec: {action: DENY, rules: [{}]}}\n";
    for text in [
        format!("apiVersion: security.istio.io/v1\nkind: authorizationpolicy\n{POLICY}"),
        format!(
            "apiVersion: security.istio.io/v1\napiVersion: v1\nkind: AuthorizationPolicy\n{POLICY}"
        ),
        format!(
            "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nkind: Banana\n{POLICY}"
        ),
        list.to_owned(),
    ] {
        for validation in [Validation::Strict, Validation::Warn] {
            let parsed = read(&text, validation);
            assert_eq!(closed(&parsed), 1, "{text}");
            assert!(!errors(&parsed).is_empty(), "{text}");
        }
    }
}

#[test]
fn metadata_that_is_misspelt_is_an_error() {
    let text = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a, annotation: {x: y}, generateName: a-}\nspec: {}\n";
    let errors = errors(&read(text, Validation::Strict));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("unknown field `annotation`"),
        "{errors:?}"
    );
}

#[test]
fn values_of_secrets_are_not_shown() {
    for data in [
        "VALUE",
        "[VALUE]",
        "{a: {b: VALUE}}",
        "{a: VALUE, a: VALUE}",
    ] {
        let text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: shop}}\ndata: {data}\n"
        );
        for validation in [Validation::Strict, Validation::Warn] {
            let parsed = read(&text, validation);
            for diagnostic in &parsed.diagnostics {
                let shown = format!("{diagnostic:?} {diagnostic} {diagnostic:#}");
                assert!(!shown.contains("VALUE"), "{shown}");
            }
        }
    }
}
