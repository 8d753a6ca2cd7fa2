//! Filters of users that protect and cannot be used, and were never valid: they refuse what would pass them.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use mesh::finding::code;
use model::parse::Validation;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::Value;
use testkit::decode;
use xds::TypeUrl;

use crate::closed::{sidecar, world};
use crate::findings::support::collect;

const SELECTS: &str = "selector: {matchLabels: {app: cart}}";

/// The spec of a WasmPlugin, and what becomes of requests to the workload: `refused`, `connections` where these are, or `open`.
const PLUGINS: &[(&str, &str)] = &[
    ("phase: AUTHN, url: [3]", "refused"),
    ("phase: AUTHZ, url: [3]", "refused"),
    ("phase: AUTHZ", "refused"),
    ("phase: AUTHNN, url: 'oci://example.com/a:1'", "refused"),
    (
        "phase: AUTHN, url: [3], failStrategy: FAIL_CLOSE",
        "refused",
    ),
    ("failStrategy: FAIL_CLOSE, url: [3]", "refused"),
    (
        "phase: STATS, failStrategy: FAIL_CLOSE, url: [3]",
        "refused",
    ),
    (
        "phase: AUTHN, url: [3], match: [{ports: [{number: 80x}]}]",
        "refused",
    ),
    ("phase: AUTHN, url: [3], type: NETWORK", "connections"),
    ("phase: AUTHN, url: [3], type: NETWROK", "connections"),
    (
        "phase: AUTHN, url: [3], match: [{ports: [{number: 8081}]}]",
        "open",
    ),
    ("phase: AUTHN, url: [3], failStrategy: FAIL_OPEN", "open"),
    ("phase: STATS, url: [3]", "open"),
    ("url: [3]", "open"),
];

fn object(kind: &str, api: &str, spec: &str) -> String {
    format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: p, namespace: shop}}\nspec: {{{spec}}}\n"
    )
}

/// What the filter of that name does at the workload's port for requests.
fn effect(text: &str, name: &str, mode: Validation) -> &'static str {
    let world = world(text, mode);
    let view = sidecar(&world);
    let set = world.set(&view, TypeUrl::Listener);
    let listener = set.get("virtualInbound").unwrap();
    let listener = decode(TypeUrl::Listener.as_str(), &listener.body);
    let chains = listener["filter_chains"].as_array().unwrap();
    let mut filters = Vec::new();
    for chain in chains {
        if chain["filter_chain_match"]["destination_port"] == 8080 {
            collect(chain, name, &mut filters);
        }
    }
    if filters.is_empty() {
        return "open";
    }
    let found = world.get(&FindingsOfMesh);
    let reported = [code::CLOSED, code::NO_EXTENSION];
    assert!(found.iter().any(|f| reported.contains(&f.code)), "{text}");
    let set = world.set(&view, TypeUrl::Extension);
    let config = decode(TypeUrl::Extension.as_str(), &set.get(name).unwrap().body);
    let of = config["typed_config"]["@type"].as_str().unwrap();
    let is_allowed = |rules: &Value| rules["policies"].as_object().is_some_and(|p| !p.is_empty());
    assert!(!is_allowed(&config["typed_config"]["rules"]), "{config:#}");
    match of.rsplit('/').next().unwrap() {
        "envoy.extensions.filters.http.rbac.v3.RBAC" => "refused",
        "envoy.extensions.filters.network.rbac.v3.RBAC" => "connections",
        other => panic!("{other}"),
    }
}

#[test]
fn a_plugin_that_cannot_be_used_refuses_what_would_pass_it() {
    let name = "extensions.istio.io/trafficextension/shop.p~istio-translated-wasmplugin";
    for (spec, expected) in PLUGINS {
        for mode in [Validation::Strict, Validation::Warn] {
            let spec = format!("{SELECTS}, {spec}");
            let text = object("WasmPlugin", "extensions.istio.io/v1alpha1", &spec);
            assert_eq!(effect(&text, name, mode), *expected, "{spec}, {mode:?}");
        }
    }
}

#[test]
fn an_extension_that_cannot_be_used_refuses_what_would_pass_it() {
    let name = "extensions.istio.io/trafficextension/shop.p";
    for (spec, expected) in [
        ("phase: AUTHZ, wasm: {url: [3]}", "refused"),
        ("phase: AUTHZ, lua: {inlineCode: [3]}", "refused"),
        ("wasm: {url: [3], failStrategy: FAIL_CLOSE}", "refused"),
        (
            "phase: AUTHN, wasm: {url: [3], type: NETWORK}",
            "connections",
        ),
        (
            "phase: AUTHN, wasm: {url: [3], failStrategy: FAIL_OPEN}",
            "open",
        ),
        ("lua: {inlineCode: [3]}", "open"),
    ] {
        for mode in [Validation::Strict, Validation::Warn] {
            let spec = format!("{SELECTS}, {spec}");
            let text = object("TrafficExtension", "extensions.istio.io/v1alpha1", &spec);
            assert_eq!(effect(&text, name, mode), expected, "{spec}, {mode:?}");
        }
    }
}

#[test]
fn one_for_other_workloads_closes_none_of_these() {
    let name = "extensions.istio.io/trafficextension/shop.p~istio-translated-wasmplugin";
    let other = "selector: {matchLabels: {app: other}}, phase: AUTHN, url: [3]";
    let text = object("WasmPlugin", "extensions.istio.io/v1alpha1", other);
    assert_eq!(effect(&text, name, Validation::Strict), "open");
    // Whom it is for cannot be read: all of the namespace.
    let unread = "selector: {matchLabels: [app]}, phase: AUTHN, url: [3]";
    let text = object("WasmPlugin", "extensions.istio.io/v1alpha1", unread);
    assert_eq!(effect(&text, name, Validation::Strict), "refused");
}
