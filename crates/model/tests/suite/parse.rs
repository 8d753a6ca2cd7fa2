//! Manifests as people write them, and what they are told about them.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use pilothouse_model::kinds::{Kinded, gateway_api, istio, kube};
use pilothouse_model::parse::{Parsed, Validation, parse};
use pilothouse_model::{Kind, Object, Severity};

fn strict(text: &str) -> Parsed {
    parse(text, &Path::new("f.yaml").into(), Validation::Strict)
}

fn said(parsed: &Parsed) -> Vec<String> {
    parsed.diagnostics.iter().map(ToString::to_string).collect()
}

fn only<T: Kinded>(parsed: &Parsed) -> &Object<T> {
    assert_eq!(said(parsed), Vec::<String>::new());
    let objects: Vec<_> = parsed.objects().collect();
    assert_eq!(objects.len(), 1);
    T::of(objects[0]).unwrap()
}

#[test]
fn a_virtual_service_becomes_its_message() {
    let parsed = strict(
        "\
# comment
---
apiVersion: networking.istio.io/v1alpha3
kind: VirtualService
metadata:
  name: reviews
  labels: {version: 1, on: yes}
  creationTimestamp: 2024-02-29T12:00:00Z
spec:
  hosts: [reviews]
  http:
  - timeout: 1h30m
    retries: null
    route:
    - destination: {host: reviews, port: {number: \"9080\"}}
      weight: 1e2
",
    );
    let object = only::<istio::VirtualService>(&parsed);
    assert_eq!(object.meta.name.to_string(), "default/reviews");
    assert_eq!(object.meta.labels.get("version"), Some("1"));
    assert_eq!(object.meta.labels.get("true"), Some("true"));
    assert_eq!(object.meta.created.time().unwrap().0, 1_709_208_000);
    assert_eq!(object.meta.origin.to_string(), "f.yaml:3");
    let route = &object.spec.http[0];
    assert_eq!(route.timeout.unwrap().0.seconds, 5400);
    assert_eq!(route.route[0].weight, 100);
    let destination = route.route[0].destination.as_ref().unwrap();
    assert_eq!(destination.port.unwrap().number, 9080);
}

#[test]
fn every_fault_of_a_document_is_told_at_once() {
    let text = "\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: reviews
  http:
  - rout: []
    timeout: 5
    match:
    - uri: {exact: /a, prefix: /b}
    mirrorPercentage: {value: high}
    corsPolicy: {unmatchedPreflights: FORWRD}
";
    let parsed = strict(text);
    assert_eq!(parsed.documents.len(), 1);
    assert!(parsed.documents[0].object.is_none());
    assert_eq!(
        parsed.documents[0].key.as_ref().unwrap().to_string(),
        "VirtualService shop/reviews"
    );
    let about = "VirtualService shop/reviews";
    assert_eq!(
        said(&parsed),
        [
            format!(
                "f.yaml:5:10: error[IST0106]: {about}: spec.hosts: expected a list, found the text \"reviews\""
            ),
            format!(
                "f.yaml:7:5: error[PIL0005]: {about}: spec.http[0].rout: unknown field `rout` (did you mean `route`?)"
            ),
            format!(
                "f.yaml:8:14: error[IST0106]: {about}: spec.http[0].timeout: expected a duration such as 1.5s, 100ms or 1h30m, found the number 5"
            ),
            format!(
                "f.yaml:10:24: error[IST0106]: {about}: spec.http[0].match[0].uri.prefix: only one of `exact` and `prefix` may be set"
            ),
            format!(
                "f.yaml:11:31: error[IST0106]: {about}: spec.http[0].mirrorPercentage.value: expected a number, found the text \"high\""
            ),
            format!(
                "f.yaml:12:39: error[IST0106]: {about}: spec.http[0].corsPolicy.unmatchedPreflights: the text \"FORWRD\" is no UnmatchedPreflights (did you mean `FORWARD`? Valid are UNSPECIFIED, FORWARD, IGNORE)"
            ),
        ]
    );
}

#[test]
fn what_got_past_the_webhook_is_used_without_what_is_unknown() {
    let text = "\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a}
spec:
  host: a
  host: b
  hst: c
";
    let parsed = parse(text, &Path::new("f.yaml").into(), Validation::Warn);
    assert_eq!(
        said(&parsed),
        [
            "f.yaml:6:3: warning[PIL0006]: DestinationRule default/a: spec.host: the key stands twice, first on line 5",
            "f.yaml:7:3: warning[PIL0005]: DestinationRule default/a: spec.hst: unknown field `hst` (did you mean `host`?)",
        ]
    );
    let rule = istio::DestinationRule::of(parsed.objects().next().unwrap()).unwrap();
    assert_eq!(rule.spec.host, "b");
    assert!(strict(text).objects().next().is_none());
}

#[test]
fn what_protects_is_closed_where_a_key_of_json_that_is_not_yaml_stands_twice() {
    let text = r#"{"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy",
        "metadata": {"name": "a", "annotations": {"note": "\ud83d\ude00"}},
        "spec": {"action": "DENY", "rules": [{}], "rules": []}}"#;
    let parsed = parse(text, &Path::new("f.json").into(), Validation::Warn);
    let found = said(&parsed);
    assert!(
        found[0].contains("spec.rules: the key stands twice"),
        "{found:?}"
    );
    let [policy] = parsed.documents.as_slice() else {
        panic!("{:?}", parsed.documents)
    };
    assert!(policy.object.is_none() && policy.substitute.is_some());
}

#[test]
fn a_broken_document_leaves_the_others_alone() {
    let parsed = strict(
        "\
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {k: \"1\"}
---
apiVersion: v1
kind: [
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
",
    );
    let names: Vec<_> = parsed
        .documents
        .iter()
        .map(|d| (d.line, d.object.as_ref().map(|o| o.key().to_string())))
        .collect();
    assert_eq!(
        names,
        [
            (1, Some("ConfigMap default/a".to_owned())),
            (6, None),
            (9, Some("ConfigMap default/b".to_owned())),
        ]
    );
    assert_eq!(parsed.diagnostics.len(), 1);
    assert_eq!(parsed.diagnostics[0].code, "PIL0001");
}

#[test]
fn kinds_and_versions_that_do_not_exist_are_named_and_foreign_ones_passed_over() {
    let parsed = strict(
        "\
{apiVersion: networking.istio.io/v1, kind: VirtualServce, metadata: {name: a}}
---
{apiVersion: networking.istio.io/v9, kind: VirtualService, metadata: {name: a}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}}
---
{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}
---
{kind: Service, metadata: {name: a}}
",
    );
    assert_eq!(
        said(&parsed),
        [
            "f.yaml:1:44: error[PIL0003]: unknown kind \"VirtualServce\" of networking.istio.io (did you mean VirtualService of networking.istio.io/v1?)",
            "f.yaml:3:14: error[PIL0003]: VirtualService of networking.istio.io has no version \"v9\" (served versions are v1, v1beta1, v1alpha3)",
            "f.yaml:5: info[PIL0004]: objects of kind StatefulSet are not read",
            "f.yaml:7: info[PIL0004]: objects of kind Service are not read",
            "f.yaml:9:1: error[PIL0002]: the object has no apiVersion",
        ]
    );
    assert_eq!(parsed.documents.len(), 3);
}

#[test]
fn kinds_and_versions_of_former_times_are_refused_with_their_successors() {
    let parsed = strict(
        "\
{apiVersion: v1, kind: Endpoints, metadata: {name: a}, subsets: []}
---
{apiVersion: extensions/v1beta1, kind: Ingress, metadata: {name: a}, spec: {}}
---
{apiVersion: networking.k8s.io/v1beta1, kind: Ingress, metadata: {name: a}, spec: {}}
---
{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Endpoints, metadata: {name: b}}]}
",
    );
    let wanted = [
        "f.yaml:1:24: error[PIL0003]: Endpoints of core/v1 is not read (write an EndpointSlice of discovery.k8s.io/v1 ",
        "f.yaml:3:40: error[PIL0003]: Ingress of extensions is not read (write it as Ingress of networking.k8s.io/v1",
        "f.yaml:5:14: error[PIL0003]: Ingress of networking.k8s.io has no version \"v1beta1\" (served versions are v1",
        "f.yaml:7:61: error[PIL0003]: Endpoints of core/v1 is not read (write an EndpointSlice of discovery.k8s.io/v1 ",
    ];
    let said = said(&parsed);
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    for (said, wanted) in said.iter().zip(wanted) {
        assert!(said.starts_with(wanted), "{said}");
    }
}

