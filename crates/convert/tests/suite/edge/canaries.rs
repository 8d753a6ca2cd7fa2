//! Canaries of a host have a budget of their own: each repeats the rules that it takes requests of.

use std::fmt::Write;

use pilothouse_convert::code;
use pilothouse_convert::edge::limits;

use crate::edge::world::{Edge, loaded};

const PATHS: usize = 500;
const CANARIES: usize = 30;

/// An Ingress of many paths of one host, of a minute of its own.
fn ingress(name: &str, minute: usize, annotations: &str) -> String {
    let mut text = format!(
        "---\n{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: {name}, namespace: shop, creationTimestamp: \
         '2026-01-01T00:{minute:02}:00Z', annotations: {{{annotations}}}}}, spec: {{ingressClassName: nginx, rules: [{{host: \
         a.test, http: {{paths: ["
    );
    for path in 0..PATHS {
        let path = format!(
            "{{path: /p{path}, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}},"
        );
        text.write_str(&path).unwrap();
    }
    text + "]}}]}}\n"
}

#[test]
fn the_newest_canaries_are_left_out_beyond_the_budget_of_a_host() {
    let mut text = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 80}]}}\n".to_owned();
    text += &ingress("base", 0, "");
    for canary in 0..CANARIES {
        let header = "nginx.ingress.kubernetes.io/canary: 'true', nginx.ingress.kubernetes.io/canary-by-header";
        let annotations = format!(
            "{header}: x-{canary}, nginx.ingress.kubernetes.io/canary-by-header-value: 'yes'"
        );
        text += &ingress(&format!("c{canary}"), canary + 1, &annotations);
    }
    let loaded = loaded(&text);
    let shown = Edge::of(&loaded).shown();
    let mut objects = shown["objects"].as_array().unwrap().iter();
    let service = objects
        .find(|object| object["spec"]["http"].is_array())
        .unwrap();
    let routes = service["spec"]["http"].as_array().unwrap().len();
    let most = PATHS + limits::CANARY_BYTES / limits::ROUTE_BYTES;
    assert!(routes > 2 * PATHS && routes <= most, "{routes}");
    let left_out: Vec<String> = loaded
        .findings
        .iter()
        .filter(|found| found.code == code::OVER_LIMIT)
        .map(|found| found.object.as_ref().unwrap().name.name.to_string())
        .collect();
    let from: Vec<&str> = service["from"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|o| o.as_str())
        .collect();
    assert!(from.contains(&"Ingress shop/c0"), "{from:?}");
    assert!(
        left_out.contains(&format!("c{}", CANARIES - 1)),
        "{left_out:?}"
    );
    // One finding for each.
    let mut once = left_out.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), left_out.len());
    assert!(!left_out.contains(&"c0".to_owned()) && !left_out.contains(&"base".to_owned()));
}
