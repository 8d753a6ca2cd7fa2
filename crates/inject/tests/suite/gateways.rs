//! What Istio's own tests deploy for Gateways, and what is deployed for them here.
//!
//! Templates are read as in `goldens.rs`.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::kinds::gateway_api::Gateway;
use model::mesh::default_mesh_config;
use model::{AnyObject, Object};
use pilothouse_inject::gateway::{
    Class, Deployment, Managed, Overlay, Switches, VERSION, VERSION_ANNOTATION, managed, over,
};
use pilothouse_inject::{Injection, Settings, effective_proxy_config};
use proto_istio::networking;
use serde_json::{Value, json};
use testkit::{Score, Table, World, differences};

fn charts() -> Option<PathBuf> {
    let stated = std::env::var_os("PILOTHOUSE_ISTIO_SOURCE").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../istio-src");
    let files = stated
        .unwrap_or(beside)
        .join("manifests/charts/istio-control/istio-discovery/files");
    files.is_dir().then_some(files)
}

/// The Gateway of a case.
fn gateway(case: &Value) -> Arc<Object<Gateway>> {
    let mut object = case["gateway"].clone();
    object["apiVersion"] = "gateway.networking.k8s.io/v1".into();
    object["kind"] = "Gateway".into();
    // The API would refuse one without.
    if object["spec"]["listeners"].is_null() {
        object["spec"]["listeners"] = json!([]);
    }
    let read = World::objects(&object.to_string()).into_iter().next();
    match read {
        Some(AnyObject::KubeGateway(gateway)) => gateway,
        other => panic!("{:?}", other.map(|o| o.key())),
    }
}

fn class(gateway: &Gateway) -> Option<(Class, &'static str)> {
    Some(match &*gateway.gateway_class_name {
        "istio" | "custom" => (Class::GATEWAY, "istio.io/gateway-controller"),
        "istio-waypoint" => (Class::WAYPOINT, "istio.io/mesh-controller"),
        "istio-east-west" => (Class::EAST_WEST, "istio.io/eastwest-controller"),
        _ => return None,
    })
}

/// What the Gateway's parameters lay over its objects.
fn overlays(case: &Value, gateway: &Gateway) -> Vec<BTreeMap<Arc<str>, Arc<str>>> {
    let infrastructure = gateway.infrastructure.as_ref();
    let Some(named) = infrastructure.and_then(|i| i.parameters_ref.as_ref()) else {
        return Vec::new();
    };
    let objects = case["objects"].as_array().unwrap();
    let map = objects
        .iter()
        .find(|o| o["ObjectMeta"]["name"] == *named.name);
    let data = map.unwrap()["Data"].as_object().unwrap().iter();
    let data = data.map(|(k, v)| (k.as_str().into(), v.as_str().unwrap().into()));
    vec![data.collect()]
}

/// The Deployment that is there in the case of an upgrade.
fn deployed(case: &Value) -> Value {
    match case["name"].as_str().unwrap() {
        "istio-upgrade-to-1.24" => {
            let labels = json!({
                "gateway.networking.k8s.io/gateway-name": "test-upgrade",
                "istio.io/gateway-name": "test-upgrade",
            });
            json!({"spec": {"selector": {"matchLabels": labels}}})
        }
        _ => Value::Null,
    }
}

fn settings(case: &Value, templates: &Value) -> Settings {
    let values = match case["values"].as_str().unwrap() {
        "" => "global: {hub: test, tag: test}",
        values => values,
    };
    let config = json!({"templates": templates}).to_string();
    let injection = Injection::read(&config, values, BTreeMap::new());
    Settings {
        injection: Arc::new(injection.unwrap()),
        mesh: Arc::new(default_mesh_config()),
        revision: String::new(),
        compliance_policy: String::new(),
        openshift: false,
    }
}

/// What is applied, in turn.
fn applied(case: &Value, templates: &Value) -> Vec<Value> {
    let gateway = gateway(case);
    let Some((class, controller)) = class(&gateway.spec) else {
        return Vec::new();
    };
    let settings = settings(case, templates);
    // The test's, which is not recorded.
    let distroless: networking::ProxyConfig = testkit::message(&json!({
        "selector": {"matchLabels": {"gateway.networking.k8s.io/gateway-name": "default"}},
        "image": {"imageType": "distroless"},
    }))
    .unwrap();
    let name = gateway.meta.name.name.as_str();
    let configs = match case["proxyConfigs"].is_null() {
        true => Vec::new(),
        false => vec![("default", &distroless)],
    };
    let labels = [("gateway.networking.k8s.io/gateway-name", name)]
        .into_iter()
        .collect();
    let namespace = gateway.meta.name.namespace.as_str();
    let proxy = effective_proxy_config(
        &settings.mesh,
        configs.into_iter(),
        namespace,
        &labels,
        None,
    );
    let features = &case["features"];
    let overlays = overlays(case, &gateway.spec);
    let overlays = overlays.iter().map(|data| Overlay {
        data,
        of_class: false,
    });
    let overlays: Vec<_> = overlays.collect();
    let deployment = Deployment {
        gateway: &gateway,
        class: &class,
        controller,
        more_listeners: &[],
        overlays: &overlays,
        proxy: &proxy,
        namespace_annotations: None,
        cluster: "Kubernetes",
        kubernetes: 128,
        switches: Switches {
            copy_metadata: features["EnableGatewayAPICopyLabelsAnnotations"] != "false",
            ambient: features["EnableAmbientWaypoints"] == "true",
            quic: features["EnableQUICListeners"] == "true",
            native_sidecars: true,
            // As istiod.
            any_overlay: true,
        },
        settings: &settings,
    };
    let mut applied = Vec::new();
    if managed(&gateway.meta.annotations) == Managed::TakenOver {
        applied.push(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"annotations": {VERSION_ANNOTATION: VERSION.to_string()}},
        }));
    }
    let there = deployed(case);
    let objects = deployment.objects().unwrap_or_default().into_iter();
    applied.extend(objects.map(|object| over(object, &there)));
    applied
}

#[test]
fn what_is_deployed_is_what_istiod_deploys() {
    let Some(table) = Table::load("gateway-deployment") else {
        return;
    };
    let Some(charts) = charts() else {
        eprintln!(
            "skipped: Istio's charts are not beside the repository, see PILOTHOUSE_ISTIO_SOURCE"
        );
        return;
    };
    let template = |name: &str| std::fs::read_to_string(charts.join(name)).unwrap();
    let templates = json!({
        "kube-gateway": template("kube-gateway.yaml"),
        "waypoint": template("waypoint.yaml"),
    });
    let mut score = Score::default();
    for case in &table.cases {
        // What the mesh takes no notice of never gets as far as here.
        if case["ignore"] == true {
            continue;
        }
        let wanted = model::parse::to_json(case["applied"].as_str().unwrap());
        let wanted: Vec<Value> = wanted
            .into_iter()
            .map(Result::unwrap)
            .filter(|d| !d.is_null())
            .collect();
        let got = applied(case, &templates);
        let found = differences(&Value::Array(wanted), &Value::Array(got));
        score.count(case["test"].as_str().unwrap(), &found);
    }
    score.as_listed(include_str!("../differences/gateways.txt"));
}