#[test]
fn lists_are_their_items() {
    let parsed = strict(
        "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: ignored}}
- apiVersion: v1
  kind: ServiceList
  items:
  - metadata: {name: b}
    spec: {ports: [{port: 80, targetPort: web}, {port: 81, targetPort: 8081}], unknown: 1}
",
    );
    let keys: Vec<_> = parsed.objects().map(|o| o.key().to_string()).collect();
    assert_eq!(keys, ["Namespace a", "Service default/b"]);
    let service = kube::Service::of(parsed.objects().nth(1).unwrap()).unwrap();
    let targets: Vec<_> = service
        .spec
        .ports
        .iter()
        .map(|p| p.target_port.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(targets, ["web", "8081"]);
    assert_eq!(service.meta.origin.to_string(), "f.yaml:8");
}

#[test]
fn mistyped_fields_of_kubernetes_kinds_are_all_told() {
    let parsed = strict(
        "\
apiVersion: v1
kind: Service
metadata: {name: A_b}
spec:
  clusterIP: 1
  ports:
  - port: x
    name: null
  - {port: 80, nodePort: 70000000000}
",
    );
    let about = "Service default/A_b";
    assert_eq!(
        said(&parsed),
        [
            format!(
                "f.yaml:3:18: error[IST0106]: {about}: metadata.name: \"A_b\" is no name: it needs lower-case letters, digits and -, with a letter or digit at both ends"
            ),
            format!(
                "f.yaml:5:14: error[IST0106]: {about}: spec.clusterIP: expected text, found the number 1"
            ),
            format!(
                "f.yaml:7:11: error[IST0106]: {about}: spec.ports[0].port: expected a whole number in range, found the text \"x\""
            ),
            format!(
                "f.yaml:9:26: error[IST0106]: {about}: spec.ports[1].nodePort: expected a whole number in range, found the number 70000000000"
            ),
        ]
    );
}

#[test]
fn objects_of_kinds_without_a_spec_are_read_from_the_top() {
    let parsed = strict(
        "\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: a-x, namespace: shop, labels: {kubernetes.io/service-name: a}}
addressType: IPv4
endpoints:
- addresses: [10.0.0.1]
  conditions: {ready: true, serving: null}
  targetRef: {kind: Pod, name: a-1, namespace: shop}
ports:
- {name: http, port: 8080, protocol: TCP}
",
    );
    let slice = only::<kube::EndpointSlice>(&parsed);
    assert_eq!(slice.spec.endpoints[0].conditions.ready, Some(true));
    assert_eq!(slice.spec.ports[0].port, Some(8080));
}

#[test]
fn routes_of_the_gateway_api_have_the_defaults_of_their_schemas() {
    let parsed = strict(
        "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a}
spec:
  parentRefs: [{name: gw}]
  rules:
  - backendRefs: [{name: a, port: 80}]
    timeouts: {request: 1h30m}
    filters:
    - type: RequestRedirect
      requestRedirect: {scheme: https}
",
    );
    let route = only::<gateway_api::HttpRoute>(&parsed);
    assert_eq!(&*route.spec.parent_refs[0].kind, "Gateway");
    let rule = &route.spec.rules[0];
    assert_eq!(&*rule.matches[0].path.value, "/");
    assert_eq!(rule.backend_refs[0].weight, 1);
    assert_eq!(
        rule.timeouts.as_ref().unwrap().request.unwrap().0.as_secs(),
        5400
    );
    assert_eq!(
        rule.filters[0]
            .request_redirect
            .as_ref()
            .unwrap()
            .status_code,
        302
    );
}

#[test]
fn every_fault_of_a_typed_kind_is_told_at_once() {
    let parsed = strict(
        "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a}
spec:
  hostname: [a.com]
  rules:
  - backendRefs: [{name: a, port: 80000}, {port: 80}]
    filters: [{type: RequestRedirct}]
",
    );
    let about = "HTTPRoute default/a";
    assert_eq!(
        said(&parsed),
        [
            format!(
                "f.yaml:5:3: error[PIL0005]: {about}: spec.hostname: unknown field `hostname` (did you mean `hostnames`?)"
            ),
            format!(
                "f.yaml:7:35: error[IST0106]: {about}: spec.rules[0].backendRefs[0].port: expected a whole number in range, found the number 80000"
            ),
            format!(
                "f.yaml:7:43: error[IST0106]: {about}: spec.rules[0].backendRefs[1]: the field `name` is missing"
            ),
            format!(
                "f.yaml:8:22: error[IST0106]: {about}: spec.rules[0].filters[0].type: \"RequestRedirct\" is none of RequestHeaderModifier, ResponseHeaderModifier, RequestMirror, RequestRedirect, URLRewrite, ExtensionRef, CORS, ExternalAuth (did you mean `RequestRedirect`?)"
            ),
        ]
    );
}

#[test]
fn every_recorded_scenario_reads_as_what_got_past_the_webhook() {
    let Some(root) = testkit::recording("scenarios") else {
        return;
    };
    let mut errors = Vec::new();
    let mut objects = 0;
    for scenario in std::fs::read_dir(root).unwrap().flatten() {
        let Ok(files) = std::fs::read_dir(scenario.path().join("config")) else {
            continue;
        };
        for file in files.flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let parsed = parse(&text, &file.path().into(), Validation::Warn);
            objects += parsed.objects().count();
            errors.extend(
                parsed
                    .diagnostics
                    .iter()
                    .filter(|d| d.severity == Severity::Error)
                    .map(|d| format!("{d:#}")),
            );
        }
    }
    assert!(objects > 0);
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(Kind::ALL.len() > 20);
}

