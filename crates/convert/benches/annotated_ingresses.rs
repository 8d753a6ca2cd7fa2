//! What Ingresses with annotations cost: all at once, and one edited, as they become more.

use std::cell::Cell;
use std::fmt::Write;

use divan::Bencher;
use model::Change;
use model::settings::Settings;
use pilothouse_convert::{Stage, load};
use store::Store;
use testkit::{World, settings};

/// The program's allocator, so that what is measured is what a server does.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    divan::main();
}

const INGRESSES: [usize; 2] = [1_000, 10_000];

/// An Ingress of a host of its own, with a handful of annotations and a certificate.
fn ingress(index: usize, code: u16) -> String {
    let namespace = index % 100;
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: i{index}\n  namespace: n{namespace}\n  \
         annotations:\n    nginx.ingress.kubernetes.io/rewrite-target: /$2\n    \
         nginx.ingress.kubernetes.io/limit-rps: \"{code}\"\n    nginx.ingress.kubernetes.io/enable-cors: \"true\"\n    \
         nginx.ingress.kubernetes.io/whitelist-source-range: 10.0.0.0/8\nspec:\n  ingressClassName: nginx\n  tls: \
         [{{hosts: [h{index}.example.com], secretName: cert}}]\n  rules:\n  - host: h{index}.example.com\n    http: \
         {{paths: [{{path: '/api(/|$)(.*)', pathType: ImplementationSpecific, backend: {{service: {{name: s, port: \
         {{number: 80}}}}}}}}, {{path: /a, pathType: Exact, backend: {{service: {{name: s, port: {{name: \
         http}}}}}}}}]}}\n"
    )
}

fn puts(text: &str) -> Vec<Change> {
    let source = model::Owner::new(0, "bench");
    let put = |object| Change::Put(source.clone(), object);
    World::objects(text).into_iter().map(put).collect()
}

fn served() -> Settings {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.edge_classes = "nginx".into();
    settings.features = features.into();
    settings
}

fn objects(count: usize) -> Vec<Change> {
    let mut text = String::new();
    for index in 0..count {
        let _ = writeln!(text, "{}---", ingress(index, 5));
    }
    for namespace in 0..100 {
        let _ = writeln!(
            text,
            "{{apiVersion: v1, kind: Service, metadata: {{name: s, namespace: n{namespace}}}, spec: {{ports: [{{name: \
             http, port: 80}}]}}}}\n---\n{{apiVersion: v1, kind: Secret, metadata: {{name: cert, namespace: \
             n{namespace}}}, type: kubernetes.io/tls}}\n---"
        );
    }
    puts(&text)
}

/// From objects that are read to all that is derived from them.
#[divan::bench(args = INGRESSES, sample_count = 5)]
fn start(bencher: Bencher, count: usize) {
    bencher
        .with_inputs(|| objects(count))
        .bench_local_values(|objects| load(served().into(), objects));
}

/// One Ingress gets another limit.
#[divan::bench(args = INGRESSES)]
fn edit(bencher: Bencher, count: usize) {
    let loaded = load(served().into(), objects(count));
    let (mut store, mut stage): (Store, Stage) = (loaded.store, loaded.stage);
    let turn = Cell::new(0_u16);
    let batch = || {
        turn.set(turn.get() + 1);
        puts(&ingress(count / 2, 6 + turn.get() % 2))
    };
    bencher
        .with_inputs(batch)
        .bench_local_values(|batch| stage.apply(&mut store, batch));
}
