//! Configurations that cannot work and look as if they did.

use crate::ours::{SERVICES, ours};

/// The findings with a code.
fn found(code: &str, yaml: &str) -> Vec<String> {
    let mut all = ours(yaml);
    all.retain(|line| line.starts_with(code));
    all
}

const SHOP: &str = "
{apiVersion: v1, kind: Service, metadata: {name: cart, namespace: shop}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: cart, namespace: shop}, spec: {host: cart, subsets: [{name: v1, labels: {version: v1}}]}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: cart, namespace: shop}, spec: {hosts: [cart], http: [{route: [{destination: {host: cart, subset: v1}}]}]}}
---
";

/// A rule of a client's namespace for the Service.
fn of_client(more: &str) -> String {
    format!(
        "{SHOP}{{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {{name: mine, namespace: client}}, spec: {{host: \
         cart.shop.svc.cluster.local, {more}}}}}"
    )
}

#[test]
fn a_rule_that_hides_a_subset_from_its_namespace_is_reported() {
    let pool = "trafficPolicy: {connectionPool: {tcp: {connectTimeout: 1s}}}";
    assert_eq!(
        found("PIL0118", &of_client(pool)),
        [
            "PIL0118 DestinationRule client/mine: spec.host: it hides the subset v1 of cart.shop.svc.cluster.local, to which \
             VirtualService shop/cart leads, so requests from client get 503"
        ]
    );
    let with_subset = format!("{pool}, subsets: [{{name: v1, labels: {{version: v1}}}}]");
    let for_some = format!("{pool}, workloadSelector: {{matchLabels: {{app: a}}}}");
    for other in [with_subset, for_some] {
        assert!(found("PIL0118", &of_client(&other)).is_empty(), "{other}");
    }
}

#[test]
fn a_destination_that_only_a_wildcard_covers_is_reported() {
    let to = |host: &str| {
        format!(
            "
{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: e}}, spec: {{hosts: ['*.wild.test', exact.wild.test], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: NONE}}}}
---
{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: v}}, spec: {{hosts: [a.test], http: [{{route: [{{destination: {{host: '{host}'}}}}]}}]}}}}
"
        )
    };
    assert_eq!(
        found("PIL0105", &to("www.wild.test")),
        [
            "PIL0105 VirtualService default/v: spec.http[0].route[0].destination.host: www.wild.test is only below *.wild.test, and \
             proxies have no cluster for it, so requests to it get 503"
        ]
    );
    for host in ["exact.wild.test", "*.wild.test"] {
        assert!(found("PIL0105", &to(host)).is_empty(), "{host}");
    }
}

#[test]
fn a_port_that_an_alias_does_not_lead_to_is_reported() {
    let yaml = format!(
        "{SERVICES}---
{{apiVersion: v1, kind: Service, metadata: {{name: alias}}, spec: {{type: ExternalName, externalName: a.default.svc.cluster.local}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: entry}}, spec: {{type: ExternalName, externalName: files.example.org, ports: [{{name: web, port: 8443}}]}}}}
---
{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: e}}, spec: {{hosts: [files.example.org], ports: [{{number: 443, name: tls, protocol: TLS}}], resolution: DNS}}}}
---
{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: i}}, spec: {{rules: [{{http: {{paths: [
  {{path: /a, pathType: Prefix, backend: {{service: {{name: alias, port: {{number: 80}}}}}}}},
  {{path: /b, pathType: Prefix, backend: {{service: {{name: alias, port: {{number: 8080}}}}}}}},
  {{path: /c, pathType: Prefix, backend: {{service: {{name: alias, port: {{name: http}}}}}}}},
  {{path: /d, pathType: Prefix, backend: {{service: {{name: entry, port: {{name: web}}}}}}}},
  {{path: /e, pathType: Prefix, backend: {{service: {{name: entry, port: {{number: 443}}}}}}}}]}}}}]}}}}
