//! What one edited Ingress costs, from the batch to the derived objects in the store, as Ingresses become more.

use std::cell::Cell;
use std::fmt::Write;

use divan::Bencher;
use model::Change;
use pilothouse_convert::{Stage, load};
use store::Store;
use testkit::{World, settings};

/// The program's allocator, so that what is measured is what a server does.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    divan::main();
}

const INGRESSES: [usize; 3] = [1_000, 5_000, 20_000];
/// How many hosts each Ingress has.
const HOSTS: usize = 3;

fn ingress(index: usize, port: u16) -> String {
    let mut text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: i{index}, namespace: n{}}}\nspec:\n  \
         tls: [{{hosts: [h{index}-0.example.com], secretName: c{index}}}]\n  rules:\n",
        index % 100
    );
    for host in 0..HOSTS {
        let _ = writeln!(
            text,
            "  - {{host: h{index}-{host}.example.com, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: \
             {{name: s, port: {{number: {port}}}}}}}}}, {{path: /a, backend: {{service: {{name: s, port: {{name: \
             http}}}}}}}}]}}}}"
        );
    }
    text
}

fn puts(text: &str) -> Vec<Change> {
    let source = model::Owner::new(0, "bench");
    let put = |object| Change::Put(source.clone(), object);
    World::objects(text).into_iter().map(put).collect()
}

fn mesh(count: usize) -> (Store, Stage) {
    let mut text = String::new();
    for index in 0..count {
        let _ = writeln!(text, "{}---", ingress(index, 80));
    }
    for namespace in 0..100 {
        let _ = writeln!(
            text,
            "{{apiVersion: v1, kind: Service, metadata: {{name: s, namespace: n{namespace}}}, spec: {{ports: [{{name: \
             http, port: 80}}]}}}}\n---"
        );
    }
    let settings = settings("ingressControllerMode: DEFAULT");
    let loaded = load(settings.into(), puts(&text));
    (loaded.store, loaded.stage)
}

/// Every host of one Ingress leads to another port.
#[divan::bench(args = INGRESSES)]
fn edit(bencher: Bencher, count: usize) {
    let (mut store, mut stage) = mesh(count);
    let turn = Cell::new(0_u16);
    let batch = || {
        turn.set(turn.get() + 1);
        puts(&ingress(count / 2, 81 + turn.get() % 2))
    };
    bencher
        .with_inputs(batch)
        .bench_local_values(|batch| stage.apply(&mut store, batch));
}

/// An Ingress goes, and another comes.
#[divan::bench(args = INGRESSES)]
fn replace(bencher: Bencher, count: usize) {
    let (mut store, mut stage) = mesh(count);
    let turn = Cell::new(count);
    let batch = || {
        turn.set(turn.get() + 1);
        let (old, new) = (turn.get() - 1, turn.get());
        let gone = puts(&ingress(old, 80))
            .into_iter()
            .map(|change| match change {
                Change::Put(source, object) => Change::Delete(source, object.key()),
                other => other,
            });
        gone.chain(puts(&ingress(new, 80))).collect::<Vec<_>>()
    };
    bencher
        .with_inputs(batch)
        .bench_local_values(|batch| stage.apply(&mut store, batch));
}
