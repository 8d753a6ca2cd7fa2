//! How many ports the objects of one namespace open at a proxy of another: those of others stay, byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh::finding::code;
use model::Diagnostic;
use pilothouse_xlate::View;
use serde_json::{Value, json};
use testkit::{World, node, settings};
use xds::TypeUrl;

use crate::limits::hostile::{list, object};

fn of(namespace: &str, text: String) -> String {
    text.replacen("shop", namespace, 1)
}

/// A Gateway of a namespace with a server for each of so many ports.
fn gateway(namespace: &str, name: &str, (first, count): (usize, usize), year: usize) -> String {
    let servers = list(count, |at| {
        let port = first + at;
        format!(
            "{{port: {{number: {port}, name: p{port}, protocol: HTTP}}, hosts: [{namespace}.test]}}"
        )
    });
    let created = format!("creationTimestamp: '{year}-01-01T00:00:00Z', namespace: shop");
    let text = object(
        "Gateway",
        name,
        &format!("{{selector: {{role: edge}}, servers: {servers}}}"),
    );
    of(namespace, text.replacen("namespace: shop", &created, 1))
}

fn proxy(world: &World, id: &str, metadata: &Value) -> Arc<View> {
    let mut metadata = metadata.clone();
    metadata["ISTIO_VERSION"] = json!("1.32.0");
    world.view(&node(&json!({ "id": id, "metadata": metadata })))
}

fn edge(world: &World) -> Arc<View> {
    let metadata = json!({"NAMESPACE": "infra", "LABELS": {"role": "edge"}});
    proxy(
        world,
        "router~10.0.0.9~edge.infra~infra.svc.cluster.local",
        &metadata,
    )
}

/// The listeners of a view by name, with their bytes.
fn listeners(world: &World, view: &Arc<View>) -> BTreeMap<String, Vec<u8>> {
    let set = world.set(view, TypeUrl::Listener);
    let each = set.iter();
    each.map(|r| (r.name.to_string(), r.body.to_vec()))
        .collect()
}

fn found(world: &World, view: &Arc<View>) -> Vec<Diagnostic> {
    let found = world.get(&view.findings());
    let over = found.iter().filter(|found| found.code == code::OVER_BUDGET);
    over.cloned().collect()
}

#[test]
fn gateways_of_another_namespace_open_few_ports_and_those_of_others_stay() {
    let honest = gateway("bank", "web", (80, 1), 2026)
        + &gateway("bank", "tls", (443, 1), 2026)
        + &gateway("infra", "own", (10_000, 100), 2026)
        + &gateway("istio-system", "root", (11_000, 100), 2026);
    let before = World::of(&honest);
    let before = listeners(&before, &edge(&before));
    assert_eq!(before.len(), 202);

    // The hostile Gateways are the oldest of all, and the second shares ports with others.
    let hostile = gateway("evil", "first", (2_000, 60), 2020)
        + &gateway("evil", "second", (3_000, 40), 2021)
        + &gateway("evil", "third", (443, 1), 2022);
    let world = World::of(&(honest + &hostile));
    let view = edge(&world);
    let after = listeners(&world, &view);
    assert_eq!(after.len(), 202 + 64, "{:?}", after.keys());
    for (name, bytes) in &before {
        assert_eq!(after.get(name), Some(bytes), "{name}");
    }
    let found = found(&world, &view);
    let told: Vec<String> = found
        .iter()
        .map(|f| format!("{} {}", f.object.as_ref().expect("it has one"), f.path))
        .collect();
    assert_eq!(
        told,
        [
            "Gateway evil/second spec.servers[4]",
            "Gateway evil/third spec.servers[0]"
        ]
    );
    assert!(
        found[0].message.contains("port 3004"),
        "{}",
        found[0].message
    );
    assert!(
        found[0].message.contains("35 further"),
        "{}",
        found[0].message
    );
    assert!(found.iter().all(|f| f.help.is_some()));
}

#[test]
fn the_setting_says_how_many() {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.namespace_ports = 2.into();
    settings.features = Arc::new(features);
    let mut world = World::new(settings);
    world.put(&gateway("evil", "first", (2_000, 3), 2020));
    let view = edge(&world);
    assert_eq!(listeners(&world, &view).len(), 2);
    assert_eq!(found(&world, &view).len(), 1);
}

#[test]
fn a_server_that_does_not_fit_is_refused_for_that() {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.namespace_ports = 1.into();
    settings.features = Arc::new(features);
    let mut world = World::new(settings);
    // The second is a port of Envoy itself, which no setting gives away.
    world.put(&gateway("evil", "first", (2_000, 1), 2020));
    world.put(&gateway("evil", "second", (15_000, 1), 2021));
    let view = edge(&world);
    assert_eq!(found(&world, &view), []);
    let all = world.get(&view.findings());
    assert!(all.iter().any(|f| f.code == code::SERVER_REFUSED));
    world.put(&gateway("evil", "third", (2_001, 1), 2022));
    assert_eq!(found(&world, &view).len(), 1);
}

#[test]
fn sidecars_that_bind_ports_bind_few_of_another_namespace() {
    let entry = |namespace: &str, first: usize| {
        let ports = list(100, |at| {
            let port = first + at;
            format!("{{number: {port}, name: p{port}, protocol: TCP}}")
        });
        let spec = format!(
            "{{hosts: [{namespace}.test], resolution: STATIC, endpoints: [{{address: 1.2.3.4}}], ports: {ports}}}"
        );
        of(namespace, object("ServiceEntry", "many", &spec))
    };
    let world = World::of(
        &(entry("evil", 20_000) + &entry("bank", 30_000) + &entry("istio-system", 40_000)),
    );
    let sidecar = |interception: &str| {
        let metadata =
            json!({"NAMESPACE": "bank", "LABELS": {}, "INTERCEPTION_MODE": interception});
        proxy(
            &world,
            "sidecar~10.0.0.1~web.bank~bank.svc.cluster.local",
            &metadata,
        )
    };
    let of_port = |view: &Arc<View>, first: usize| {
        let all = listeners(&world, view);
        let ports = first..first + 100;
        let has = |port: &usize| all.keys().any(|name| name.ends_with(&format!("_{port}")));
        ports.filter(has).count()
    };
    let binding = sidecar("NONE");
    assert_eq!(
        [20_000, 30_000, 40_000].map(|first| of_port(&binding, first)),
        [64, 100, 100]
    );
    let found_there = found(&world, &binding);
    assert_eq!(found_there.len(), 1, "{found_there:?}");
    let object = found_there[0].object.as_ref().expect("it has one");
    assert_eq!(object.to_string(), "ServiceEntry evil/many");
    assert!(
        found_there[0].message.contains("35 further"),
        "{}",
        found_there[0].message
    );
    let redirected = sidecar("REDIRECT");
    assert_eq!(
        [20_000, 30_000].map(|first| of_port(&redirected, first)),
        [100, 100]
    );
    assert_eq!(found(&world, &redirected), []);
}
