//! AuthorizationPolicies that cannot be enforced as written.

use mesh::finding::code;
use pilothouse_xlate as xlate;
use serde_json::{Value, json};
use testkit::{World, settings};
use xlate::findings::FindingsOfMesh;

use crate::findings::support::{Case, HTTP_ONLY, policy};

const HTTP_RBAC: &str = "envoy.filters.http.rbac";
const NETWORK_RBAC: &str = "envoy.filters.network.rbac";

fn about_policy(code: &'static str, path: &str) -> (&'static str, String, String) {
    (code, "AuthorizationPolicy shop/p".into(), path.into())
}

/// Rules that allow nobody anything.
fn allows_nothing(rbac: &Value) -> bool {
    rbac["rules"].is_object()
        && rbac["rules"]["action"].is_null()
        && rbac["rules"]["policies"].is_null()
}

/// Rules that deny everybody everything.
fn denies_all(rbac: &Value) -> bool {
    let any = json!([{"and_rules": {"rules": [{"any": true}]}}]);
    let anybody = json!([{"and_ids": {"ids": [{"any": true}]}}]);
    let policies = rbac["rules"]["policies"].as_object();
    rbac["rules"]["action"] == "DENY"
        && policies.is_some_and(|p| {
            p.values()
                .any(|p| p["permissions"] == any && p["principals"] == anybody)
        })
}

#[test]
fn policies_that_are_understood_have_no_findings() {
    let case = Case::new(&policy(
        "{action: DENY, rules: [{from: [{source: {namespaces: [evil]}}]}]}",
    ));
    assert_eq!(case.findings(), []);
}

#[test]
fn a_condition_that_is_not_understood_allows_nothing() {
    for rule in [
        "{when: [{key: source.namspace, values: [a]}]}",
        "{from: [{source: {ipBlocks: [everywhere]}}]}",
        "{to: [{operation: {ports: [http]}}]}",
        "{when: [{key: 'request.headers[x', values: [a]}]}",
        "{when: [{key: experimental.envoy.filters.a.b, values: [a]}]}",
        // For these Envoy would refuse the listener, and stay with what it had.
        "{when: [{key: 'experimental.envoy.filters.a[]', values: [a]}]}",
        "{when: [{key: 'request.headers[]', values: [a]}]}",
        "{when: [{key: 'request.auth.claims[]', values: [a]}]}",
        "{when: [{key: 'request.auth.claims', values: [a]}]}",
        "{to: [{operation: {paths: ['/{**}/{*}']}}]}",
        "{to: [{operation: {paths: ['/{name}']}}]}",
        "{to: [{operation: {paths: ['/a b/{*}']}}]}",
    ] {
        let case = Case::with(
            settings(""),
            json!({}),
            &format!(
                "{HTTP_ONLY}---{}",
                policy(&format!("{{action: ALLOW, rules: [{rule}]}}"))
            ),
        );
        assert_eq!(
            case.only(),
            about_policy(code::NOT_UNDERSTOOD, "spec.rules[0]"),
            "{rule}"
        );
        assert!(allows_nothing(&case.filter(8080, HTTP_RBAC)), "{rule}");
    }
}

#[test]
fn a_condition_that_is_not_understood_denies_more() {
    let case = Case::new(&policy(
        "{action: DENY, rules: [{when: [{key: source.namspace, values: [a]}]}]}",
    ));
    assert_eq!(
        case.only(),
        about_policy(code::NOT_UNDERSTOOD, "spec.rules[0]")
    );
    assert!(denies_all(&case.filter(8080, HTTP_RBAC)));
    assert!(denies_all(&case.filter(9000, NETWORK_RBAC)));
}

#[test]
fn what_an_unknown_authorizer_should_be_asked_about_is_denied() {
    let authz = "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: authz, namespace: shop}
spec:
  hosts: [authz.shop.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.9}]
";
    // No such provider; one whose service is not known; a service that is not known yet.
    for provider in ["unheard-of", "lost", "asked"] {
        let custom = policy(&format!(
            "{{action: CUSTOM, provider: {{name: {provider}}}, rules: [{{}}]}}"
        ));
        let mut case = Case::new(&custom);
        assert_eq!(
            case.only(),
            about_policy(code::NO_AUTHORIZER, "spec.provider.name"),
            "{provider}"
        );
        assert!(denies_all(&case.filter(8080, HTTP_RBAC)), "{provider}");
        assert!(denies_all(&case.filter(9000, NETWORK_RBAC)), "{provider}");
        if provider == "asked" {
            case.world.put(authz);
            assert_eq!(
                case.only(),
                about_policy(code::UNASKED, "spec.provider.name")
            );
            let filters = case.filters(8080, "envoy.filters.http.ext_authz");
            assert!(!filters.is_empty());
        }
    }
}

#[test]
fn two_authorizers_for_one_workload_are_denied_unless_the_flag_allows_them() {
    let two = "
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: shop}
spec: {action: CUSTOM, provider: {name: asked}, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: q, namespace: shop}
spec: {action: CUSTOM, provider: {name: lost}, rules: [{}]}
";
    let case = Case::new(two);
    let found = case.findings();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|f| f.code == code::NO_AUTHORIZER));
    assert!(case.filters(8080, HTTP_RBAC).iter().any(denies_all));
}

#[test]
fn rules_about_requests_allow_no_connections_and_deny_them() {
    let rules = "rules: [{to: [{operation: {methods: [GET]}}]}]";
    let allow = policy(&format!("{{action: ALLOW, {rules}}}"));
    let case = Case::new(&allow);
    assert_eq!(
        case.only(),
        about_policy(code::REQUESTS_ONLY, "spec.rules[0]")
    );
    assert!(allows_nothing(&case.filter(9000, NETWORK_RBAC)));

    let deny = policy(&format!("{{action: DENY, {rules}}}"));
    let case = Case::new(&deny);
    assert_eq!(
        case.only(),
        about_policy(code::REQUESTS_ONLY, "spec.rules[0]")
    );
    assert!(denies_all(&case.filter(9000, NETWORK_RBAC)));

    // Where nothing but requests comes there is nothing to say.
    let case = Case::with(settings(""), json!({}), &format!("{HTTP_ONLY}---{allow}"));
    assert_eq!(case.findings(), []);
}

#[test]
fn a_policy_for_what_waypoints_serve_is_told_of() {
    let world = World::of(&policy(
        "{targetRefs: [{kind: Service, group: '', name: cart}], rules: [{}]}",
    ));
    let found = world.get(&FindingsOfMesh);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code, code::FOR_WAYPOINTS);
    assert_eq!(&*found[0].path, "spec.targetRefs[0]");
}
