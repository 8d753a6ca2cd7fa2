//! Routes whose parents or backends are there and cannot be used.

use pilothouse_analysis::{Analysis, code};
use testkit::World;

use crate::ours::{SERVICES, gateway, ours, places};

#[test]
fn a_route_of_a_listener_set_that_lost_is_reported() {
    let set = |name: &str| {
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {{name: {name}}}, spec: {{parentRef: {{name: g}}, \
             listeners: [{{name: web, port: 81, protocol: HTTP}}]}}}}\n---\n"
        )
    };
    let gateway = gateway("{name: web, port: 80, protocol: HTTP}").replace(
        "gatewayClassName",
        "allowedListeners: {namespaces: {from: Same}}, gatewayClassName",
    );
    let yaml = format!(
        "{SERVICES}---\n{gateway}\n---\n{}{}\
         {{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: lost}}, spec: {{parentRefs: [{{kind: ListenerSet, name: b}}], rules: [{{backendRefs: [{{name: a, port: 80}}]}}]}}}}\n",
        set("a"),
        set("b")
    );
    assert_eq!(
        places(&yaml),
        [
            "PIL0111 HTTPRoute default/lost: spec.parentRefs[0]",
            "PIL0112 ListenerSet default/b: spec.listeners[0]",
        ]
    );
}

#[test]
fn a_backend_that_is_an_alias_of_an_unknown_host_is_reported() {
    let alias = |name: &str, host: &str| {
        format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{type: ExternalName, externalName: {host}}}}}\n---\n"
        )
    };
    let yaml = format!(
        "{SERVICES}---
{}{}{}{}
{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: e}}, spec: {{hosts: [known.example.org], ports: [{{number: 443, name: tls, protocol: TLS}}], resolution: DNS}}}}
---
{}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r}}, spec: {{parentRefs: [{{name: g}}], rules: [{{backendRefs: [{{name: outside, port: 443}}, {{name: known, port: 443}}, {{name: inside, port: 80}}, {{name: chain, port: 443}}]}}]}}}}
",
        alias("outside", "files.example.org"),
        alias("known", "known.example.org"),
        alias("inside", "a.default.svc.cluster.local"),
        alias("chain", "outside.default.svc.cluster.local"),
        gateway("{name: web, port: 80, protocol: HTTP}")
    );
    let of = |name: &str| {
        format!(
            "the Service default/{name} is an alias of files.example.org, which neither a Service nor a ServiceEntry has as its host"
        )
    };
    let path = "PIL0105 HTTPRoute default/r: spec.rules[0].backendRefs";
    assert_eq!(
        ours(&yaml),
        [
            format!("{path}[0]: {}", of("outside")),
            format!("{path}[3]: {}", of("chain")),
        ]
    );
}

#[test]
fn a_service_without_endpoints_is_reported_where_requests_lead_to_it() {
    let service = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{selector: {{app: {name}}}, ports: [{{name: http, port: 80}}]}}}}\n---\n"
        )
    };
    let slice = |name: &str| {
        format!(
            "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}, addressType: IPv4, endpoints: [], ports: []}}\n"
        )
    };
    let ingress = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}, spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}\n";
    let entry = "---\n{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: w}, spec: {address: 10.0.0.1, labels: {app: web}}}\n";
    let levels = |more: &str| -> Vec<String> {
        let yaml = service("web") + &service("unused") + ingress + more;
        let all = World::of(&yaml).get(&Analysis);
        let found = all.iter().map(|f| &f.diagnostic);
        let found = found.filter(|d| d.code == code::NO_ENDPOINTS.id);
        found
            .map(|d| format!("{:?} {}", d.severity, d.object.as_ref().unwrap()))
            .collect()
    };
    assert_eq!(levels(""), ["Info Service default/web"]);
    assert_eq!(levels(&slice("other")), ["Warning Service default/web"]);
    // Whether an endpoint is ready is not asked.
    assert_eq!(levels(&slice("web")), [""; 0]);
    assert_eq!(levels(entry), [""; 0]);
}
