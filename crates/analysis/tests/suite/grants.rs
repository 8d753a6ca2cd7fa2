//! ReferenceGrants that nothing uses.

use crate::ours::{SERVICES, places};

#[test]
fn a_grant_that_nothing_uses_is_told() {
    let yaml = format!(
        "{SERVICES}---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r}}, spec: {{rules: [{{filters: [{{type: RequestMirror, requestMirror: {{backendRef: {{name: b, namespace: other, port: 80}}}}}}], backendRefs: [{{name: a, port: 80}}]}}]}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, metadata: {{name: g, namespace: other}}, spec: {{from: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}}, {{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: default}}, {{group: example.com, kind: Thing, namespace: default}}], to: [{{group: '', kind: Service, name: b}}]}}}}
"
    );
    assert_eq!(
        places(&yaml),
        ["PIL0115 ReferenceGrant other/g: spec.from[1]"]
    );
}

#[test]
fn a_grant_of_hosts_is_used_by_routes_of_the_namespace() {
    let places_from = |namespace: &str| {
        places(&format!(
            "{SERVICES}---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r}}, spec: {{rules: [{{backendRefs: [{{name: a, port: 80}}]}}]}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, metadata: {{name: g, namespace: other}}, spec: {{from: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: {namespace}}}], to: [{{group: gateway.networking.k8s.io, kind: HTTPRoute}}]}}}}
"
        ))
    };
    assert_eq!(places_from("default"), [""; 0]);
    assert_eq!(
        places_from("nobody"),
        ["PIL0115 ReferenceGrant other/g: spec.from[0]"]
    );
}
