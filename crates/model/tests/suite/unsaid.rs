//! Documents that name no kind, or one that does not exist, and texts that are not UTF-8: what they are to protect is closed.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use pilothouse_model::Severity;
use pilothouse_model::parse::{Judge, Parsed, Validation, parse, parse_undecoded};

/// Judges nothing.
struct Unjudged;

impl Judge for Unjudged {}

fn read(text: &str, validation: Validation) -> Parsed {
    parse(text, &Path::new("f.yaml").into(), validation)
}

/// What is closed: kind, namespace and name of each.
fn closed(parsed: &Parsed) -> Vec<String> {
    let documents = parsed.documents.iter();
    let substitutes = documents.filter_map(|d| d.substitute.as_ref());
    substitutes.map(|object| object.key().to_string()).collect()
}

fn errors(parsed: &Parsed) -> usize {
    let found = parsed.diagnostics.iter();
    found.filter(|d| d.severity == Severity::Error).count()
}

const DENY: &str = "metadata: {name: p, namespace: shop}\nspec: {action: DENY, rules: [{from: [{source: {ipBlocks: [10.0.0.0/8]}}]}]}\n";
const STRICT: &str = "metadata: {name: p, namespace: shop}\nspec: {mtls: {mode: STRICT}}\n";
const TOKENS: &str = "metadata: {name: p, namespace: shop}\nspec: {jwtRules: [{issuer: a}]}\n";
const RULE: &str = "metadata: {name: p, namespace: shop}\nspec: {host: a.test, trafficPolicy: {tls: {mode: SIMPLE}}}\n";
const INGRESS: &str = "metadata: {name: p, namespace: shop, annotations: {nginx.ingress.kubernetes.io/auth-url: 'http://a'}}\nspec: {rules: [{host: a.test}]}\n";
const BACKEND: &str = "metadata: {name: p, namespace: shop}\nspec: {targetRefs: [{group: '', kind: Service, name: s}], validation: {hostname: a.test}}\n";

#[test]
fn what_a_text_that_is_not_yaml_protects_is_closed_by_its_fields_where_its_namespace_is_stated() {
    let broken = |metadata: &str, spec: &str| format!("metadata:\n{metadata}spec:\n{spec}  x: [\n");
    let metadata = "  name: p\n  namespace: shop\n";
    let rules = "  action: DENY\n  rules:\n  - from:\n    - source: {ipBlocks: [10.0.0.0/8]}\n";
    let annotated = "  name: p\n  namespace: shop\n  annotations:\n    nginx.ingress.kubernetes.io/auth-url: http://a\n";
    let cases = [
        (metadata, rules, "AuthorizationPolicy shop/p"),
        (
            metadata,
            "  mtls:\n    mode: STRICT\n",
            "PeerAuthentication shop/p",
        ),
        (
            metadata,
            "  jwtRules:\n  - issuer: a\n",
            "RequestAuthentication shop/p",
        ),
        (
            metadata,
            "  host: a.test\n  trafficPolicy:\n    tls:\n      mode: SIMPLE\n",
            "DestinationRule shop/p",
        ),
        (annotated, "  rules:\n  - host: a.test\n", "Ingress shop/p"),
    ];
    for (metadata, spec, wanted) in cases {
        let text = broken(metadata, spec);
        let parsed = read(&text, Validation::Strict);
        assert_eq!(closed(&parsed), [wanted], "{text}");
        assert_eq!(errors(&parsed), 1, "{text}");
    }
    let others = [
        // Whose it is is not said.
        broken("  name: p\n", rules),
        broken(metadata, "  rules:\n  - host: a.test\n"),
        broken(metadata, "  http:\n  - mtls:\n      mode: STRICT\n"),
        format!("kind: Other\n{}", broken(metadata, rules)),
        format!("apiVersion: example.com/v1\n{}", broken(metadata, rules)),
    ];
    for text in others {
        let parsed = read(&text, Validation::Strict);
        assert_eq!(closed(&parsed), [""; 0], "{text}");
    }
}

#[test]
fn what_a_document_without_a_kind_protects_is_closed() {
    let cases = [
        ("security.istio.io/v1", DENY, "AuthorizationPolicy"),
        ("security.istio.io/v1", STRICT, "PeerAuthentication"),
        ("security.istio.io/v1", TOKENS, "RequestAuthentication"),
        ("securty.istio.io/v1", DENY, "AuthorizationPolicy"),
        (
            "security.istio.io/v1",
            "metadata: {name: p, namespace: shop}\n",
            "AuthorizationPolicy",
        ),
        ("networking.istio.io/v1", RULE, "DestinationRule"),
        ("networking.k8s.io/v1", INGRESS, "Ingress"),
        ("gateway.networking.k8s.io/v1", BACKEND, "BackendTLSPolicy"),
        ("", DENY, "AuthorizationPolicy"),
        ("", STRICT, "PeerAuthentication"),
        ("", TOKENS, "RequestAuthentication"),
        ("", RULE, "DestinationRule"),
        ("", INGRESS, "Ingress"),
        ("", BACKEND, "BackendTLSPolicy"),
    ];
    for (version, object, kind) in cases {
        let head = match version {
            "" => String::new(),
            _ => format!("apiVersion: {version}\n"),
        };
        let document = format!("{head}{object}");
        let inner: String = document.lines().map(|line| format!("  {line}\n")).collect();
        let item = inner.replacen("  ", "- ", 1);
        for text in [
            document.clone(),
            format!("apiVersion: v1\nkind: List\nitems:\n{item}"),
            item.clone(),
        ] {
            for validation in [Validation::Strict, Validation::Warn] {
                let parsed = read(&text, validation);
                assert_eq!(closed(&parsed), [format!("{kind} shop/p")], "{text}");
                assert!(errors(&parsed) > 0, "{text}");
                assert_eq!(parsed.objects().count(), 0, "{text}");
            }
        }
    }
}

