//! What is deployed for Gateways in an API, from outside. The API is our own, over its embedded store.

use serde_json::{Value, json};

use crate::support::{Api, found};

const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const CONFIG_MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const BUDGETS: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";

fn get(api: &Api, path: &str, name: &str) -> Value {
    api.get(&format!("{path}/{name}"))
}

/// An object, once it is as it has to be.
fn once(api: &Api, path: &str, name: &str, is_good: impl Fn(&Value) -> bool) -> Value {
    found(&format!("{path}/{name}"), || {
        Some(get(api, path, name)).filter(|found| is_good(found))
    })
}

fn gateway(name: &str, parameters: bool) -> Value {
    let mut gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "gatewayClassName": "pilothouse",
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        },
    });
    if parameters {
        gateway["spec"]["infrastructure"] = json!({
            "parametersRef": {"group": "", "kind": "ConfigMap", "name": "options"},
        });
    }
    gateway
}

fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |found| found["kind"] == kind
}

#[test]
fn a_gateway_is_deployed_as_its_parameters_say_and_goes_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--deploy-gateways=true", "--create-gateway-classes=true"];
    let api = Api::start(&dir.path().join("data"), &flags);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    api.create("/api/v1/namespaces", &namespace);
    let classes = "/apis/gateway.networking.k8s.io/v1/gatewayclasses";
    let class = once(&api, classes, "pilothouse", is("GatewayClass"));
    assert_eq!(
        class["spec"]["controllerName"],
        "istio.io/gateway-controller"
    );

    // Somebody else's Service has the name of one that is to be deployed.
    let theirs = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web-pilothouse", "namespace": "shop"},
        "spec": {"ports": [{"name": "mine", "port": 7}]}});
    api.create(SERVICES, &theirs);
    let options = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "options", "namespace": "shop"},
        "data": {"deployment": "spec: {replicas: 2}", "podDisruptionBudget": "spec: {minAvailable: 1}"}});
    api.create(CONFIG_MAPS, &options);
    api.create(GATEWAYS, &gateway("web", true));
    let uid = get(&api, GATEWAYS, "web")["metadata"]["uid"].clone();

    let deployment = once(&api, DEPLOYMENTS, "web-pilothouse", is("Deployment"));
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["uid"], uid);
    let budget = once(&api, BUDGETS, "web-pilothouse", is("PodDisruptionBudget"));
    assert_eq!(budget["spec"]["minAvailable"], 1);
    let service = get(&api, SERVICES, "web-pilothouse");
    assert_eq!(service["spec"]["ports"][0]["name"], "mine");
    assert!(service["metadata"]["labels"].is_null(), "{service}");

    // What the parameters no longer ask for goes, what they ask for anew comes.
    let change =
        json!({"data": {"deployment": "spec: {replicas: 3}", "podDisruptionBudget": null}});
    api.ask("PATCH", &format!("{CONFIG_MAPS}/options"), &change);
    once(&api, DEPLOYMENTS, "web-pilothouse", |d| {
        d["spec"]["replicas"] == 3
    });
    once(&api, BUDGETS, "web-pilothouse", is("Status"));
    let change =
        json!({"spec": {"listeners": [{"name": "other", "port": 81, "protocol": "HTTP"}]}});
    api.create(GATEWAYS, &gateway("plain", false));
    once(&api, SERVICES, "plain-pilothouse", |s| {
        s["spec"]["ports"][1]["port"] == 80
    });
    api.ask("PATCH", &format!("{GATEWAYS}/plain"), &change);
    once(&api, SERVICES, "plain-pilothouse", |s| {
        s["spec"]["ports"][1]["port"] == 81
    });

    api.ask("DELETE", &format!("{GATEWAYS}/web"), &Value::Null);
    once(&api, DEPLOYMENTS, "web-pilothouse", is("Status"));
    assert_eq!(get(&api, SERVICES, "web-pilothouse")["kind"], "Service");
}
