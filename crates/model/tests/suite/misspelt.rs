//! Heads of objects that are not what they should be: nothing that protects is lost without an error, and no value of a Secret
//! is shown.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use pilothouse_model::Severity;
use pilothouse_model::parse::{Parsed, Validation, code, parse};

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

/// An Ingress, with what stands in its metadata and in its spec.
fn ingress(metadata: &str, more: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: a, namespace: shop{metadata}}}\nspec: {{rules: [{{host: a.test}}]}}\n{more}"
    )
}

/// Parts of objects that protect in places where nobody reads them.
#[test]
fn what_protects_is_closed_where_a_part_of_it_stands_in_a_wrong_place() {
    let auth = "nginx.ingress.kubernetes.io/auth-url: 'http://auth.shop'";
    let of = |kind: &str, metadata: &str, more: &str| {
        format!(
            "apiVersion: security.istio.io/v1\nkind: {kind}\nmetadata: {{name: p, namespace: shop{metadata}}}\n{more}\n"
        )
    };
    for text in [
        ingress("", &format!("annotations: {{{auth}}}\n")),
        ingress(&format!(", {auth}"), ""),
        ingress(&format!(", annotation: {{{auth}}}, annotations: ~"), ""),
        of("PeerAuthentication", ", spec: {mtls: {mode: STRICT}}", ""),
        of("RequestAuthentication", ", spec: {jwtRules: []}", ""),
        of(
            "AuthorizationPolicy",
            ", other: 1",
            "spec: {action: DENY, rules: [{}]}",
        ),
        of(
            "PeerAuthentication",
            "",
            "spec: {mtls: {mode: STRICT}}\nmtls: {}",
        ),
    ] {
        for validation in [Validation::Strict, Validation::Warn] {
            let parsed = read(&text, validation);
            assert_eq!(closed(&parsed), 1, "{text}: {parsed:?}");
            assert!(!errors(&parsed).is_empty(), "{text}");
        }
    }
}

#[test]
fn a_field_that_a_newer_kubernetes_may_have_is_a_warning_where_nothing_protects() {
    let annotated = ", annotations: {nginx.ingress.kubernetes.io/canary: 'true', nginx.ingress.kubernetes.io/auth-url: 'http://a'}";
    for text in [
        ingress(", other: 1", "more: {}\n"),
        ingress(&format!("{annotated}, other: 1"), "more: {}\n"),
    ] {
        let parsed = read(&text, Validation::Strict);
        assert_eq!(parsed.objects().count(), 1, "{parsed:?}");
        let told = parsed.diagnostics.iter();
        let told: Vec<_> = told.map(|d| (d.code, d.severity)).collect();
        assert_eq!(told, [(code::UNKNOWN_FIELD, Severity::Warning); 2]);
    }
    let known = ", uid: a, resourceVersion: '1', generation: 1, managedFields: [], ownerReferences: [], finalizers: [], \
                 deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 1, selfLink: a, generateName: a, labels: {}, \
                 clusterName: a, creationTimestamp: '2026-01-01T00:00:00Z'";
    let parsed = read(&ingress(known, "status: {}\n"), Validation::Strict);
    assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
}

#[test]
fn only_annotations_with_the_value_true_make_a_canary_that_nothing_closes() {
    let closed = |more: &str| {
        let annotations = format!(
            ", annotations: {{nginx.ingress.kubernetes.io/auth-url: 'http://auth.shop', {more}}}, other: 1"
        );
        closed(&read(&ingress(&annotations, ""), Validation::Strict))
    };
    assert_eq!(closed("app.kubernetes.io/canary: 'true'"), 1);
    assert_eq!(closed("nginx.ingress.kubernetes.io/canary: 'false'"), 1);
    assert_eq!(
        closed("nginx.ingress.kubernetes.io/canary: 'true', higress.io/canary: 'false'"),
        1
    );
    assert_eq!(closed("nginx.ingress.kubernetes.io/canary: 'true'"), 0);
}

#[test]
fn what_protects_is_closed_where_its_api_version_is_wrong() {
    let auth = ", annotations: {nginx.ingress.kubernetes.io/auth-url: 'http://auth.shop'}";
    let ingress = ingress(auth, "");
    let policy = format!("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n{POLICY}");
    let with = |text: &str, version: &str| {
        let (_, rest) = text.split_once('\n').unwrap();
        format!("apiVersion: {version}\n{rest}")
    };
    let policies = [
        "security.istio.io",
        "v1",
        "security/v1",
        "security.istio/v1",
        "authorization.k8s.io/v1",
    ];
    let ingresses = [
        "networking.k8s.io",
        "v1",
        "networking/v1",
        "networking.istio.io/v1",
        "extensions/v1beta1",
    ];
    let policies = policies.map(|version| with(&policy, version));
    let ingresses = ingresses.map(|version| with(&ingress, version));
    for text in policies.iter().chain(&ingresses) {
        for validation in [Validation::Strict, Validation::Warn] {
            let parsed = read(text, validation);
            assert_eq!(closed(&parsed), 1, "{text}: {parsed:?}");
            assert!(!errors(&parsed).is_empty(), "{text}");
        }
    }
    let told = errors(&read(&policies[0], Validation::Strict));
    let help = "did you mean AuthorizationPolicy of security.istio.io/v1?";
    assert!(told[0].contains(help), "{told:?}");
    let foreign = [
        with(&policy, "policy.linkerd.io/v1alpha1"),
        with(&ingress, "config.openshift.io/v1"),
    ];
    for text in foreign {
        let parsed = read(&text, Validation::Strict);
        assert!(errors(&parsed).is_empty(), "{text}");
        assert_eq!(parsed.diagnostics[0].code, code::FOREIGN_KIND);
    }
}

