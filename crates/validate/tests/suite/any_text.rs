//! Texts that nobody would write are judged all the same, in little time.

use std::path::Path;

use model::parse::Validation;
use pilothouse_validate::{cel, parse, text};

/// Texts made of the pieces of good ones, the same on every run.
fn texts() -> impl Iterator<Item = String> {
    const PIECES: [&str; 40] = [
        "a",
        "*",
        ".",
        "/",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "?",
        ":",
        "%",
        "\\",
        "\"",
        "'",
        "-",
        "+",
        "^",
        "$",
        "|",
        "&&",
        "~~",
        "\\Q",
        "\\E",
        "\\C",
        "\\1",
        "[:alpha:]",
        "(?i)",
        "{1000}",
        "é",
        "\u{0}",
        "\n",
        "://",
        "http",
        "outbound_",
        "_",
        "self.all(x, x)",
        "1",
        " ",
    ];
    let mut state = 1_u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    (0..3000).map(move |_| {
        (0..next() % 12)
            .map(|_| PIECES[next() % PIECES.len()])
            .collect()
    })
}

#[test]
fn no_text_makes_a_check_panic() {
    for input in texts() {
        let _ = text::re2(&input);
        let _ = text::plugin_url(&input);
        let _ = text::jwks_uri(&input);
        let _ = text::header_value(&input);
        let _ = text::expansion(&input);
        let _ = text::substitution(&input, &input);
        let _ = text::wildcard_domain(&input);
        let _ = text::host_of_gateway_route(true, &input);
        let _ = text::namespaced_host(&input, false, false);
        let _ = text::proxy_address(&input);
        let _ = text::path_template(std::slice::from_ref(&input));
        let _ = text::attribute(&input, &[]);
        let _ = cel::parse(&input);
        let _ = cel::envoy::check(&input);
    }
}

#[test]
fn no_text_in_an_object_makes_a_rule_panic() {
    let file = Path::new("f.yaml").into();
    for input in texts().take(500) {
        let spec = serde_json::json!({
            "hosts": [input], "gateways": [input], "exportTo": [input],
            "http": [{
                "match": [{ "uri": { "regex": input }, "headers": { &input: { "prefix": input } } }],
                "route": [{ "destination": { "host": input, "subset": input } }],
                "headers": { "request": { "set": { &input: input } } },
                "retries": { "attempts": 1, "retryOn": input },
            }],
        });
        let object = serde_json::json!({ "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
            "metadata": { "name": "a" }, "spec": spec });
        let parsed = parse(&object.to_string(), &file, Validation::Warn);
        assert_eq!(parsed.documents.len(), 1);
    }
}
