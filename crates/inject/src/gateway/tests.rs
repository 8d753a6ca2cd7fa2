use std::sync::Arc;

use model::mesh::{default_mesh_config, default_proxy_config};
use serde_json::json;

use super::*;
use crate::{Injection, builtin};

fn gateway(text: &str) -> Arc<Object<Gateway>> {
    let parsed = testkit::World::objects(text);
    let object = parsed.into_iter().next().unwrap();
    match object {
        model::AnyObject::KubeGateway(gateway) => gateway,
        other => panic!("{:?} is no Gateway", other.key()),
    }
}

const PLAIN: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: web, labels: {team: a}, annotations: {note: b}}
spec:
  gatewayClassName: istio
  listeners:
  - {name: http, port: 80, protocol: HTTP}
";

const SWITCHES: Switches = Switches {
    copy_metadata: true,
    ambient: false,
    quic: false,
    native_sidecars: true,
    any_overlay: false,
};

fn settings() -> Settings {
    let injection = Injection::read(&builtin::config(), builtin::VALUES, BTreeMap::new());
    Settings {
        injection: Arc::new(injection.unwrap()),
        mesh: Arc::new(default_mesh_config()),
        revision: "default".to_owned(),
        compliance_policy: String::new(),
        openshift: false,
    }
}

fn made(
    gateway: &Object<Gateway>,
    class: &Class,
    overlays: &[Overlay<'_>],
) -> Result<Vec<Value>, Undeployed> {
    let (settings, proxy) = (settings(), default_proxy_config());
    let deployment = Deployment {
        gateway,
        class,
        controller: "istio.io/gateway-controller",
        more_listeners: &[],
        overlays,
        proxy: &proxy,
        namespace_annotations: None,
        cluster: "west",
        kubernetes: 136,
        switches: SWITCHES,
        settings: &settings,
    };
    deployment.objects()
}

fn overlay(pairs: &[(&str, &str)]) -> BTreeMap<Arc<str>, Arc<str>> {
    let pairs = pairs.iter();
    pairs.map(|(k, v)| (Arc::from(*k), Arc::from(*v))).collect()
}

fn of_class(data: &BTreeMap<Arc<str>, Arc<str>>) -> Overlay<'_> {
    Overlay {
        data,
        of_class: true,
    }
}

fn of_gateway(data: &BTreeMap<Arc<str>, Arc<str>>) -> Overlay<'_> {
    Overlay {
        data,
        of_class: false,
    }
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    let kinds = objects.iter().map(|o| o["kind"].as_str().unwrap());
    kinds.collect()
}

