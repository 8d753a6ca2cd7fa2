//! What one change costs a view of 1,000 services: from the object to every set of the view.

use std::fmt::Write;
use std::sync::Arc;

use divan::Bencher;
use model::node::Node;
use pilothouse_xlate::TypeUrl;
use serde_json::json;
use testkit::{World, node};

fn main() {
    divan::main();
}

const SERVICES: [usize; 2] = [1_000, 10_000];

fn service(index: usize, last: usize) -> String {
    let (a, b) = (index / 250, index % 250 + 1);
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n\
         metadata: {{name: s{index}, namespace: shop}}\n\
         spec:\n  hosts: [s{index}.shop.svc.cluster.local]\n  addresses: [10.{a}.{b}.1]\n  location: MESH_INTERNAL\n  \
         resolution: STATIC\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  endpoints:\n  \
         - {{address: 11.{a}.{b}.1, labels: {{app: s{index}}}}}\n  - {{address: 11.{a}.{b}.{last}, labels: {{app: s{index}}}}}\n"
    )
}

fn world(services: usize) -> (World, Arc<Node>) {
    let mut yaml = String::new();
    for index in 0..services {
        let _ = write!(yaml, "---\n{}", service(index, 2));
    }
    let mut world = World::of(&yaml);
    let node = node(&json!({
        "id": "sidecar~12.0.0.1~client-0.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0"},
    }));
    pull(&mut world, &node);
    (world, node)
}

fn pull(world: &mut World, node: &Arc<Node>) -> usize {
    let view = world.view(node);
    let types = [
        TypeUrl::Cluster,
        TypeUrl::Endpoint,
        TypeUrl::Listener,
        TypeUrl::Route,
    ];
    types.iter().map(|ty| world.set(&view, *ty).len()).sum()
}

/// One endpoint of one service gets another address.
#[divan::bench(args = SERVICES)]
fn an_endpoint_changes(bencher: Bencher<'_, '_>, services: usize) {
    let (mut world, node) = world(services);
    let mut last = 2;
    bencher.bench_local(move || {
        last = 3 + last % 200;
        world.put(&service(services / 2, last));
        pull(&mut world, &node)
    });
}

/// A service appears, and goes the next time.
#[divan::bench(args = SERVICES)]
fn a_service_comes_or_goes(bencher: Bencher<'_, '_>, services: usize) {
    let (mut world, node) = world(services);
    let new = service(services, 2);
    let key = World::objects(&new)[0].key();
    let mut there = false;
    bencher.bench_local(move || {
        if there {
            world.delete(&key);
        } else {
            world.put(&new);
        }
        there = !there;
        pull(&mut world, &node)
    });
}

/// An object that nothing of the view reads.
#[divan::bench(args = SERVICES)]
fn an_unrelated_object_changes(bencher: Bencher<'_, '_>, services: usize) {
    let (mut world, node) = world(services);
    let mut turn = 0;
    bencher.bench_local(move || {
        turn += 1;
        world.put(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: other, namespace: shop}}\ndata: {{turn: \"{turn}\"}}\n"
        ));
        pull(&mut world, &node)
    });
}