#[test]
fn what_a_policy_of_a_kind_that_does_not_exist_protects_is_closed_for_what_it_selects() {
    let text = "apiVersion: security.istio.io/v1\nkind: AuthPolicy\nmetadata: {name: p, namespace: shop}\n\
                spec: {selector: {matchLabels: {app: x}}, action: DENY, rules: [{}]}\n";
    let parsed = read(text, Validation::Strict);
    assert_eq!(closed(&parsed), ["AuthorizationPolicy shop/p"]);
    let spec = parsed.documents[0].substitute.as_ref().unwrap().spec_json();
    assert_eq!(spec["selector"]["matchLabels"]["app"], "x", "{spec}");
    let list = format!(
        "apiVersion: security.istio.io/v1\nkind: AuthPolicyList\nitems:\n- apiVersion: security.istio.io/v1\n  kind: AuthorizationPolicy\n  {}",
        DENY.replace('\n', "\n  ")
    );
    let parsed = read(&list, Validation::Strict);
    assert_eq!(closed(&parsed), ["AuthorizationPolicy shop/p"], "{list}");
    let broken = format!("{text}x: [");
    for text in [
        broken.clone(),
        broken.replace("kind: AuthPolicy\n", ""),
        broken.replace("security.", "securty."),
    ] {
        let parsed = read(&text, Validation::Strict);
        assert_eq!(closed(&parsed), ["AuthorizationPolicy shop/p"], "{text}");
    }
}

#[test]
fn objects_of_others_and_what_does_not_protect_are_not_closed() {
    for text in [
        format!("apiVersion: kuadrant.io/v1\nkind: AuthPolicy\n{DENY}"),
        format!("apiVersion: kuadrant.io/v1\n{DENY}"),
        format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n{INGRESS}"),
        "apiVersion: networking.k8s.io/v1\nmetadata: {name: p}\nspec: {rules: [{host: a.test}]}\n".to_owned(),
        "metadata: {name: p}\nspec: {replicas: 1}\n".to_owned(),
        "metadata: {name: p}\nspec: {rules: [{host: a.test}]}\n".to_owned(),
        "apiVersion: security.istio.io/v1\nmetadata: {name: p}\nspec: {action: AUDIT, rules: [{}]}\n".to_owned(),
        "- a\n- {b: c}\n".to_owned(),
    ] {
        let parsed = read(&text, Validation::Strict);
        assert_eq!(closed(&parsed), [""; 0], "{text}");
    }
}

/// The bytes of a text in UTF-16.
fn wide(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let mark = std::iter::once(0xfeff_u16);
    mark.chain(text.encode_utf16()).flat_map(unit).collect()
}

#[test]
fn what_a_text_that_is_not_utf_8_protects_is_closed() {
    let read = |bytes: &[u8]| {
        let file = Path::new("f.yaml").into();
        parse_undecoded(bytes, &file, Validation::Strict, &Unjudged)
    };
    let policy = "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}\nspec: {action: DENY, rules: [{}]}\n";
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n";
    // A comment in Latin-1.
    let latin = [policy.as_bytes(), b"# f\xfcr den Laden\n"].concat();
    let before = [format!("{service}---\n").as_bytes(), &latin].concat();
    for (bytes, objects, said) in [
        (latin, 0, "the file is not UTF-8 from byte 133 on"),
        (before, 1, "the file is not UTF-8 from byte"),
        (
            wide(policy, u16::to_le_bytes),
            0,
            "the file is UTF-16, not UTF-8",
        ),
        (
            wide(policy, u16::to_be_bytes),
            0,
            "the file is UTF-16, not UTF-8",
        ),
    ] {
        let parsed = read(&bytes);
        assert_eq!(closed(&parsed), ["AuthorizationPolicy shop/p"], "{said}");
        assert_eq!(parsed.objects().count(), objects, "{said}");
        assert_eq!(errors(&parsed), 1, "{said}");
        let error = parsed.diagnostics[0].to_string();
        assert!(error.contains(said), "{error}");
    }
    let parsed = read(b"\xff\xff\xff");
    assert_eq!((parsed.documents.len(), errors(&parsed)), (1, 1));
    assert_eq!(closed(&parsed), [""; 0]);
}