#[test]
fn a_stock_envoy_is_deployed_without_templates_of_an_operator() {
    let objects = made(&gateway(PLAIN), &Class::GATEWAY, &[]).unwrap();
    assert_eq!(kinds(&objects), ["ServiceAccount", "Deployment", "Service"]);
    for object in &objects {
        assert_eq!(object["metadata"]["name"], "shop-istio");
        assert_eq!(object["metadata"]["annotations"]["note"], "b");
        let labels = &object["metadata"]["labels"];
        assert_eq!(
            (&labels["team"], &labels[NAME_LABEL]),
            (&json!("a"), &json!("shop"))
        );
        assert_eq!(labels[MANAGED_LABEL], "istio.io-gateway-controller");
        assert_eq!(object["metadata"]["ownerReferences"][0]["kind"], "Gateway");
    }
    let template = &objects[1]["spec"]["template"];
    assert_eq!(template["metadata"]["labels"][NAME_LABEL], "shop");
    let pod = &template["spec"];
    assert_eq!(pod["serviceAccountName"], "shop-istio");
    let proxy = &pod["containers"][0];
    assert_eq!(proxy["image"], "envoyproxy/envoy:v1.36.4");
    assert_eq!(proxy["args"][0], "--config-yaml");
    let bootstrap = model::parse::to_json(proxy["args"][1].as_str().unwrap());
    let bootstrap = bootstrap[0].clone().unwrap();
    let node = &bootstrap["node"];
    assert!(
        node["id"].as_str().unwrap().starts_with("router~"),
        "{node}"
    );
    let metadata = &node["metadata"];
    assert_eq!(metadata["WORKLOAD_NAME"], "shop-istio");
    assert_eq!(
        metadata["OWNER"],
        "kubernetes://apis/apps/v1/namespaces/$(POD_NAMESPACE)/deployments/shop-istio"
    );
    assert_eq!(metadata["LABELS"], template["metadata"]["labels"]);
    let cluster = proxy["env"].as_array().unwrap().iter();
    let cluster = cluster
        .clone()
        .find(|v| v["name"] == "ISTIO_META_CLUSTER_ID");
    assert_eq!(cluster.unwrap()["value"], "west");
    let root = template["metadata"]["annotations"]["pilothouse.io/root"].as_str();
    let root: Value = serde_json::from_str(root.unwrap()).unwrap();
    assert_eq!(root["resources"][0]["name"], "root");
    assert_eq!(pod["volumes"].as_array().unwrap().len(), 3);
    let service = &objects[2]["spec"];
    assert_eq!(service["type"], "LoadBalancer");
    let ports = service["ports"].as_array().unwrap().iter();
    let ports: Vec<_> = ports
        .map(|p| (p["name"].as_str().unwrap(), p["port"].as_i64()))
        .collect();
    assert_eq!(ports, [("status-port", Some(15021)), ("http", Some(80))]);
}

#[test]
fn a_waypoint_is_named_as_its_gateway_and_stays_within_the_cluster() {
    let gateway = gateway(&PLAIN.replace(
        "gatewayClassName: istio",
        "gatewayClassName: istio-waypoint",
    ));
    let objects = made(&gateway, &Class::WAYPOINT, &[]).unwrap();
    assert_eq!(objects[1]["metadata"]["name"], "shop");
    assert_eq!(objects[2]["spec"]["type"], "ClusterIP");
    let args = &objects[1]["spec"]["template"]["spec"]["containers"][0]["args"];
    let bootstrap = model::parse::to_json(args[1].as_str().unwrap());
    let id = &bootstrap[0].as_ref().unwrap()["node"]["id"];
    assert!(id.as_str().unwrap().starts_with("waypoint~"), "{id}");
}

#[test]
fn overlays_come_in_turn_and_bring_what_is_on_demand() {
    let class = overlay(&[
        (
            "deployment",
            "spec: {replicas: 2, template: {spec: {containers: [{name: istio-proxy, image: a}]}}}",
        ),
        (
            "horizontalPodAutoscaler",
            "spec: {minReplicas: 2, maxReplicas: 5}",
        ),
        (
            "podDisruptionBudget",
            "spec: {minAvailable: 1, selector: {matchLabels: {x: z}}}",
        ),
    ]);
    let own = overlay(&[
        ("deployment", "spec: {replicas: 3}"),
        ("service", "spec: {ports: [{port: 80, nodePort: 30080}]}"),
        ("serviceAccount", "metadata: {annotations: {role: r}}"),
    ]);
    let objects = made(
        &gateway(PLAIN),
        &Class::GATEWAY,
        &[of_class(&class), of_gateway(&own)],
    )
    .unwrap();
    assert_eq!(
        kinds(&objects),
        [
            "ServiceAccount",
            "Deployment",
            "Service",
            "HorizontalPodAutoscaler",
            "PodDisruptionBudget"
        ]
    );
    assert_eq!(objects[0]["metadata"]["annotations"]["role"], "r");
    assert_eq!(objects[1]["spec"]["replicas"], 3);
    let containers = objects[1]["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    assert_eq!(
        (containers.len(), &containers[0]["image"]),
        (1, &json!("a"))
    );
    let ports = objects[2]["spec"]["ports"].as_array().unwrap();
    let http = ports.iter().find(|p| p["port"] == 80).unwrap();
    assert_eq!(
        (&http["name"], &http["nodePort"]),
        (&json!("http"), &json!(30080))
    );
    assert_eq!(objects[3]["spec"]["maxReplicas"], 5);
    // Kubernetes replaces this selector as a whole.
    assert_eq!(
        objects[4]["spec"]["selector"],
        json!({"matchLabels": {"x": "z"}})
    );
}

