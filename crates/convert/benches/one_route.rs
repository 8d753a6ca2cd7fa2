//! What one edited HTTPRoute costs, from the batch to the derived objects in the store and to statuses, as routes and
//! Gateways become more.

use std::cell::Cell;
use std::fmt::Write;

use divan::Bencher;
use model::Change;
use pilothouse_convert::Stage;
use store::Store;
use testkit::{World, settings};

/// The program's allocator, so that what is measured is what a server does.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    divan::main();
}

const ROUTES: [usize; 3] = [500, 5_000, 20_000];
/// How many routes each Gateway has.
const OF_EACH: usize = 10;
const NAMESPACES: usize = 100;

fn gateway(index: usize) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: g{index}, namespace: n{}}}, spec: \
         {{gatewayClassName: istio, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}}}",
        index % NAMESPACES
    )
}

fn route(index: usize, path: usize) -> String {
    let gateway = index / OF_EACH;
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r{index}, namespace: n{}}}, spec: \
         {{parentRefs: [{{name: g{gateway}}}], hostnames: [h{index}.example.com], rules: [{{matches: [{{path: {{value: \
         /{path}}}}}], backendRefs: [{{name: s, port: 80}}]}}]}}}}",
        gateway % NAMESPACES
    )
}

fn puts(text: &str) -> Vec<Change> {
    let source = model::Owner::new(0, "bench");
    let put = |object| Change::Put(source.clone(), object);
    World::objects(text).into_iter().map(put).collect()
}

fn mesh(count: usize) -> (Store, Stage) {
    let mut text = String::new();
    for index in 0..count / OF_EACH {
        let _ = writeln!(text, "{}\n---", gateway(index));
    }
    for index in 0..count {
        let _ = writeln!(text, "{}\n---", route(index, 0));
    }
    for namespace in 0..NAMESPACES {
        let _ = writeln!(
            text,
            "{{apiVersion: v1, kind: Service, metadata: {{name: s, namespace: n{namespace}}}, spec: {{ports: [{{name: \
             http, port: 80}}]}}}}\n---"
        );
    }
    let (mut store, mut stage) = (Store::new(settings("").into()), Stage::with_statuses());
    stage.apply(&mut store, puts(&text));
    stage.take_statuses(&store.snapshot());
    (store, stage)
}

/// A route matches another path.
#[divan::bench(args = ROUTES)]
fn edit(bencher: Bencher, count: usize) {
    let (mut store, mut stage) = mesh(count);
    let turn = Cell::new(0);
    let batch = || {
        turn.set(turn.get() + 1);
        puts(&route(count / 2, turn.get()))
    };
    bencher.with_inputs(batch).bench_local_values(|batch| {
        let changes = stage.apply(&mut store, batch);
        (changes, stage.take_statuses(&store.snapshot()))
    });
}

/// A route goes from its Gateway or comes back.
#[divan::bench(args = ROUTES)]
fn come_and_go(bencher: Bencher, count: usize) {
    let (mut store, mut stage) = mesh(count);
    let turn = Cell::new(false);
    let batch = || {
        turn.set(!turn.get());
        let changes = puts(&route(count / 2, 0)).into_iter();
        let changes = changes.map(|change| match change {
            Change::Put(source, object) if turn.get() => Change::Delete(source, object.key()),
            other => other,
        });
        changes.collect::<Vec<_>>()
    };
    bencher.with_inputs(batch).bench_local_values(|batch| {
        let changes = stage.apply(&mut store, batch);
        (changes, stage.take_statuses(&store.snapshot()))
    });
}
