//! Route configurations of a sidecar that sees 1,000 services on one port, every second of them with a rule.

use std::sync::Arc;

use divan::{Bencher, black_box};
use pilothouse_xlate::View;
use serde_json::json;
use testkit::{World, node};
use xds::{ResourceSet, TypeUrl};

const SERVICES: usize = 1_000;

fn main() {
    divan::main();
}

fn services() -> String {
    let mut yaml = String::new();
    for at in 0..SERVICES {
        yaml += &format!(
            "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{ name: s{at}, namespace: shop }}
spec:
  hosts: [s{at}.shop.svc.cluster.local]
  addresses: [10.{}.{}.1]
  ports: [{{ number: 80, name: http, protocol: HTTP }}]
  resolution: STATIC
  endpoints: [{{ address: 10.1.0.1 }}]
",
            at / 250,
            at % 250
        );
        if at % 2 == 0 {
            yaml += &rule(at, 1);
        }
    }
    yaml
}

fn rule(at: usize, timeout: u32) -> String {
    format!(
        "
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{ name: s{at}, namespace: shop }}
spec:
  hosts: [s{at}]
  http:
  - match: [{{ uri: {{ prefix: /v2 }}, headers: {{ x-beta: {{ exact: '1' }} }} }}]
    route: [{{ destination: {{ host: s{at}, subset: v2 }} }}]
  - timeout: {timeout}s
    route:
    - {{ destination: {{ host: s{at}, subset: v1 }}, weight: 90 }}
    - {{ destination: {{ host: s{at}, subset: v2 }}, weight: 10 }}
"
    )
}

fn view(world: &World) -> Arc<View> {
    world.view(&node(&json!({
        "id": "sidecar~10.0.0.1~cart-0.shop~shop.svc.cluster.local",
        "metadata": { "NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes" },
    })))
}

fn routes(world: &World, view: &Arc<View>) -> ResourceSet {
    world.set(view, TypeUrl::Route)
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn cold(bencher: Bencher<'_, '_>) {
    let yaml = services();
    bencher
        .with_inputs(|| {
            let world = World::of(&yaml);
            let view = view(&world);
            // Services and their order belong to everybody.
            world.set(&view, TypeUrl::Cluster);
            (world, view)
        })
        .bench_refs(|(world, view)| black_box(routes(world, view)));
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn one_rule_edited(bencher: Bencher<'_, '_>) {
    let mut world = World::of(&services());
    let view = view(&world);
    let root = world.engine.root(&view.set(TypeUrl::Route));
    routes(&world, &view);
    let world = std::cell::RefCell::new(world);
    let timeout = std::cell::Cell::new(1);
    bencher
        .with_inputs(|| {
            timeout.set(timeout.get() + 1);
            world.borrow_mut().put(&rule(500, timeout.get()));
        })
        .bench_local_values(|()| black_box(routes(&world.borrow(), &view)));
    world.borrow_mut().engine.release(root);
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn one_service_added_and_removed(bencher: Bencher<'_, '_>) {
    let world = std::cell::RefCell::new(World::of(&services()));
    let view = view(&world.borrow());
    routes(&world.borrow(), &view);
    let at = std::cell::Cell::new(SERVICES);
    bencher
        .with_inputs(|| {
            at.set(at.get() + 1);
            world.borrow_mut().put(&format!(
                "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{ name: more, namespace: shop }}
spec:
  hosts: [more{}.shop.svc.cluster.local]
  ports: [{{ number: 80, name: http, protocol: HTTP }}]
  resolution: STATIC
  endpoints: [{{ address: 10.1.0.1 }}]
",
                at.get()
            ));
        })
        .bench_local_values(|()| black_box(routes(&world.borrow(), &view)));
}