#[test]
fn an_overlay_that_makes_no_sense_is_told_of() {
    for (key, text, told) in [
        ("deployment", "metadata: {name: other}", "metadata.name"),
        (
            "service",
            "metadata: {ownerReferences: [{uid: x}]}",
            "metadata.ownerReferences",
        ),
        ("daemonSet", "spec: {}", "daemonSet"),
        ("service", "a: [", "key service of the ConfigMap"),
        (
            "service",
            "metadata: {namespace: other}",
            "metadata.namespace",
        ),
        (
            "deployment",
            "kind: Secret",
            "not among what may be deployed",
        ),
    ] {
        let overlay = overlay(&[(key, text)]);
        let fault = made(&gateway(PLAIN), &Class::GATEWAY, &[of_class(&overlay)]).unwrap_err();
        assert!(fault.to_string().contains(told), "{fault}");
    }
}

#[test]
fn what_gives_power_is_the_operators_to_set() {
    let overlay = overlay(&[(
        "deployment",
        "spec: {template: {spec: {hostNetwork: true, containers: [{name: istio-proxy, image: evil}]}}}",
    )]);
    let class = Class::GATEWAY;
    let refused = made(&gateway(PLAIN), &class, &[of_gateway(&overlay)]).unwrap_err();
    assert!(matches!(refused, Undeployed::Reserved(_)), "{refused}");
    assert!(
        refused.to_string().contains("spec.template.spec."),
        "{refused}"
    );
    let objects = made(&gateway(PLAIN), &class, &[of_class(&overlay)]).unwrap();
    let pod = &objects[1]["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["hostNetwork"], &pod["containers"][0]["image"]),
        (&json!(true), &json!("evil"))
    );
    let annotated = PLAIN.replace("note: b", "sidecar.istio.io/proxyImage: evil");
    let refused = made(&gateway(&annotated), &class, &[]).unwrap_err();
    assert!(refused.to_string().contains("proxyImage"), "{refused}");
}

#[test]
fn labels_of_a_gateway_have_nothing_injected_into_its_pods() {
    let text = PLAIN.replace("team: a", "team: a, sidecar.istio.io/inject: 'true'").replace(
        "note: b",
        "note: b, inject.istio.io/templates: mine, proxy.istio.io/overrides: '{}', proxy.istio.io/config: '{}'",
    );
    let objects = made(&gateway(&text), &Class::GATEWAY, &[]).unwrap();
    let meta = &objects[1]["spec"]["template"]["metadata"];
    assert_eq!(meta["labels"]["sidecar.istio.io/inject"], "false");
    assert_eq!(
        (&meta["labels"]["team"], &meta["annotations"]["note"]),
        (&json!("a"), &json!("b"))
    );
    for name in ["inject.istio.io/templates", "proxy.istio.io/overrides"] {
        assert!(meta["annotations"][name].is_null(), "{name}");
    }
    assert_eq!(meta["annotations"]["proxy.istio.io/config"], "{}");
}

