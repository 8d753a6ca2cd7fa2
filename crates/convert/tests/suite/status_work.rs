//! One edited route costs what it touches, statuses too, however many there are.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use model::{Kind, ObjectKey, ObjectName};
use testkit::World;

/// How many routes each Gateway has.
const OF_EACH: usize = 10;

fn gateway(index: usize) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: g{index}, namespace: shop}}, spec: \
         {{gatewayClassName: istio, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}}}\n"
    )
}

fn route(index: usize, host: &str, path: &str) -> String {
    let gateway = index / OF_EACH;
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r{index}, namespace: shop}}, spec: \
         {{parentRefs: [{{name: g{gateway}}}], hostnames: [{host}], rules: [{{matches: [{{path: {{value: {path}}}}}], \
         backendRefs: [{{name: s, port: 80}}]}}]}}}}\n"
    )
}

fn world(count: usize) -> World {
    let gateways = (0..count / OF_EACH).map(gateway);
    let host = |index: usize| format!("h{index}.example.com");
    let routes = (0..count).map(|index| route(index, &host(index), "/"));
    let service = "{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {ports: [{port: 80}]}}\n";
    let all = gateways.chain(routes).chain([service.to_owned()]);
    World::of(&all.collect::<Vec<_>>().join("---\n"))
}

/// Evaluations, objects that differ, and the statuses that were told anew, of a few edits.
fn edits(count: usize) -> Vec<(u64, usize)> {
    let mut world = world(count);
    let snapshot = world.store.snapshot();
    assert_eq!(snapshot.tables.count(Kind::Gateway), count / OF_EACH);
    assert_eq!(snapshot.tables.count(Kind::VirtualService), count);
    // The class is ours without an object.
    assert_eq!(world.statuses.len(), count + count / OF_EACH);
    let mut measured = |yaml: String| {
        let before = world.stage.stats().runs;
        let changes = world.put(&yaml);
        (world.stage.stats().runs - before, changes.objects.len())
    };
    vec![
        // Another path.
        measured(route(7, "h7.example.com", "/b")),
        // Another host.
        measured(route(7, "other.example.com", "/b")),
        // One more, of the first Gateway.
        measured(route(count, "new.example.com", "/").replace(
            &format!("g{}", count / OF_EACH),
            "g0",
        )),
        // Nothing.
        measured(route(8, "h8.example.com", "/")),
        // A service that no route names.
        measured(
            "{apiVersion: v1, kind: Service, metadata: {name: t, namespace: shop}, spec: {ports: [{port: 80}]}}"
                .to_owned(),
        ),
    ]
}

#[test]
fn an_edit_costs_the_same_among_few_and_among_many() {
    let few = edits(50);
    assert_eq!(few, edits(2_000));
    // The route itself and the VirtualService of its host.
    assert_eq!(few[0].1, 2, "{few:?}");
    assert_eq!(few[1].1, 3, "{few:?}");
    assert_eq!(few[2].1, 2, "{few:?}");
    assert_eq!(few[3], (0, 0), "{few:?}");
    assert!(few[4].0 <= 1, "{few:?}");
    assert!(few.iter().all(|(runs, _)| *runs <= 20), "{few:?}");
}

#[test]
fn a_status_tells_how_many_routes_there_are_after_each_edit() {
    let mut world = world(50);
    let attached = |world: &World| {
        let key = ObjectKey {
            kind: Kind::KubeGateway,
            name: ObjectName::new("shop", "g0"),
        };
        world.statuses[&key]["listeners"][0]["attachedRoutes"].clone()
    };
    assert_eq!(attached(&world), OF_EACH);
    world.delete(&ObjectKey {
        kind: Kind::HttpRoute,
        name: ObjectName::new("shop", "r3"),
    });
    assert_eq!(attached(&world), OF_EACH - 1);
    world.put(&route(3, "h3.example.com", "/"));
    assert_eq!(attached(&world), OF_EACH);
}

#[test]
fn what_goes_leaves_nothing() {
    let mut world = world(20);
    for kind in [Kind::HttpRoute, Kind::KubeGateway, Kind::Service] {
        let all = world.store.snapshot();
        for object in all.tables.iter_any(kind) {
            world.delete(&object.key());
        }
    }
    assert!(world.statuses.is_empty(), "{:?}", world.statuses);
    let stats = world.stage.stats();
    assert_eq!((stats.roots, stats.memos, stats.inputs), (0, 0, 0));
}