#[test]
fn what_closes_has_the_namespace_that_was_meant() {
    for metadata in [
        "metadata: {name: p, namespce: shop}",
        "metdata: {name: p, namespace: shop}",
    ] {
        let text = format!(
            "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n{metadata}\nspec: {{action: DENY, rules: [{{}}]}}\n"
        );
        for validation in [Validation::Strict, Validation::Warn] {
            let parsed = read(&text, validation);
            let closed = parsed.documents[0].substitute.as_ref().unwrap();
            assert_eq!(closed.key().to_string(), "AuthorizationPolicy shop/p");
        }
    }
}

#[test]
fn a_namespace_that_is_not_text_closes_nothing_in_another() {
    let cases: [(&str, &[&str]); 8] = [
        ("{name: p, namespace: 123}", &["AuthorizationPolicy 123/p"]),
        (
            "{name: p, namespace: true}",
            &["AuthorizationPolicy true/p"],
        ),
        ("{name: p, namespce: 123}", &["AuthorizationPolicy 123/p"]),
        ("{name: p, namespace: 1.5}", &[]),
        ("{name: p, namespace: [shop]}", &[]),
        ("{name: p, namespace: {a: shop}}", &[]),
        ("{name: p, namespce: [shop]}", &[]),
        ("{namespace: [shop]}", &[]),
    ];
    for (metadata, wanted) in cases {
        let text = format!(
            "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {metadata}\nspec: {{action: DENY, rules: [{{}}]}}\n"
        );
        for validation in [Validation::Strict, Validation::Warn] {
            let parsed = read(&text, validation);
            let closed = parsed
                .documents
                .iter()
                .filter_map(|d| d.substitute.as_ref());
            let closed: Vec<String> = closed.map(|object| object.key().to_string()).collect();
            assert_eq!(closed, wanted, "{text}");
            assert_eq!(parsed.objects().count(), 0, "{text}");
            assert!(!errors(&parsed).is_empty(), "{text}");
        }
    }
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

/// A policy as an item of a list.
const ITEM: &str = "{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: p}, spec: {action: DENY, rules: [{}]}}";

/// Documents whose head is wrong, each with a policy.
const HEADS: &[&str] = &[
    "kind: List\nitems:\n- ITEM\n",
    "kind: List\nitmes:\n- ITEM\n",
    "kind: list\nitems:\n- ITEM\n",
    "apiVersion: v1\nkind: Lits\nitems:\n- ITEM\n",
    "apiVersion: v1\nitems:\n- ITEM\n",
    "apiVersion: v1\nknd: List\nitems:\n- ITEM\n",
    "apiVersion: v1\nkind: List\nitems:\n  one: ITEM\n",
    "apiVersion: v1\nkind: List\nitems: ITEM\n",
    "apiVersion: v1\nkind: List\nitem:\n  one: ITEM\n",
    "apiVersion: v1\nkind: List\nitems: {one: {kind: List, items: [ITEM]}}\n",
    "kind: AuthorizationPolicyList\nitems:\n- {metadata: {name: p}, spec: {action: DENY, rules: [{}]}}\n",
    "kind: AuthorizationPolicy\nmetadata: {name: p}\nspec: {action: DENY, rules: [{}]}\n",
    "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicies\nmetadata: {name: p}\nspec: {action: DENY, rules: [{}]}\n",
    "apiVersion: security.istio.io/v1\nKind: AuthorizationPolicy\nmetadata: {name: p}\nspec: {action: DENY, rules: [{}]}\n",
];

#[test]
fn what_protects_is_closed_in_a_document_whose_head_is_wrong() {
    for head in HEADS {
        let text = head.replace("ITEM", ITEM);
        for validation in [Validation::Strict, Validation::Warn] {
            let parsed = read(&text, validation);
            assert_eq!(closed(&parsed), 1, "{text}: {parsed:?}");
            assert!(!errors(&parsed).is_empty(), "{text}");
        }
    }
}

/// The specs of the substitutes.
fn substitutes(text: &str) -> Vec<serde_json::Value> {
    let parsed = read(text, Validation::Strict);
    let substitutes = parsed
        .documents
        .iter()
        .filter_map(|d| d.substitute.as_ref());
    substitutes.map(|object| object.spec_json()).collect()
}

/// The specs of DestinationRules, and the hosts that are closed.
const RULES: &[(&str, &[&str])] = &[
    (
        "spec: {host: a.test, host: b.test, trafficPolicy: {tls: {mode: SIMPLE}}}",
        &["b.test", "a.test"],
    ),
    (
        "spec: {hosts: [a.test, b.test], trafficPolicy: {tls: {mode: SIMPLE}}}",
        &["a.test", "b.test"],
    ),
    (
        "spec: {host: a.test, hots: b.test, trafficPolicy: {tls: {mode: SIMPLE}}}",
        &["a.test", "b.test"],
    ),
    ("spec: {host: a.test, host: b.test}", &[]),
    ("spec: {host: a.test}\ntls: {mode: SIMPLE}", &["a.test"]),
    (
        "spec: {host: a.test}\ntrafficPolicy: {tls: {mode: SIMPLE}}",
        &["a.test"],
    ),
    (
        "spec: {host: a.test, trafficPolicy: {tls: {mode: SIMPLE}}",
        &["a.test"],
    ),
    (
        "spec:\n  hosts:\n  - a.test\n  - b.test\n  trafficPolicy:\n    tls: {mode: MUTUAL",
        &["a.test", "b.test"],
    ),
    (
        "spec: {host: a.test, trafficPolicy: {tls: {mode: DISABLE}}",
        &[],
    ),
    (
        "spec: {host: a.test, trafficPolicy: {connectionPool: {}}",
        &[],
    ),
];

#[test]
fn a_rule_is_closed_for_every_host_that_it_may_name() {
    for (spec, wanted) in RULES {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: r, namespace: shop}}\n{spec}\n"
        );
        let found = substitutes(&text);
        let hosts: Vec<&str> = found.iter().filter_map(|s| s["host"].as_str()).collect();
        assert_eq!(hosts, *wanted, "{text}");
    }
}

