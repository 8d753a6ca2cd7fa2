//! Recorded calls of Istio's function about filters of headers, asked through what is made of a route.

use model::Kind;
use pilothouse_convert::status;
use serde_json::{Value, json};
use testkit::{Score, World, cases, differences};

use crate::gateway_api::fixture::mesh;

/// What a route with a filter becomes: the headers of its VirtualService, and the reason if the filter is refused.
fn made(filter: &Value) -> (Value, Value) {
    let filters: Vec<Value> = match filter {
        Value::Null => Vec::new(),
        filter => vec![json!({"type": "RequestHeaderModifier", "requestHeaderModifier": filter})],
    };
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
                "rules": [{"filters": filters, "backendRefs": [{"name": "shop", "port": 80}]}],
            },
        }),
    ]);
    let snapshot = world.store.snapshot();
    let mut services = snapshot.tables.iter_any(Kind::VirtualService);
    let service = services.next().map(|service| service.spec_json());
    let headers = service.map_or(Value::Null, |spec| {
        spec["http"][0]["headers"]["request"].clone()
    });
    let statuses = status::all(&snapshot);
    let status = statuses
        .iter()
        .find(|status| status.object.kind == Kind::HttpRoute);
    let conditions = &status.unwrap().status["parents"][0]["conditions"];
    let conditions = conditions.as_array().unwrap();
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
