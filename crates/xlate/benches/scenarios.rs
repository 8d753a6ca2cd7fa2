//! What a proxy costs from cold in the configurations of Istio's own benchmarks, by type of resource. Nothing is measured
//! where there are no recordings.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use incr::Engine;
use mesh::view::ProxyKey;
use pilothouse_xlate::ViewOf;
use testkit::Scenario;
use xds::TypeUrl;

const TYPES: [(&str, TypeUrl); 4] = [
    ("clusters", TypeUrl::Cluster),
    ("endpoints", TypeUrl::Endpoint),
    ("listeners", TypeUrl::Listener),
    ("routes", TypeUrl::Route),
];

fn main() {
    divan::main();
}

/// `istio-bench-http/sidecar clusters`.
fn cases() -> Vec<String> {
    let names = Scenario::names();
    let names = names.iter().filter(|n| n.starts_with("istio-bench-"));
    let scenarios = names.filter_map(|n| Some((n, Scenario::recorded(n)?)));
    scenarios
        .flat_map(|(name, scenario)| {
            let proxies: Vec<String> = scenario.nodes.keys().cloned().collect();
            let of_proxy = |proxy: String| TYPES.map(|(ty, _)| format!("{name}/{proxy} {ty}"));
            proxies.into_iter().flat_map(of_proxy).collect::<Vec<_>>()
        })
        .collect()
}

/// From objects to encoded resources; items are resources, so that the time of one is shown.
#[divan::bench(args = cases())]
fn cold(bencher: Bencher, case: &str) {
    let parts = case
        .split_once(' ')
        .and_then(|(of, ty)| Some((of.split_once('/')?, ty)));
    let ((name, proxy), ty) = parts.expect("cases have three parts");
    let scenario = Scenario::recorded(name).expect("cases are of recorded scenarios");
    let node = &scenario.nodes[proxy];
    let ty = TYPES.iter().find(|(n, _)| *n == ty).map(|(_, ty)| *ty);
    let ty = ty.expect("cases name types");
    let snapshot = scenario.world.store.snapshot();
    let pull = |engine: &mut Engine<_>| {
        let viewed = engine.get(&*snapshot, &ViewOf(ProxyKey::new(node.clone())));
        engine.get(&*snapshot, &viewed.view.set(ty)).len()
    };
    let resources = pull(&mut Engine::new());
    bencher
        .counter(ItemsCount::new(resources))
        .with_inputs(Engine::new)
        .bench_refs(|engine| black_box(pull(engine)));
}
