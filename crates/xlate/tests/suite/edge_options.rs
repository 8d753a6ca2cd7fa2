//! What a gateway of an Ingress with annotations gets under options: golden cases.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::Arc;

use model::settings::Features;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::{Map, Value, json};
use testkit::{World, decode, golden_cases, node, settings};
use xds::TypeUrl;

/// The listener, the routes and the clusters of a gateway of Higress's, and what is told.
fn shown(case: &Path) -> Value {
    let mut settings = settings("");
    let classes = (
        "PILOTHOUSE_INGRESS_CLASSES".to_owned(),
        "higress".to_owned(),
    );
    settings.features = Arc::new(Features::from_env([classes]));
    let mut world = World::new(settings);
    world.put(&std::fs::read_to_string(case.join("in.yaml")).unwrap());
    let gateway = node(&json!({
        "id": "router~10.9.1.1~gateway-0.higress-system~higress-system.svc.cluster.local",
        "metadata": {
            "NAMESPACE": "higress-system",
            "CLUSTER_ID": "Kubernetes",
            "LABELS": {"higress": "higress-system-higress-gateway"},
        },
    }));
    let view = world.view(&gateway);
    let mut shown = Map::new();
    for ty in [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster] {
        let set = world.set(&view, ty);
        // Those that are of every gateway have no options.
        let concerned = set
            .iter()
            .filter(|r| ty != TypeUrl::Cluster || r.name.starts_with("outbound"));
        let resources = concerned.map(|r| (r.name.to_string(), decode(ty.as_str(), &r.body)));
        shown.extend(resources);
    }
    let (of_view, of_mesh) = (world.get(&view.findings()), world.get(&FindingsOfMesh));
    let found = of_mesh
        .iter()
        .chain(of_view.iter())
        .map(ToString::to_string);
    shown.insert("found".to_owned(), found.collect());
    shown.into()
}

#[test]
fn options_become_what_stands_there() {
    golden_cases(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/edge"),
        shown,
    );
}