#[test]
fn a_template_makes_no_object_of_another_kind_namespace_or_name() {
    let object = |kind: &str, namespace: &str, name: &str| {
        format!(
            "apiVersion: v1\nkind: {kind}\nmetadata: {{namespace: {namespace}, name: {name}}}\n"
        )
    };
    for (template, told) in [
        (object("Service", "web", "shop-x"), None),
        (object("Secret", "web", "shop-istio"), Some("Secret")),
        (object("Service", "other", "shop-istio"), Some("namespace")),
        (object("Service", "web", "other"), Some("does not begin")),
        (
            format!("---\n{}", object("Service", "web", "shop")).repeat(17),
            Some("17 objects"),
        ),
    ] {
        let config = json!({"templates": {"kube-gateway": template}}).to_string();
        let mut settings = settings();
        let injection = Injection::read(&config, "{}", BTreeMap::new()).unwrap();
        settings.injection = Arc::new(injection);
        let (gateway, proxy) = (gateway(PLAIN), default_proxy_config());
        let deployment = Deployment {
            gateway: &gateway,
            class: &Class::GATEWAY,
            controller: "istio.io/gateway-controller",
            more_listeners: &[],
            overlays: &[],
            proxy: &proxy,
            namespace_annotations: None,
            cluster: "west",
            kubernetes: 136,
            switches: SWITCHES,
            settings: &settings,
        };
        match (deployment.objects(), told) {
            (Ok(made), None) => assert_eq!(made.len(), 1),
            (Err(fault), Some(told)) => assert!(fault.to_string().contains(told), "{fault}"),
            (made, told) => panic!("{made:?} {told:?}"),
        }
    }
}

#[test]
fn the_version_of_the_controller_says_who_deploys() {
    let of = |version: &str| managed(&[(VERSION_ANNOTATION, version)].into_iter().collect());
    assert_eq!(managed(&Labels::default()), Managed::TakenOver);
    assert_eq!(of("1"), Managed::TakenOver);
    assert_eq!(of("5"), Managed::Ours);
    assert_eq!(of("6"), Managed::Theirs);
    assert_eq!(of("five"), Managed::Theirs);
}

#[test]
fn a_gateway_that_names_proxies_has_none_deployed() {
    let with = |addresses: &str| {
        let text = PLAIN.replace("spec:", &format!("spec:\n  addresses: {addresses}"));
        gateway(&text).spec.is_deployed(true)
    };
    assert!(with("[]"));
    assert!(with("[{value: 1.2.3.4}]"));
    assert!(!with("[{type: Hostname, value: a.b}]"));
    assert!(!with("[{value: 1.2.3.4}, {value: 1.2.3.5}]"));
    assert!(gateway(PLAIN).spec.is_deployed(false));
}

#[test]
fn the_selector_of_a_deployment_stays() {
    let object = json!({"kind": "Deployment", "spec": {
        "selector": {"matchLabels": {"a": "1"}},
        "template": {"metadata": {"labels": {"a": "1"}}}}});
    let now = json!({"spec": {"selector": {"matchLabels": {"a": "1", "old": "x"}}}});
    let over = over(object.clone(), &now);
    assert_eq!(over["spec"]["selector"], now["spec"]["selector"]);
    assert_eq!(
        over["spec"]["template"]["metadata"]["labels"],
        json!({"a": "1", "old": "x"})
    );
    assert_eq!(super::over(object.clone(), &Value::Null), object);
}

#[test]
fn ports_have_names_of_their_own() {
    let listener = |name: &str, port: u16, protocol: &str| -> Listener {
        serde_json::from_value(json!({"name": name, "port": port, "protocol": protocol})).unwrap()
    };
    let long = "x".repeat(70);
    let all = [
        listener("a.b", 80, "HTTP"),
        listener("a-b", 81, "HTTP"),
        listener("other", 80, "HTTP"),
        listener(&long, 82, "TCP"),
        listener(&format!("{long}y"), 83, "TCP"),
        listener("s", 443, "HTTPS"),
    ];
    let ports = ports::ports(all.iter(), true);
    let names: Vec<&str> = ports.iter().map(|p| p.name.as_str()).collect();
    let (cut, other) = ("x".repeat(63), format!("{}-83", "x".repeat(60)));
    assert_eq!(
        names,
        ["status-port", "a-b", "a-b-81", &cut, &other, "s", "s-quic"]
    );
    assert_eq!(ports[6].protocol, "UDP");
}
