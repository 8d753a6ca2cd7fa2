//! One edit costs what it touches, however much there is.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use model::Kind;
use testkit::{World, settings};

fn ingress(index: usize, port: u16) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: i{index}, namespace: n{}}}\nspec:\n  \
         rules:\n  - {{host: h{index}.example.com, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: \
         {{name: s, port: {{number: {port}}}}}}}}}]}}}}\n",
        index % 20
    )
}

fn world(count: usize) -> World {
    let mut world = World::new(settings("ingressControllerMode: DEFAULT"));
    let all: Vec<String> = (0..count).map(|index| ingress(index, 80)).collect();
    world.put(&all.join("---\n"));
    world
}

/// Evaluations, and objects that differ, of a few edits.
fn edits(count: usize) -> Vec<(u64, usize)> {
    let mut world = world(count);
    let snapshot = world.store.snapshot();
    assert_eq!(snapshot.tables.count(Kind::Gateway), count);
    assert_eq!(snapshot.tables.count(Kind::VirtualService), count);
    let mut measured = |yaml: String| {
        let before = world.stage.stats().runs;
        let changes = world.put(&yaml);
        (world.stage.stats().runs - before, changes.objects.len())
    };
    vec![
        // Another port.
        measured(ingress(7, 81)),
        // Another host.
        measured(ingress(7, 81).replace("h7.", "other.")),
        // One more.
        measured(ingress(count, 80)),
        // Nothing.
        measured(ingress(8, 80)),
        // What no Ingress reads.
        measured("{apiVersion: v1, kind: Namespace, metadata: {name: n3}}".to_owned()),
    ]
}

#[test]
fn an_edit_costs_the_same_among_few_and_among_many() {
    let few = edits(50);
    assert_eq!(few, edits(2_000));
    // The Ingress itself and the VirtualService of its host: not its Gateway.
    assert_eq!(few[0].1, 2);
    assert_eq!(few[1].1, 3);
    assert_eq!(few[2].1, 3);
    assert_eq!(few[3], (0, 0));
    assert_eq!(few[4].0, 0);
    // Five of them find that no Ingress is served with its annotations, once for each that comes; two find whose its host is, and
    // one what it is charged.
    assert!(few.iter().all(|(runs, _)| *runs <= 16), "{few:?}");
}

#[test]
fn what_goes_leaves_nothing() {
    let mut world = world(30);
    let keys: Vec<_> = world
        .store
        .snapshot()
        .tables
        .iter_any(Kind::Ingress)
        .map(|o| o.key())
        .collect();
    for key in keys {
        world.delete(&key);
    }
    let (snapshot, stats) = (world.store.snapshot(), world.stage.stats());
    assert_eq!(snapshot.tables.count(Kind::Gateway), 0);
    assert_eq!(snapshot.tables.count(Kind::VirtualService), 0);
    assert_eq!((stats.roots, stats.memos, stats.inputs), (0, 0, 0));
}

#[test]
fn an_ingress_of_many_hosts_is_read_once() {
    let rules = |port: u16| {
        let rule = |host: usize| {
            format!(
                "{{host: h{host}.example.com, http: {{paths: [{{path: /, backend: {{service: {{name: s, port: {{number: {}}}}}}}}}]}}}}",
                if host == 5 { port } else { 80 }
            )
        };
        let rules: Vec<String> = (0..500).map(rule).collect();
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: all, namespace: shop}}, spec: {{rules: [{}]}}}}",
            rules.join(", ")
        )
    };
    let mut world = World::new(settings("ingressControllerMode: DEFAULT"));
    world.put(&rules(80));
    let before = world.stage.stats().runs;
    let changes = world.put(&rules(81));
    // The Ingress and one VirtualService; the rules of the other hosts are the same.
    assert_eq!(changes.objects.len(), 2);
    assert!(world.stage.stats().runs - before <= 510);
}

/// Gateways, of which there are as many however many routes there are.
const GATEWAYS: usize = 10;

