//! What a gateway of an Ingress with annotations gets under options: golden cases.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::Arc;

use model::settings::Features;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::{Map, Value, json};
use testkit::{World, decode, golden_cases, node, settings};
use xds::TypeUrl;

/// A gateway of Higress's.
fn gateway() -> Value {
    json!({
        "id": "router~10.9.1.1~gateway-0.higress-system~higress-system.svc.cluster.local",
        "metadata": {
            "NAMESPACE": "higress-system",
            "CLUSTER_ID": "Kubernetes",
            "LABELS": {"higress": "higress-system-higress-gateway"},
        },
    })
}

/// The listener, the routes and the clusters of a gateway of Higress's, and what is told.
fn shown(case: &Path) -> Value {
    let mut settings = settings("");
    let classes = (
        "PILOTHOUSE_INGRESS_CLASSES".to_owned(),
        "higress".to_owned(),
    );
    settings.features = Arc::new(Features::from_env([classes]));
    let mut world = World::new(settings);
    world.put(&std::fs::read_to_string(case.join("in.yaml")).unwrap());
    let view = world.view(&node(&gateway()));
    let mut shown = Map::new();
    for ty in [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster] {
        let set = world.set(&view, ty);
        // Those that are of every gateway have no options.
        let concerned = set
            .iter()
            .filter(|r| ty != TypeUrl::Cluster || r.name.starts_with("outbound"));
        let resources = concerned.map(|r| (r.name.to_string(), decode(ty.as_str(), &r.body)));
        shown.extend(resources);
    }
    let (of_view, of_mesh) = (world.get(&view.findings()), world.get(&FindingsOfMesh));
    let found = of_mesh
        .iter()
        .chain(of_view.iter())
        .map(ToString::to_string);
    shown.insert("found".to_owned(), found.collect());
    shown.into()
}

#[test]
fn options_become_what_stands_there() {
    golden_cases(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/edge"),
        shown,
    );
}

/// An Ingress that redirects to HTTPS, and the options of ingress-nginx.
const FORCED: &str = "
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: shop, annotations: {nginx.ingress.kubernetes.io/force-ssl-redirect: 'true'}}
spec:
  ingressClassName: nginx
  rules:
  - host: shop.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: nginx, namespace: edge}
data: OPTIONS
";

/// The listeners and routes of a gateway.
fn served(options: &str, mesh: &str) -> String {
    let mut settings = settings(mesh);
    let features = [
        ("PILOTHOUSE_INGRESS_CLASSES", "nginx"),
        ("PILOTHOUSE_INGRESS_NGINX_CONFIG_MAP", "edge/nginx"),
    ];
    let features = features.map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings.features = Arc::new(Features::from_env(features));
    let mut world = World::new(settings);
    world.put(&FORCED.replace("OPTIONS", options));
    let view = world.view(&node(&gateway()));
    let mut all = String::new();
    for ty in [TypeUrl::Listener, TypeUrl::Route] {
        let set = world.set(&view, ty);
        all.extend(set.iter().map(|r| decode(ty.as_str(), &r.body).to_string()));
    }
    all
}

#[test]
fn options_of_nginx_say_who_stands_before_a_gateway() {
    const HOPS: &str = "\"xff_num_trusted_hops\":";
    const PROTOCOL: &str = "envoy.filters.listener.proxy_protocol";
    let trusted = |hops: u32| {
        let topology = format!("gatewayTopology: {{numTrustedProxies: {hops}}}");
        served("{}", &format!("defaultConfig: {{{topology}}}"))
    };
    let nobody = served("{}", "");
    assert!(!nobody.contains(HOPS) && !nobody.contains(PROTOCOL));
    let forwarded = "{use-forwarded-headers: 'true'}";
    let one = served(forwarded, "");
    assert!(one.contains(&format!("{HOPS}1")), "{one}");
    assert_eq!(one, trusted(1), "redirects go by x-forwarded-proto too");
    let stated = "defaultConfig: {gatewayTopology: {numTrustedProxies: 2}}";
    assert_eq!(served(forwarded, stated), trusted(2));
    let narrow = "{use-forwarded-headers: 'true', proxy-real-ip-cidr: 10.0.0.0/8}";
    assert_eq!(served(narrow, ""), nobody);
    let protocol = served(
        "{use-forwarded-headers: 'true', use-proxy-protocol: 'true'}",
        "",
    );
    assert!(
        protocol.contains(PROTOCOL) && !protocol.contains(HOPS),
        "{protocol}"
    );
}
