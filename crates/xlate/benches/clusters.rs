//! What clusters and endpoints cost: one service, a cold start with 1,000 services, and one change among them.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use incr::Engine;
use mesh::view::ProxyKey;
use pilothouse_xlate::ViewOf;
use serde_json::json;
use store::Snapshot;
use testkit::World;
use xds::TypeUrl;

const SERVICES: usize = 1_000;
const ENDPOINTS: usize = 5;

fn main() {
    divan::main();
}

fn entry(name: usize, endpoints: usize) -> String {
    let addresses: String = (0..endpoints)
        .map(|at| format!("  - {{address: 10.{}.{}.{at}, serviceAccount: s{name}, labels: {{security.istio.io/tlsMode: istio}}}}\n", name / 250, name % 250))
        .collect();
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: s{name}, namespace: shop}}\nspec:\n  hosts: [s{name}.shop.svc.cluster.local]\n  location: MESH_INTERNAL\n  resolution: STATIC\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  endpoints:\n{addresses}---\n"
    )
}

fn world(services: usize) -> World {
    let entries: Vec<String> = (0..services).map(|at| entry(at, ENDPOINTS)).collect();
    World::of(&entries.concat())
}

fn proxy() -> ProxyKey {
    ProxyKey::new(testkit::node(&json!({
        "id": "sidecar~10.9.9.9~client.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes"},
    })))
}

fn pull(engine: &Engine<Snapshot>, snapshot: &Snapshot, ty: TypeUrl) -> usize {
    let viewed = engine.get(snapshot, &ViewOf(proxy()));
    engine.get(snapshot, &viewed.view.set(ty)).len()
}

fn cold(bencher: Bencher, services: usize, ty: TypeUrl) {
    let snapshot = world(services).store.snapshot();
    bencher
        .counter(ItemsCount::new(services))
        .with_inputs(Engine::new)
        .bench_refs(|engine| pull(engine, black_box(&snapshot), ty));
}

/// From objects to encoded clusters.
#[divan::bench(args = [1, SERVICES])]
fn clusters_cold(bencher: Bencher, services: usize) {
    cold(bencher, services, TypeUrl::Cluster);
}

/// From objects to encoded assignments.
#[divan::bench(args = [1, SERVICES])]
fn endpoints_cold(bencher: Bencher, services: usize) {
    cold(bencher, services, TypeUrl::Endpoint);
}

/// One service of 1,000 gets another endpoint: both sets of a view.
#[divan::bench]
fn one_endpoint_changes(bencher: Bencher) {
    let mut world = world(SERVICES);
    let view = world.view(proxy().node());
    let types = [TypeUrl::Cluster, TypeUrl::Endpoint];
    for ty in types {
        let view = view.clone();
        world.engine.root(&view.set(ty));
        world.set(&world.view(proxy().node()), ty);
    }
    let mut endpoints = ENDPOINTS;
    bencher.bench_local(|| {
        endpoints = if endpoints == ENDPOINTS {
            ENDPOINTS + 1
        } else {
            ENDPOINTS
        };
        world.put(&entry(SERVICES / 2, endpoints));
        types.map(|ty| world.set(&view, ty).len())
    });
}
