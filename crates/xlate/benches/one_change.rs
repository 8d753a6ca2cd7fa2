//! What one change costs a view, from the object to every set of the view, as the mesh grows.
//!
//! `everything`: the proxy sees every service. `scoped`: namespaces of 50 services, and the proxy sees its own.

use std::fmt::Write;
use std::sync::Arc;

use divan::Bencher;
use model::node::Node;
use serde_json::json;
use testkit::{World, node};
use xds::TypeUrl;

/// The program's allocator, so that what is measured is what a server does.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    divan::main();
}

const SERVICES: [usize; 3] = [1_000, 10_000, 100_000];
const TYPES: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
];

/// Services of a namespace in `scoped`.
const EACH: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mesh {
    Everything,
    Scoped,
}

impl Mesh {
    fn namespace(self, index: usize) -> String {
        match self {
            Mesh::Everything => "shop".to_owned(),
            Mesh::Scoped => format!("shop-{}", index / EACH),
        }
    }

    fn service(self, index: usize, last: usize) -> String {
        let (a, b, c) = (index / 50_000, index / 250 % 200, index % 250 + 1);
        let namespace = self.namespace(index);
        format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n\
             metadata: {{name: s{index}, namespace: {namespace}}}\n\
             spec:\n  hosts: [s{index}.{namespace}.svc.cluster.local]\n  addresses: [10.{a}.{b}.{c}]\n  location: MESH_INTERNAL\n  \
             resolution: STATIC\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  endpoints:\n  \
             - {{address: 11.{a}.{b}.{c}, labels: {{app: s{index}}}}}\n  - {{address: 12.{a}.{b}.{last}, labels: {{app: s{index}}}}}\n"
        )
    }

    fn world(self, services: usize) -> (World, Arc<Node>) {
        let mut yaml = String::new();
        if self == Mesh::Scoped {
            yaml += "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: default, namespace: istio-system}\nspec: {egress: [{hosts: ['./*']}]}\n";
        }
        for index in 0..services {
            let _ = write!(yaml, "---\n{}", self.service(index, 2));
        }
        let mut world = World::of(&yaml);
        let namespace = self.namespace(services / 2);
        let node = node(&json!({
            "id": format!("sidecar~13.0.0.1~client-0.{namespace}~{namespace}.svc.cluster.local"),
            "metadata": {"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0"},
        }));
        let view = world.view(&node);
        for ty in TYPES {
            let view = view.clone();
            world.engine.root(&view.set(ty));
        }
        pull(&mut world, &node, &TYPES);
        (world, node)
    }
}

fn pull(world: &mut World, node: &Arc<Node>, types: &[TypeUrl]) -> usize {
    let view = world.view(node);
    types.iter().map(|ty| world.set(&view, *ty).len()).sum()
}

/// One endpoint of one service gets another address.
fn endpoint(bencher: Bencher<'_, '_>, mesh: Mesh, services: usize) {
    let (mut world, node) = mesh.world(services);
    let mut last = 2;
    bencher.bench_local(move || {
        last = 3 + last % 200;
        world.put(&mesh.service(services / 2, last));
        let len = pull(&mut world, &node, &TYPES);
        world.engine.collect();
        len
    });
}

/// The outlier detection of one service changes: clusters and assignments.
fn destination_rule(bencher: Bencher<'_, '_>, mesh: Mesh, services: usize) {
    let (mut world, node) = mesh.world(services);
    let (index, mut turn) = (services / 2, 0);
    let namespace = mesh.namespace(index);
    bencher.bench_local(move || {
        turn = turn % 100 + 1;
        world.put(&format!(
            "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: rule, namespace: {namespace}}}\n\
             spec: {{host: s{index}.{namespace}.svc.cluster.local, trafficPolicy: {{connectionPool: {{tcp: {{maxConnections: {turn}}}}}}}}}\n"
        ));
        let len = pull(&mut world, &node, &TYPES);
        world.engine.collect();
        len
    });
}

/// The timeout of one route changes: the route configuration of its port.
fn virtual_service(bencher: Bencher<'_, '_>, mesh: Mesh, services: usize) {
    let (mut world, node) = mesh.world(services);
    let (index, mut turn) = (services / 2, 0);
    let namespace = mesh.namespace(index);
    bencher.bench_local(move || {
        turn = turn % 100 + 1;
        let host = format!("s{index}.{namespace}.svc.cluster.local");
        world.put(&format!(
            "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: rule, namespace: {namespace}}}\n\
             spec: {{hosts: [{host}], http: [{{timeout: {turn}s, route: [{{destination: {{host: {host}}}}}]}}]}}\n"
        ));
        let len = pull(&mut world, &node, &TYPES);
        world.engine.collect();
        len
    });
}

/// A service appears, and goes the next time.
fn service(bencher: Bencher<'_, '_>, mesh: Mesh, services: usize) {
    let (mut world, node) = mesh.world(services);
    // In the namespace of the proxy.
    let index = services / 2;
    let new = mesh
        .service(index, 2)
        .replace(&format!("s{index}"), "new")
        .replace("[10.", "[9.");
    let key = World::objects(&new)[0].key();
    let mut there = false;
    bencher.bench_local(move || {
        if there {
            world.delete(&key);
        } else {
            world.put(&new);
        }
        there = !there;
        let len = pull(&mut world, &node, &TYPES);
        world.engine.collect();
        len
    });
}

macro_rules! benches {
    ($($name:ident: $mesh:expr),+) => {$(
        mod $name {
            use super::{Bencher, Mesh, SERVICES};

            #[divan::bench(args = SERVICES, sample_count = 40, sample_size = 1)]
            fn endpoint(bencher: Bencher<'_, '_>, services: usize) {
                super::endpoint(bencher, $mesh, services);
            }

            #[divan::bench(args = SERVICES, sample_count = 40, sample_size = 1)]
            fn destination_rule(bencher: Bencher<'_, '_>, services: usize) {
                super::destination_rule(bencher, $mesh, services);
            }

            #[divan::bench(args = SERVICES, sample_count = 10, sample_size = 1)]
            fn virtual_service(bencher: Bencher<'_, '_>, services: usize) {
                super::virtual_service(bencher, $mesh, services);
            }

            #[divan::bench(args = SERVICES, sample_count = 10, sample_size = 1)]
            fn service(bencher: Bencher<'_, '_>, services: usize) {
                super::service(bencher, $mesh, services);
            }
        }
    )+};
}

benches! { everything: Mesh::Everything, scoped: Mesh::Scoped }

/// An object that nothing of the view reads.
#[divan::bench(args = SERVICES, sample_count = 40, sample_size = 1)]
fn unrelated(bencher: Bencher<'_, '_>, services: usize) {
    let (mut world, node) = Mesh::Everything.world(services);
    let mut turn = 0;
    bencher.bench_local(move || {
        turn += 1;
        world.put(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: other, namespace: shop}}\ndata: {{turn: \"{turn}\"}}\n"
        ));
        pull(&mut world, &node, &TYPES)
    });
}
