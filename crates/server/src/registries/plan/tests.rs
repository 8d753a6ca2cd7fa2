use std::path::Path;

use model::{AnyObject, Change};
use registries::proxy::ProxiesSource;
use serde_json::{Value, json};
use testkit::World;
use xds::TypeUrl;

use super::*;

/// A gateway of the namespace of Ingresses.
fn gateway() -> Value {
    json!({
        "id": "router~10.0.9.1~gateway.edge~edge.svc.cluster.local",
        "metadata": {"NAMESPACE": "edge", "CLUSTER_ID": "Kubernetes"},
    })
}

/// What a gateway gets of the proxies of bridges, and what is wrong with them.
fn shown(case: &Path) -> Value {
    let text = std::fs::read_to_string(case.join("in.yaml")).unwrap();
    let bridges = World::objects(&text)
        .into_iter()
        .map(|object| match object {
            AnyObject::McpBridge(bridge) => bridge,
            other => panic!("{:?} is no bridge", other.key()),
        });
    let seen = Seen {
        bridges: bridges.collect(),
        ..Seen::default()
    };
    let plan = plan(&[], &seen);
    let found = plan
        .found
        .iter()
        .map(|found| json!([found.code, &*found.path, &*found.message]));
    let found: Value = found.collect();
    let known = plan.registries.values().flatten();
    let proxies = super::super::manager::ways(plan.proxies, &Default::default(), known.collect());
    let mut world = World::default();
    let source = ProxiesSource::new(&proxies, &"edge".into());
    let owner = registries::proxy::owner();
    let objects = source.objects().iter().cloned();
    world.apply(objects.map(|o| Change::Put(owner.clone(), AnyObject::EnvoyFilter(o))));
    let view = world.view(&testkit::node(&gateway()));
    let of = |ty: TypeUrl| -> Value {
        let set = world.set(&view, ty);
        let ours = set.iter().filter(|r| r.name.contains("proxy"));
        ours.map(|r| testkit::decode(ty.as_str(), &r.body))
            .collect()
    };
    json!({
        "findings": found,
        "clusters": of(TypeUrl::Cluster),
        "listeners": of(TypeUrl::Listener),
    })
}

#[test]
fn gateways_know_the_ways_through_proxies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxies");
    testkit::golden_cases(&folder, shown);
}