#[test]
fn every_recorded_object_reads_back_from_its_json() {
    let Some(root) = testkit::recording("scenarios") else {
        return;
    };
    let mut checked = 0;
    for scenario in std::fs::read_dir(root).unwrap().flatten() {
        let files = std::fs::read_dir(scenario.path().join("config"));
        for file in files.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let parsed = parse(&text, &file.path().into(), Validation::Warn);
            for object in parsed.objects() {
                // Only messages have a JSON form of their own to compare with.
                let kind = object.key().kind;
                if !kind.group().ends_with(".istio.io") {
                    continue;
                }
                let name = &object.meta().name;
                let json = serde_json::json!({
                    "apiVersion": kind.api_version(),
                    "kind": kind.name(),
                    "metadata": {"name": &*name.name, "namespace": &*name.namespace},
                    "spec": object.spec_json(),
                });
                let again = parse(&json.to_string(), &file.path().into(), Validation::Warn);
                let back = again
                    .objects()
                    .next()
                    .unwrap_or_else(|| panic!("{:?}", again.diagnostics));
                assert_eq!(back.spec_json(), object.spec_json(), "{}", object.key());
                checked += 1;
            }
        }
    }
    assert!(checked > 0);
}

#[test]
fn a_text_in_a_list_may_end_with_colons() {
    let parsed = strict(
        "\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a}
spec:
  hosts: [a.b]
  addresses: [1.2.3.4, 1:db8::, fe80::]
",
    );
    let entry = only::<istio::ServiceEntry>(&parsed);
    assert_eq!(entry.spec.addresses, ["1.2.3.4", "1:db8::", "fe80::"]);
}

