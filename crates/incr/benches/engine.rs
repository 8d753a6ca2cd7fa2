//! What a commit costs with 100,000 memos: 50 views of 2,000 clusters each, over 10,000 services.

use std::sync::Arc;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use pilothouse_incr::{Cx, Engine, Guarded, InputKey, Query, RootId};

const SERVICES: u32 = 10_000;
const VIEWS: u32 = 50;
const PER_VIEW: u32 = 2_000;

fn main() {
    divan::main();
}

/// A number for each service, and one for the mesh that the high bits of each cluster depend on.
struct Mesh {
    services: Vec<u64>,
    config: u64,
}

impl Guarded for Mesh {
    type Token = ();
}

const CONFIG: InputKey = InputKey(u64::MAX);

fn service_row(service: u32) -> InputKey {
    InputKey(u64::from(service))
}

fn mesh() -> Mesh {
    Mesh {
        services: (0..u64::from(SERVICES)).collect(),
        config: 0,
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Cluster {
    view: u32,
    service: u32,
}

impl Query<Mesh> for Cluster {
    type Value = [u64; 8];
    fn eval(&self, cx: &Cx<'_, Mesh>) -> [u64; 8] {
        cx.read(CONFIG, ());
        let mesh = cx.read(service_row(self.service), ());
        [mesh.services[self.service as usize] ^ mesh.config << 32 ^ u64::from(self.view) << 48; 8]
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Clusters(u32);

impl Query<Mesh> for Clusters {
    type Value = Vec<Arc<[u64; 8]>>;
    fn eval(&self, cx: &Cx<'_, Mesh>) -> Self::Value {
        let services = (0..PER_VIEW).map(|i| (self.0 * (SERVICES / VIEWS) + i) % SERVICES);
        services
            .map(|service| {
                cx.query(&Cluster {
                    view: self.0,
                    service,
                })
            })
            .collect()
    }
}

fn pull_all(engine: &Engine<Mesh>, mesh: &Mesh) {
    for view in 0..VIEWS {
        black_box(engine.get(mesh, &Clusters(view)));
    }
}

fn warm() -> (Engine<Mesh>, Mesh, Vec<RootId>) {
    let (mut engine, mesh) = (Engine::new(), mesh());
    let roots: Vec<_> = (0..VIEWS)
        .map(|view| engine.root(&Clusters(view)))
        .collect();
    pull_all(&engine, &mesh);
    engine.changed_roots();
    engine.collect();
    (engine, mesh, roots)
}

/// Commits and pulls what changed, as a server does.
fn turn(engine: &mut Engine<Mesh>, mesh: &Mesh, roots: &[RootId], changed: InputKey) -> usize {
    engine.commit([changed]);
    let changed = engine.changed_roots();
    for root in &changed {
        let view = roots
            .binary_search(root)
            .expect("roots are registered in the order of views");
        black_box(engine.get_with_changed(mesh, &Clusters(view as u32)));
    }
    engine.collect();
    changed.len()
}

#[divan::bench(sample_count = 10)]
fn cold(bencher: Bencher) {
    bencher
        .counter(ItemsCount::new(VIEWS * PER_VIEW))
        .with_inputs(mesh)
        .bench_values(|mesh| {
            let engine = Engine::new();
            pull_all(&engine, &mesh);
            engine
        });
}

/// A service that 10 of the 50 views see.
#[divan::bench]
fn one_service_changed(bencher: Bencher) {
    let (mut engine, mut mesh, roots) = warm();
    bencher.bench_local(|| {
        mesh.services[5_000] += 1;
        assert_eq!(turn(&mut engine, &mesh, &roots, service_row(5_000)), 10);
    });
}

/// The row is written, but each cluster comes out equal.
#[divan::bench]
fn one_service_changed_with_equal_clusters(bencher: Bencher) {
    let (mut engine, mesh, roots) = warm();
    bencher.bench_local(|| assert_eq!(turn(&mut engine, &mesh, &roots, service_row(5_000)), 10));
}

#[divan::bench]
fn unrelated_change(bencher: Bencher) {
    let (mut engine, mesh, roots) = warm();
    bencher.bench_local(|| assert_eq!(turn(&mut engine, &mesh, &roots, service_row(SERVICES)), 0));
}

/// Nothing changed, and all roots are asked for all the same.
#[divan::bench]
fn unrelated_change_pulling_all_roots(bencher: Bencher) {
    let (mut engine, mesh, _) = warm();
    bencher.bench_local(|| {
        engine.commit([service_row(SERVICES)]);
        pull_all(&engine, &mesh);
    });
}

#[divan::bench(sample_count = 20)]
fn mesh_wide_change(bencher: Bencher) {
    let (mut engine, mut mesh, roots) = warm();
    bencher
        .counter(ItemsCount::new(VIEWS * PER_VIEW))
        .bench_local(|| {
            mesh.config += 1;
            assert_eq!(turn(&mut engine, &mesh, &roots, CONFIG), VIEWS as usize);
        });
}

/// One view goes: 2,000 memos are freed, each among the 100,000 readers of the mesh config.
#[divan::bench(sample_count = 10)]
fn root_release(bencher: Bencher) {
    bencher
        .counter(ItemsCount::new(PER_VIEW))
        .with_inputs(warm)
        .bench_values(|(mut engine, mesh, roots)| {
            engine.release(roots[25]);
            engine.collect();
            assert_eq!(
                engine.stats().memos,
                ((VIEWS - 1) * (PER_VIEW + 1)) as usize
            );
            (engine, mesh)
        });
}

#[divan::bench]
fn which_roots_would_a_change_dirty(bencher: Bencher) {
    let (engine, _, _) = warm();
    bencher.bench_local(|| assert_eq!(engine.dirty_roots_for([service_row(5_000)]).len(), 10));
}