#[test]
fn a_document_of_json_with_a_key_twice_is_closed_as_one_of_yaml() {
    // YAML does not know these escapes.
    let text = "{\"apiVersion\": \"security.istio.io/v1\", \"kind\": \"AuthorizationPolicy\",\n\
                \t\"metadata\": {\"name\": \"p\", \"annotations\": {\"a\": \"\\ud83d\\ude00\\/\"}},\n\
                \t\"spec\": {\"action\": \"DENY\", \"rules\": [{}], \"action\": \"AUDIT\"}}\n";
    for validation in [Validation::Strict, Validation::Warn] {
        let parsed = read(text, validation);
        assert_eq!(closed(&parsed), 1, "{parsed:?}");
        let found = &parsed.diagnostics[0];
        assert_eq!(
            (found.code, &*found.path),
            (code::DUPLICATE_KEY, "spec.action")
        );
    }
}

/// Texts that hold a Secret and cannot be read as they stand.
const BROKEN_SECRETS: &[&str] = &[
    "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a: VALUE: VALUE\n",
    "apiVersion: v1\nkind: secrets\nstringData: {a: VALUE\n",
    "apiVersion: v1\nkind Secret\nstringData:\n  a: [VALUE\n",
    "stringData:\n  a: VALUE: VALUE\n",
    "apiVersion: v1\nkind: List\nitems:\n- kind: Secret\n  stringData:\n    a: VALUE: VALUE\n",
    "{\"apiVersion\": \"v1\", \"kind\": \"Sercet\", \"stringData\": {\"a\": \"VALUE\"}}\n",
    "{\"kind\": \"Secret\", \"stringData\": {\"a\": \"VALUE\"}}\n",
    "{\"apiVersion\": \"v1\", \"stringData\": {\"a\": \"VALUE\"}}\n",
    "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: VALUE}}], x: 1}\n",
    "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: VALUE}}, \
     {apiVersion: v1, kind: Service, metadata: {name: s}, spec: 3}]}\n",
];

#[test]
fn values_of_secrets_that_cannot_be_read_are_not_shown() {
    for text in BROKEN_SECRETS {
        for validation in [Validation::Strict, Validation::Warn] {
            let parsed = read(text, validation);
            assert!(!parsed.diagnostics.is_empty(), "{text}");
            for diagnostic in &parsed.diagnostics {
                let shown = format!("{diagnostic:?} {diagnostic} {diagnostic:#}");
                assert!(!shown.contains("VALUE"), "{shown}");
            }
        }
    }
    let parsed = read(BROKEN_SECRETS[0], Validation::Strict);
    let place = parsed.diagnostics[0].excerpt.as_ref().map(|e| e.line);
    assert!(place.is_some_and(|line| line >= 5), "the place is said");
}
