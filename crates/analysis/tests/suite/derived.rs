//! What is said between written objects and those that were made of others.

use std::sync::Arc;

use model::Diagnostic;
use model::settings::Settings;
use pilothouse_analysis::Analysis;
use testkit::{World, settings};

/// What is found of these codes: `code object: path: message`.
fn of_codes(codes: &[&str], settings: Settings, yaml: &str) -> Vec<String> {
    let mut world = World::new(settings);
    world.put(yaml);
    let all = world.get(&Analysis);
    let wanted = all
        .iter()
        .map(|f| &f.diagnostic)
        .filter(|d| codes.contains(&d.code));
    let line = |d: &Diagnostic| {
        let object = d.object.as_ref().expect("each is about an object");
        format!("{} {object}: {}: {}", d.code, d.path, d.message)
    };
    wanted.map(line).collect()
}

#[test]
fn a_gateway_that_serves_hosts_of_another_is_told_which_and_where() {
    let gateway = |name: &str, hosts: &str| {
        format!(
            "{{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {{name: {name}}}, spec: {{selector: {{app: edge}}, \
             servers: [{{port: {{number: 80, name: http, protocol: HTTP}}, hosts: {hosts}}}]}}}}\n---\n"
        )
    };
    let yaml = [gateway("a", "[x.test, own.test]"), gateway("b", "[x.test]")].concat();
    let told = |of: &str, other: &str| {
        format!(
            "IST0145 Gateway default/{of}: spec.servers[0]: conflicts with default/{other}: each serves x.test on port 80 of the \
             workloads with app=edge"
        )
    };
    assert_eq!(
        of_codes(&["IST0145"], settings(""), &yaml),
        [told("a", "b"), told("b", "a")]
    );
}

/// Each of them leads to its Service by TLS, and has port 80 for all hosts.
const INGRESSES: &str = "
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{name: https, port: 443}]}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: one, annotations: {nginx.ingress.kubernetes.io/backend-protocol: HTTPS, kubernetes.io/ingress.class: CLASS}}, spec: {rules: [{host: one.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 443}}}}]}}]}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: two, annotations: {nginx.ingress.kubernetes.io/backend-protocol: HTTPS, kubernetes.io/ingress.class: CLASS}}, spec: {rules: [{host: two.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 443}}}}]}}]}}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: written, namespace: istio-system}, spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}}
";

#[test]
fn nobody_is_told_of_objects_that_nobody_wrote() {
    let codes = ["IST0128", "IST0129", "IST0145", "IST0174", "PIL0102"];
    let plain = INGRESSES.replace("CLASS", "istio");
    assert_eq!(of_codes(&codes, settings(""), &plain), [""; 0]);
    let mut of_nginx = settings("");
    Arc::make_mut(&mut of_nginx.features).edge_classes = "nginx".into();
    let annotated = INGRESSES.replace("CLASS", "nginx");
    assert_eq!(of_codes(&codes, of_nginx, &annotated), [""; 0]);
}