#[test]
fn pods_are_named_after_what_made_them() {
    let cases = [
        // A ReplicaSet of a Deployment, of an Argo Rollout, and one that somebody wrote.
        ("ReplicaSet", "cart-5d8f", "pod-template-hash: 5d8f", "cart"),
        (
            "ReplicaSet",
            "cart-5d8f",
            "rollouts-pod-template-hash: 5d8f",
            "cart",
        ),
        (
            "ReplicaSet",
            "cart-5d8f",
            "pod-template-hash: other",
            "cart-5d8f",
        ),
        (
            "ReplicaSet",
            "cart-5d8f",
            "pod-template-hash: ''",
            "cart-5d8f",
        ),
        (
            "ReplicaSet",
            "cart5d8f",
            "pod-template-hash: 5d8f",
            "cart5d8f",
        ),
        (
            "ReplicationController",
            "cart-2",
            "deploymentconfig: cart",
            "cart",
        ),
        ("ReplicationController", "cart-2", "a: b", "cart-2"),
        // A Job of a CronJob, by the minute or the second, and others.
        ("Job", "report-28012345", "a: b", "report"),
        ("Job", "report-1700000000", "a: b", "report"),
        ("Job", "report-1234567", "a: b", "report-1234567"),
        ("Job", "report-12345678901", "a: b", "report-12345678901"),
        ("Job", "report-2801234x", "a: b", "report-2801234x"),
        ("StatefulSet", "db", "pod-template-hash: db", "db"),
        // What the label says holds.
        (
            "ReplicaSet",
            "cart-5d8f",
            "service.istio.io/workload-name: basket",
            "basket",
        ),
    ];
    let named = |meta: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: cart-5d8f-x2x7, {meta}}}, spec: {{}}}}"
        );
        only::<kube::Pod>(&strict(&text)).workload().to_string()
    };
    for (kind, maker, label, wanted) in cases {
        let owners = format!(
            "ownerReferences: [{{kind: Node, name: n}}, {{apiVersion: v1, kind: {kind}, name: {maker}, controller: true}}]"
        );
        let meta = format!("generateName: {maker}-, labels: {{{label}}}, {owners}");
        assert_eq!(named(&meta), wanted, "{meta}");
    }
    // Without a controller, or with a name that was not generated for one, it is its own.
    for meta in [
        "labels: {pod-template-hash: 5d8f}",
        "generateName: cart-, ownerReferences: [{kind: ReplicaSet, name: cart-5d8f}]",
        "generateName: cart-, ownerReferences: {a: b}",
        "generateName: cart-, ownerReferences: [{kind: ReplicaSet, controller: true}]",
        "ownerReferences: [{kind: ReplicaSet, name: cart-5d8f, controller: true}]",
    ] {
        assert_eq!(named(meta), "cart-5d8f-x2x7", "{meta}");
    }
}
