//! What a hostile configuration costs: `cargo run -p pilothouse-xlate --example amplify -- delegates 1000`.
//! The numbers are the length of lists and of texts.

use std::time::Instant;

use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::json;
use testkit::{World, node};
use xds::TypeUrl;

#[path = "../tests/suite/limits/hostile.rs"]
mod hostile;

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next();
    let mut number = || args.next().and_then(|n| n.parse().ok());
    let (n, bytes) = (number().unwrap_or(100), number().unwrap_or(1000));
    let yaml = name
        .as_deref()
        .and_then(|name| hostile::yaml(name, n, bytes));
    let Some(yaml) = yaml else {
        println!("which of {:?}?", hostile::NAMES);
        return;
    };
    let world = World::of(&yaml);
    println!(
        "input {} bytes, {} kB resident",
        yaml.len(),
        resident("VmRSS")
    );
    for (kind, id) in [
        (
            "sidecar",
            "sidecar~10.0.0.5~cart.shop~shop.svc.cluster.local",
        ),
        (
            "gateway",
            "router~10.0.0.6~edge.shop~shop.svc.cluster.local",
        ),
    ] {
        let view = world.view(&node(&json!({
            "id": id,
            "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": "1.32.0", "CLUSTER_ID": "Kubernetes"},
        })));
        for ty in [
            TypeUrl::Cluster,
            TypeUrl::Endpoint,
            TypeUrl::Listener,
            TypeUrl::Route,
        ] {
            let start = Instant::now();
            let set = world.set(&view, ty);
            let bytes: usize = set.iter().map(|r| r.body.len()).sum();
            println!(
                "{kind} {ty:?}: {} resources, {bytes} bytes, {:?}",
                set.len(),
                start.elapsed()
            );
        }
        let start = Instant::now();
        let found = world.get(&view.findings());
        println!("{kind} findings: {}, {:?}", found.len(), start.elapsed());
    }
    let start = Instant::now();
    let found = world.get(&FindingsOfMesh);
    println!("mesh findings: {}, {:?}", found.len(), start.elapsed());
    println!("peak {} kB", resident("VmHWM"));
}

/// A line of the process's status in kB.
fn resident(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}
