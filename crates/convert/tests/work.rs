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
    assert!(few.iter().all(|(runs, _)| *runs <= 8), "{few:?}");
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