---
{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: tls, annotations: {{nginx.ingress.kubernetes.io/backend-protocol: HTTPS}}}}, spec: {{defaultBackend: {{service: {{name: entry, port: {{name: web}}}}}}}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r}}, spec: {{rules: [{{backendRefs: [{{name: alias, port: 8080}}]}}]}}}}
"
    );
    let at = "PIL0105 Ingress default/i: spec.rules[0].http.paths";
    let alias = "the Service default/alias is an alias of a.default.svc.cluster.local, which has no port 8080";
    let mut found = found("PIL0105", &yaml);
    found.sort();
    assert_eq!(
        found,
        [
            format!("PIL0105 HTTPRoute default/r: spec.rules[0].backendRefs[0].port: {alias}"),
            format!("{at}[1].backend.service.port: {alias}"),
            format!("{at}[2].backend.service.port: the Service default/alias has no port http"),
            format!(
                "{at}[3].backend.service.port: the Service default/entry is an alias of files.example.org, which has no port 8443"
            ),
        ]
    );
}

#[test]
fn a_rule_for_a_host_that_only_a_wildcard_covers_is_reported() {
    let rule = |port: u16, more: &str| {
        format!(
            "{SERVICES}---
{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: e}}, spec: {{hosts: ['*.family.test', own.family.test], ports: [{{number: {port}, name: http, protocol: HTTP}}], resolution: NONE}}}}
---
{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: v}}, spec: {{{more}, http: [{{route: [{{destination: {{host: a}}}}]}}]}}}}
"
        )
    };
    let hosts = "hosts: [own.family.test, www.family.test]";
    assert_eq!(
        found("PIL0121", &rule(9090, hosts)),
        [
            "PIL0121 VirtualService default/v: spec.hosts[1]: the rules take no request to www.family.test at the ports 9090: no \
             service has that host, and requests go where *.family.test leads"
        ]
    );
    // At port 80 proxies know the hosts of rules themselves, and gateways everywhere.
    assert!(found("PIL0121", &rule(80, hosts)).is_empty());
    let at_gateway = format!("{hosts}, gateways: [g]");
    assert!(found("PIL0121", &rule(9090, &at_gateway)).is_empty());
    assert!(found("PIL0121", &rule(9090, "hosts: ['*.family.test']")).is_empty());
}

#[test]
fn a_star_in_the_middle_of_a_pattern_is_reported() {
    let yaml = "{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: p}, spec: {rules: [{\
                from: [{source: {principals: ['*', 'cluster.local/ns/*/sa/checker', '*/sa/a', 'td/*']}}], \
                to: [{operation: {paths: ['/service/*health', '/a/{*}/b', '/c*', '*/d', '*e*'], hosts: ['api.*.test']}}]}]}}";
    let mut places: Vec<String> = found("PIL0119", yaml)
        .iter()
        .filter_map(|line| Some(line.split(": ").nth(1)?.to_owned()))
        .collect();
    places.sort();
    assert_eq!(
        places,
        [
            "spec.rules[0].from[0].source.principals[1]",
            "spec.rules[0].to[0].operation.hosts[0]",
            "spec.rules[0].to[0].operation.paths[0]",
            "spec.rules[0].to[0].operation.paths[4]",
        ]
    );
}

#[test]
fn mutual_tls_that_clients_do_not_speak_is_reported() {
    let modes = |mesh: &str, namespace: &str, own: &str| {
        format!(
            "
{{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {{name: default, namespace: istio-system}}, spec: {{mtls: {{mode: {mesh}}}}}}}
---
{{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {{name: default, namespace: app}}, spec: {{mtls: {{mode: {namespace}}}}}}}
---
{{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {{name: own, namespace: app}}, spec: {{selector: {{matchLabels: {{app: bin}}}}, mtls: {{mode: {own}}}}}}}
"
        )
    };
    for (yaml, count) in [
        (modes("DISABLE", "UNSET", "STRICT"), 1),
        (modes("PERMISSIVE", "DISABLE", "STRICT"), 1),
        (modes("DISABLE", "PERMISSIVE", "STRICT"), 0),
        (modes("DISABLE", "UNSET", "PERMISSIVE"), 0),
        (modes("UNSET", "UNSET", "STRICT"), 0),
    ] {
        assert_eq!(found("PIL0120", &yaml).len(), count, "{yaml}");
    }
}