/// An HTTPRoute of a host of its own at one of the Gateways, and at a service of its own.
fn route(index: usize, port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r{index}, namespace: n{}}}\nspec:\n  \
         parentRefs: [{{name: g{}, namespace: infra}}, {{group: '', kind: Service, name: s{index}}}]\n  \
         hostnames: [h{index}.example.com]\n  \
         rules: [{{backendRefs: [{{name: s{index}, port: {port}}}]}}]\n",
        index % 20,
        index % GATEWAYS
    )
}

fn service(index: usize) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: s{index}, namespace: n{}}}, spec: {{ports: [{{port: 80}}]}}}}\n",
        index % 20
    )
}

fn gateway(index: usize, listeners: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: g{index}, namespace: infra}}, spec: \
         {{gatewayClassName: istio, listeners: [{listeners}]}}}}\n"
    )
}

const LISTENER: &str =
    "{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}";
const ANOTHER: &str = "{name: b, port: 81, protocol: HTTP, hostname: other.example.com, \
                       allowedRoutes: {namespaces: {from: All}}}";

fn routed(count: usize) -> World {
    let mut world = World::new(settings(""));
    let gateways = (0..GATEWAYS).map(|index| gateway(index, LISTENER));
    let routes = (0..count).flat_map(|index| [service(index), route(index, 80)]);
    let all: Vec<String> = gateways.chain(routes).collect();
    world.put(&all.join("---\n"));
    world
}

/// Evaluations, and objects that differ, of a few edits of routes.
fn route_edits(count: usize) -> Vec<(u64, usize)> {
    let mut world = routed(count);
    let snapshot = world.store.snapshot();
    assert_eq!(snapshot.tables.count(Kind::VirtualService), 2 * count);
    let mut measured = |yaml: String| {
        let before = world.stage.stats().runs;
        let changes = world.put(&yaml);
        (world.stage.stats().runs - before, changes.objects.len())
    };
    vec![
        // Another port.
        measured(route(7, 81)),
        // Another host.
        measured(route(7, 81).replace("h7.", "other.")),
        // A host of two routes, and then a rule of one of them.
        measured(route(17, 80).replace("h17.", "other.")),
        measured(route(17, 81).replace("h17.", "other.")),
        // One more.
        measured(format!("{}---\n{}", service(count), route(count, 80))),
        // Nothing that counts: a label.
        measured(route(8, 80).replace("name: r8,", "name: r8, labels: {a: b},")),
        // What a route sends requests to.
        measured(service(9).replace("port: 80", "port: 90")),
    ]
}

#[test]
fn an_edited_route_costs_the_same_among_few_and_among_many() {
    let few = route_edits(50);
    assert_eq!(few, route_edits(2_000));
    // The route itself, the VirtualService of its host, and that of its service.
    assert_eq!(few[0].1, 3);
    assert_eq!(few[1].1, 3);
    assert_eq!(few[3].1, 3);
    // Two objects of which nothing else changes.
    assert_eq!((few[5].1, few[6].1), (1, 1));
    assert!(few.iter().all(|(runs, _)| *runs <= 16), "{few:?}");
}

#[test]
fn routes_that_go_leave_nothing() {
    let mut world = routed(30);
    let snapshot = world.store.snapshot();
    for kind in [Kind::HttpRoute, Kind::KubeGateway] {
        for object in snapshot.tables.iter_any(kind) {
            world.delete(&object.key());
        }
    }
    let (snapshot, stats) = (world.store.snapshot(), world.stage.stats());
    assert_eq!(snapshot.tables.count(Kind::Gateway), 0);
    assert_eq!(snapshot.tables.count(Kind::VirtualService), 0);
    assert_eq!((stats.roots, stats.memos, stats.inputs), (0, 0, 0));
}

#[test]
fn a_listener_that_serves_no_host_of_the_routes_changes_none() {
    let mut world = routed(40);
    let before = world.stage.stats().runs;
    let changes = world.put(&gateway(3, &format!("{LISTENER}, {ANOTHER}")));
    // The Gateway, and the Istio Gateway of the new listener.
    assert_eq!(changes.objects.len(), 2);
    // What is made of the Gateway, and what the four routes that name it attach to.
    let runs = world.stage.stats().runs - before;
    assert!(runs <= 40, "{runs}");
}
