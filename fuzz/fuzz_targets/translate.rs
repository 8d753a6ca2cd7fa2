//! Any objects in, everything for a sidecar and a gateway out: no panic, and what is made is in proportion.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use model::parse::{Validation, parse};
use model::{Change, Owner};
use serde_json::json;
use testkit::{World, node, settings};
use xds::TypeUrl;
use xlate::findings::FindingsOfMesh;

/// Bytes of resources that are there without objects.
const BASE: usize = 1 << 20;
/// Bytes for each byte of input. Products may grow until a limit of `mesh::limits` holds them: a ServiceEntry of 4 kB with
/// 256 hosts and 64 ports, the most that one may have, makes 8,000.
const EACH: usize = 16_000;
/// Longer inputs find nothing that shorter ones do not, and take their time.
const LONGEST: usize = 16 << 10;

/// A service of the proxies, so that there is something to route to.
const SERVICE: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}, {number: 9000, name: tcp, protocol: TCP}]
  endpoints: [{address: 10.0.0.5, labels: {app: cart}}]
---
";

fuzz_target!(|text: &str| {
    if text.len() > LONGEST {
        return;
    }
    let file = Path::new("fuzz.yaml").into();
    let parsed = parse(&format!("{SERVICE}{text}"), &file, Validation::Warn);
    let owner = Owner::new(0, "fuzz");
    let objects: Vec<_> = parsed.objects().cloned().collect();
    let mut world = World::new(settings("trustDomain: a\ntrustDomainAliases: [b]\n"));
    world.apply(objects.into_iter().map(|o| Change::Put(owner.clone(), o)));
    let mut made = 0;
    for kind in ["sidecar", "router"] {
        let view = world.view(&node(&json!({
            "id": format!("{kind}~10.0.0.5~cart.shop~shop.svc.cluster.local"),
            "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": "1.32.0"},
        })));
        for ty in TypeUrl::ALL {
            made += world
                .set(&view, ty)
                .iter()
                .map(|r| r.body.len())
                .sum::<usize>();
        }
        world.get(&view.findings());
    }
    world.get(&FindingsOfMesh);
    let most = BASE + EACH * text.len();
    assert!(made <= most, "{made} bytes of {}", text.len());
});
