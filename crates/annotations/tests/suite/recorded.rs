//! What Higress's own tests of its parsers say, where the recordings are at hand. The tests of what annotations become are
//! those of the crate that makes routes of them.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod shapes;

use model::Labels;
use pilothouse_annotations::{Annotations, Defaults, Dialect, read};
use serde_json::{Value, json};
use testkit::{Score, differences, recording};

/// A test of the table: its name, and what its rows show of what was read.
type Shape = (&'static str, fn(&Value, &Annotations) -> Value);

const SHAPES: [Shape; 19] = [
    ("TestCanaryParse", shapes::canary),
    ("TestCorsParse", shapes::cors),
    ("TestFallbackParse", shapes::fallback),
    ("TestParse", shapes::tls),
    ("TestConvertTLSVersion", shapes::version),
    ("TestNeedDownstreamTLS", shapes::needs_tls),
    ("TestHeaderControlParse", shapes::headers),
    ("TestHttp2RpcParse", shapes::rpc),
    ("TestIgnoreCaseMatching_Parse", shapes::ignore_case),
    ("TestIPAccessControlParse", shapes::addresses),
    ("TestLoadBalanceParse", shapes::balance),
    ("TestLocalRateLimitParse", shapes::rate),
    ("TestMatch_ParseMethods", shapes::methods),
    ("TestMatch_ParseHeaders", shapes::matched_headers),
    ("TestMatch_ParseQueryParams", shapes::matched_query),
    ("TestMCPServer_Parse", shapes::mcp),
    ("TestParseMirror", shapes::mirror),
    ("TestRewriteParse", shapes::rewrite),
    ("TestUpstreamTLSParse", shapes::backend),
];

/// The annotations of a row: as they are, or made of what the row says.
fn inputs(case: &Value, test: &str) -> Vec<Labels> {
    let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
    let stated = match test {
        "TestConvertTLSVersion" => json!({"higress.io/tls-min-protocol-version": text("version")}),
        "TestNeedDownstreamTLS" => case["annotations"].clone(),
        "TestMatch_ParseHeaders" => {
            let (kind, key) = match text("key").strip_prefix(':') {
                Some(key) => ("pseudo-header", key.to_owned()),
                None => ("header", text("key")),
            };
            json!({format!("higress.io/{}-match-{kind}-{key}", text("typ")): text("value")})
        }
        "TestMatch_ParseQueryParams" => {
            json!({format!("higress.io/{}-match-query-{}", text("typ"), text("key")): text("value")})
        }
        _ => case["input"].clone(),
    };
    match stated {
        Value::Array(several) => several.iter().map(labels).collect(),
        one => vec![labels(&one)],
    }
}

fn labels(object: &Value) -> Labels {
    let pairs = object.as_object().into_iter().flatten();
    pairs
        .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn annotations_are_read_as_higress_reads_them() {
    let mut score = Score::default();
    let Some(path) = recording("higress-tables/annotations.json") else {
        return;
    };
    let tables: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (name, shape) in &SHAPES {
        let mut all = tables.as_array().unwrap().iter();
        let table = all.find(|table| table["test"] == *name).unwrap();
        for case in table["cases"].as_array().unwrap() {
            for input in inputs(case, name) {
                let read = read(&input, Dialect::Higress, &Defaults::default());
                let found = shape(&json!(input), &read);
                score.count(
                    name,
                    &differences(&shapes::plain(&case["expect"]), &shapes::plain(&found)),
                );
            }
        }
    }
    score.as_listed(include_str!("../differences/higress.txt"));
}
