//! Who gets the certificates of Ingresses of remote clusters.

use std::sync::Arc;

use mesh::finding::code;
use model::edge::RemoteIngress;
use model::settings::Features;
use model::{Change, Owner};
use pilothouse_xlate as xlate;
use serde_json::json;
use testkit::{World, node, settings};
use xds::TypeUrl;
use xlate::View;

const NAME: &str = "kubernetes-ingress://west/bank/web";
const INGRESS: &str = "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: bank}
spec:
  ingressClassName: nginx
  tls: [{hosts: [a.test], secretName: web}]
  rules:
  - host: a.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
";
const CHAIN: &str = include_str!("../../../model/src/x509/keys/ec.crt");
const KEY: &str = include_str!("../../../model/src/x509/keys/ec.pkcs8.key");

/// Ingresses of these classes of the configured cluster are served by the proxies of the namespace `shop` with a label.
fn empty(classes: &str) -> World {
    let mut settings = settings("");
    let stated = [
        ("PILOTHOUSE_INGRESS_CLASSES", classes),
        ("PILOTHOUSE_INGRESS_NAMESPACE", "shop"),
        ("PILOTHOUSE_INGRESS_SELECTOR", "app=edge"),
    ];
    let stated = stated.map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings.features = Arc::new(Features::from_env(stated));
    World::new(settings)
}

/// A world in which Ingresses of another cluster are served.
fn world() -> World {
    let mut world = empty("");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web", "namespace": "bank"},
        "stringData": {"tls.crt": CHAIN, "tls.key": KEY}});
    let west = Owner {
        cluster: Some("west".into()),
        ..Owner::new(20, "kubernetes:west")
    };
    let objects = World::objects(&format!("{INGRESS}---\n{secret}\n")).into_iter();
    world.apply(objects.map(|o| Change::Put(west.clone(), o)));
    world
}

/// Whether Ingresses of the cluster west are served.
fn serve(world: &mut World, served: bool) {
    let said = RemoteIngress {
        classes: "nginx".into(),
        namespaces: "".into(),
        writes_status: false,
    };
    let said = served.then(|| ("west".into(), said));
    let all = said.into_iter().collect();
    world.apply([Change::RemoteIngresses(Arc::new(all))]);
}

/// A gateway of a namespace of the configured cluster, with that label.
fn gateway(world: &World, namespace: &str) -> Arc<View> {
    world.view(&node(&json!({
        "id": format!("router~10.1.0.1~edge-0.{namespace}~{namespace}.svc.cluster.local"),
        "metadata": {"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "edge"}},
        "token": format!("sa:{namespace}:edge"),
    })))
}

/// The names of the secrets of a view.
fn names(world: &World, view: &Arc<View>) -> Vec<String> {
    let set = world.set(view, TypeUrl::Secret);
    set.iter().map(|secret| secret.name.to_string()).collect()
}

#[test]
fn gateways_that_serve_it_get_the_secret_of_its_own_cluster_and_others_do_not() {
    let mut world = world();
    let of = |world: &World, namespace| names(world, &gateway(world, namespace));
    assert_eq!(of(&world, "shop"), [""; 0]);
    serve(&mut world, true);
    assert_eq!(of(&world, "shop"), [NAME]);
    // Of others with the label not even those of the Secret's namespace.
    assert_eq!(of(&world, "bank"), [""; 0]);
    serve(&mut world, false);
    assert_eq!(of(&world, "shop"), [""; 0]);
}

#[test]
fn nobody_else_can_name_it() {
    let mut world = world();
    for namespace in ["shop", "bank"] {
        world.put(&format!(
            "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {{name: edge, namespace: {namespace}}}\nspec:\n  \
             selector: {{app: edge}}\n  servers:\n  - port: {{number: 443, name: https, protocol: HTTPS}}\n    hosts: ['*']\n    \
             tls: {{mode: SIMPLE, credentialName: '{NAME}'}}\n"
        ));
        let view = gateway(&world, namespace);
        assert_eq!(names(&world, &view), [""; 0], "{namespace}");
        let found = world.get(&view.findings());
        let told = found.iter().any(|found| found.code == code::NO_CREDENTIAL);
        assert!(told, "{namespace}: {found:?}");
    }
}

#[test]
fn a_certificate_that_an_ingress_lacks_is_not_reported_at_the_gateway_derived_from_it_as_well() {
    let halved = "---\n{apiVersion: v1, kind: Secret, metadata: {name: web, namespace: bank}, stringData: {tls.crt: C}}";
    for secret in ["", halved] {
        let mut world = empty("nginx");
        world.put(&format!("{INGRESS}{secret}"));
        let view = gateway(&world, "shop");
        let found = world.get(&view.findings());
        let told = found.iter().any(|found| found.code == code::NO_CREDENTIAL);
        assert!(!told, "{secret}: {found:?}");
        assert!(names(&world, &view).is_empty(), "{secret}");
    }
}
