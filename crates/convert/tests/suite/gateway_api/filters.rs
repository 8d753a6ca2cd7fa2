//! Recorded calls of Istio's function about filters of headers, asked through what is made of a route.

use model::Kind;
use pilothouse_convert::status;
use serde_json::{Value, json};
use testkit::{Score, World, cases, differences};

use crate::gateway_api::fixture::mesh;

/// The world with a route of these rules, and the conditions of that.
fn world_of(rules: &Value) -> (World, Vec<Value>) {
    let mut world = World::new(mesh());
    world.apply_json(&[
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "edge", "namespace": "infra"},
            "spec": {"gatewayClassName": "istio", "listeners": [{"name": "web", "port": 80, "protocol": "HTTP"}]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop", "namespace": "infra"},
            "spec": {"ports": [{"port": 80}]},
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "shop", "namespace": "infra"},
            "spec": {
                "parentRefs": [{"name": "edge"}],
                "rules": rules,
            },
        }),
    ]);
    let statuses = status::all(&world.store.snapshot());
    let status = statuses
        .iter()
        .find(|status| status.object.kind == Kind::HttpRoute);
    let conditions = &status.unwrap().status["parents"][0]["conditions"];
    let conditions = conditions.as_array().unwrap().clone();
    (world, conditions)
}

/// What a route with a filter becomes: the headers of its VirtualService, and the reason if the filter is refused.
fn made(filter: &Value) -> (Value, Value) {
    let filters: Vec<Value> = match filter {
        Value::Null => Vec::new(),
        filter => vec![json!({"type": "RequestHeaderModifier", "requestHeaderModifier": filter})],
    };
    let rules = json!([{"filters": filters, "backendRefs": [{"name": "shop", "port": 80}]}]);
    let (world, conditions) = world_of(&rules);
    let snapshot = world.store.snapshot();
    let mut services = snapshot.tables.iter_any(Kind::VirtualService);
    let service = services.next().map(|service| service.spec_json());
    let headers = service.map_or(Value::Null, |spec| {
        spec["http"][0]["headers"]["request"].clone()
    });
    let failed = conditions.iter().find(|of| of["status"] == "False");
    (
        headers,
        failed.map_or(Value::Null, |of| of["reason"].clone()),
    )
}

#[test]
fn filters_of_headers_are_taken_and_refused_as_recorded() {
    let mut score = Score::default();
    for case in cases("gateway-api-helpers", "gateway.createHeadersFilter") {
        let (headers, reason) = made(&case["in"]["filter"]);
        let [wanted, error] = [&case["out"][0], &case["out"][1]];
        score.count(
            case["test"].as_str().unwrap(),
            &differences(&json!([wanted, error["Reason"]]), &json!([headers, reason])),
        );
    }
    score.all_as_recorded();
}

#[test]
fn values_are_texts_and_names_are_those_of_headers() {
    let set = |name: &str, value: &str| json!({"set": [{"name": name, "value": value}]});
    for (value, format) in [
        ("100%", "100%%"),
        ("%BAD%", "%%BAD%%"),
        ("%REQ(", "%%REQ("),
        ("%ENVIRONMENT(HOME)%", "%%ENVIRONMENT(HOME)%%"),
        ("a", "a"),
    ] {
        let wanted = json!({"set": {"x-a": format}});
        let (headers, reason) = made(&set("x-a", value));
        assert_eq!(
            (&headers["set"], &reason),
            (&wanted["set"], &Value::Null),
            "{value}"
        );
    }
    // The host of a request is not a format.
    assert_eq!(made(&set("Host", "a%b")).0["set"], json!({"host": "a%b"}));
    for bad in [
        set("x\ny", "a"),
        set("", "a"),
        set("x-a", "a\nb"),
        json!({"remove": [""]}),
        json!({"remove": ["x\ny"]}),
        json!({"add": [{"name": "x y", "value": "a"}]}),
    ] {
        assert_ne!(made(&bad).1, Value::Null, "{bad}");
    }
}

#[test]
fn values_that_envoy_refuses_are_told_of_in_the_status() {
    let backends = json!([{"name": "shop", "port": 80}]);
    let fine = json!({"backendRefs": backends});
    let path = json!({"type": "ReplaceFullPath", "replaceFullPath": "/a\nb"});
    let rewriting = json!({"backendRefs": backends, "filters": [{"type": "URLRewrite", "urlRewrite": {"path": path}}]});
    let pausing = json!({"backendRefs": backends, "retry": {"attempts": 2, "backoff": "0s"}});
    let matching = json!({"backendRefs": backends, "matches": [{"path": {"type": "RegularExpression", "value": "/a(?!b)"}}]});
    // Whether it is accepted, and what is said of a part of it.
    let told = |rules: Value| {
        let (_, conditions) = world_of(&rules);
        let of = |kind: &str| conditions.iter().find(|of| of["type"] == kind);
        let accepted = of("Accepted").unwrap();
        let partly = of("PartiallyInvalid").map(|of| of["message"].as_str().unwrap().to_owned());
        let refused = (accepted["status"] == "False").then(|| accepted["reason"].clone());
        (refused, partly.unwrap_or_default())
    };
    assert_eq!(told(json!([fine])), (None, String::new()));
    let unsupported = (Some(json!("UnsupportedValue")), String::new());
    assert_eq!(told(json!([rewriting])), unsupported);
    assert_eq!(told(json!([pausing, rewriting])), unsupported);
    for (rule, field) in [
        (
            &rewriting,
            "filters[0].urlRewrite.path.replaceFullPath: has a line break",
        ),
        (&pausing, "retry.backoff: must be at least 1ms"),
        (&matching, "matches[0].path.value"),
    ] {
        let (refused, partly) = told(json!([fine, rule]));
        assert_eq!(refused, None, "{field}");
        let begin = format!("Dropped Rule: rules[1].{field}");
        assert!(partly.starts_with(&begin), "{partly}");
    }
}
