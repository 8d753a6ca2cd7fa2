//! The templates for stock Envoys: what they make of a pod, and that it stays the same when it is injected again.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_inject::{Injected, Injection, Outcome, Request, Settings, builtin, inject};
use serde_json::{Value, json};

fn settings(values: &[(&str, &str)]) -> Settings {
    let values = values
        .iter()
        .fold(builtin::VALUES.to_owned(), |text, (old, new)| {
            assert!(text.contains(old), "{old}");
            text.replace(old, new)
        });
    let injection = Injection::read(&builtin::config(), &values, BTreeMap::new());
    Settings {
        injection: Arc::new(injection.expect("the configuration can be read")),
        mesh: Arc::new(model::mesh::default_mesh_config()),
        revision: "default".to_owned(),
        compliance_policy: String::new(),
        openshift: false,
    }
}

const TOOLS: (&str, &str) = ("image: \"\"", "image: tools");

fn pod(annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web-1", "namespace": "shop", "labels": { "app": "web" }, "annotations": annotations },
        "spec": { "serviceAccountName": "web", "containers": [{ "name": "web", "image": "web" }] },
    })
}

fn injected(pod: &Value, request: &Request<'_>, settings: &Settings) -> Injected {
    match inject(pod, request, settings) {
        Ok(Outcome::Injected(injected)) => injected,
        other => panic!("{other:?}"),
    }
}

fn container<'p>(pod: &'p Value, list: &str, name: &str) -> &'p Value {
    let containers = pod["spec"][list].as_array().into_iter().flatten();
    containers
        .into_iter()
        .find(|c| c["name"] == name)
        .unwrap_or(&Value::Null)
}

/// The bootstrap in the arguments of a container.
fn bootstrap(container: &Value) -> Value {
    assert_eq!(container["args"][0], "--config-yaml");
    let text = container["args"][1].as_str().unwrap_or_default();
    model::parse::to_json(text)[0]
        .clone()
        .expect("the bootstrap is YAML")
}

#[test]
fn a_pod_gets_an_envoy_with_a_token_and_what_redirects_its_traffic() {
    let settings = settings(&[TOOLS]);
    let request = Request {
        path: "/inject/cluster/west/net/n1",
        ..Request::default()
    };
    let made = injected(&pod(&json!({})), &request, &settings);
    let proxy = container(&made.pod, "containers", "istio-proxy");
    let bootstrap = bootstrap(proxy);
    let node = &bootstrap["node"];
    assert_eq!(
        node["id"],
        "sidecar~$(INSTANCE_IP)~$(POD_NAME).$(POD_NAMESPACE)~$(POD_NAMESPACE).svc.cluster.local"
    );
    assert_eq!(node["metadata"]["PILOTHOUSE_CERTIFICATES"], "ads");
    assert_eq!(node["metadata"]["INTERCEPTION_MODE"], "REDIRECT");
    assert_eq!(
        node["metadata"]["LABELS"]["security.istio.io/tlsMode"],
        "istio"
    );
    let env = proxy["env"].as_array().unwrap();
    let value = |name: &str| &env.iter().find(|v| v["name"] == name).unwrap()["value"];
    assert_eq!(
        (value("ISTIO_META_CLUSTER_ID"), value("ISTIO_META_NETWORK")),
        (&json!("west"), &json!("n1"))
    );
    let root: Value = serde_json::from_str(
        made.pod["metadata"]["annotations"]["pilothouse.io/root"]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(root["resources"][0]["name"], "root");
    let token = &made.pod["spec"]["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!(token["audience"], "istio-ca");
    let init = container(&made.pod, "initContainers", "istio-init");
    assert_eq!(
        (&init["image"], &init["securityContext"]["runAsUser"]),
        (&json!("tools"), &json!(0))
    );
    // Nothing is led through an agent that is not there.
    assert_eq!(
        made.pod["metadata"]["annotations"].get("prometheus.io/port"),
        None
    );
}

#[test]
fn a_pod_that_is_injected_again_stays_as_it_is() {
    let settings = settings(&[TOOLS]);
    let once = injected(&pod(&json!({})), &Request::default(), &settings);
    let twice = injected(&once.pod, &Request::default(), &settings);
    assert_eq!(once.pod, twice.pod);
}

#[test]
fn who_redirects_traffic_is_up_to_the_values_and_the_pod() {
    let none = settings(&[]);
    let error = inject(&pod(&json!({})), &Request::default(), &none)
        .unwrap_err()
        .to_string();
    assert!(error.contains("set global.proxy_init.image"), "{error}");
    let asked = pod(&json!({ "sidecar.istio.io/interceptionMode": "NONE" }));
    let made = injected(&asked, &Request::default(), &none);
    assert_eq!(made.pod["spec"].get("initContainers"), None);
    let proxy = container(&made.pod, "containers", "istio-proxy");
    assert_eq!(
        bootstrap(proxy)["node"]["metadata"]["INTERCEPTION_MODE"],
        "NONE"
    );
    let asked = pod(&json!({ "sidecar.istio.io/interceptionMode": "TPROXY" }));
    let error = inject(&asked, &Request::default(), &none)
        .unwrap_err()
        .to_string();
    assert!(error.contains("TPROXY needs Istio's images"), "{error}");
    let cni = settings(&[("enabled: false", "enabled: true")]);
    let made = injected(&pod(&json!({})), &Request::default(), &cni);
    assert_eq!(made.pod["spec"].get("initContainers"), None);
}

#[test]
fn a_native_sidecar_starts_before_the_application() {
    let settings = settings(&[TOOLS]);
    let request = Request {
        native_sidecars: true,
        ..Request::default()
    };
    let made = injected(&pod(&json!({})), &request, &settings);
    let names = made.pod["spec"]["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["istio-init", "istio-proxy"]);
    let proxy = container(&made.pod, "initContainers", "istio-proxy");
    assert_eq!(
        (
            &proxy["restartPolicy"],
            &proxy["startupProbe"]["httpGet"]["port"]
        ),
        (&json!("Always"), &json!(15021))
    );
    assert_eq!(
        made.pod["spec"]["containers"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_gateway_is_a_router_with_the_image_of_the_template() {
    let mut gateway = pod(&json!({ "inject.istio.io/templates": "gateway" }));
    gateway["spec"]["containers"] = json!([{ "name": "istio-proxy", "image": "auto" }]);
    let made = injected(&gateway, &Request::default(), &settings(&[]));
    let proxy = container(&made.pod, "containers", "istio-proxy");
    assert_eq!(proxy["image"], "envoyproxy/envoy:v1.36.4");
    let id = bootstrap(proxy)["node"]["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(id.starts_with("router~"), "{id}");
    assert_eq!(made.pod["spec"].get("initContainers"), None);
}
