//! Whatever changed, in whatever order: fixed seeds, one that is another each time, and every case that once failed.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use model::{Diagnostic, Kind};
use serde_json::Value;

use crate::incremental::script::{Step, of_seed, smallest};
use crate::incremental::*;

/// How many seeds are drawn each time, and how many steps of each.
const SEEDS: u64 = 12;
const STEPS: usize = 30;
/// Every other one of so many seeds is of the Gateway API, and cheap where nothing is generated.
const GATEWAY_SEEDS: u64 = 100;
const GATEWAY_STEPS: usize = 80;

/// Names the seed that is otherwise taken from the clock.
const VARIABLE: &str = "INCREMENTAL_SEED";

/// What is derived from objects before generation, and what is told of it.
#[derive(PartialEq, Debug)]
struct Converted {
    objects: BTreeMap<ObjectKey, (Value, String)>,
    statuses: BTreeMap<ObjectKey, Value>,
    findings: Vec<Diagnostic>,
}

impl Converted {
    fn of(world: &World) -> Self {
        let snapshot = world.store.snapshot();
        let all = Kind::ALL
            .iter()
            .flat_map(|kind| snapshot.tables.iter_any(*kind));
        let objects = all.filter_map(|object| {
            let derived = object.meta().derived.as_ref()?;
            Some((object.key(), (object.spec_json(), format!("{derived:?}"))))
        });
        Self {
            objects: objects.collect(),
            statuses: world.statuses.clone(),
            findings: world.stage.current_findings(),
        }
    }

    /// The first difference.
    fn differing(&self, other: &Self) -> Option<String> {
        fn first<V: PartialEq + std::fmt::Debug>(
            one: &BTreeMap<ObjectKey, V>,
            other: &BTreeMap<ObjectKey, V>,
        ) -> Option<String> {
            let keys = one.keys().chain(other.keys());
            let mut differing = keys.filter(|key| one.get(key) != other.get(key));
            let key = differing.next()?;
            Some(format!(
                "{key}: {:?} against {:?}",
                one.get(key),
                other.get(key)
            ))
        }
        let objects = || first(&self.objects, &other.objects);
        let found = first(&self.statuses, &other.statuses).or_else(objects);
        found.or_else(|| {
            let (one, other) = (&self.findings, &other.findings);
            (one != other).then(|| format!("findings {one:?} against {other:?}"))
        })
    }
}

/// All that was told so far.
#[derive(Default)]
struct Told(Vec<Change>);

impl Told {
    /// The first difference of what a world derives from objects, to which this step came last, from what a world derives
    /// that is told everything at once.
    fn differing(&mut self, step: &Step, world: &World) -> Option<String> {
        if world.stage.panics() > 0 {
            return Some("a panic of the stage".to_owned());
        }
        self.0.extend(step.changes());
        let mut again = World::default();
        again.apply(self.0.iter().cloned());
        Converted::of(world).differing(&Converted::of(&again))
    }
}

/// The first difference of what is derived from objects, before generation.
fn difference_of_objects(script: &[Step]) -> Option<String> {
    let mut world = World::default();
    let mut told = Told::default();
    for (at, step) in script.iter().enumerate() {
        world.apply(step.changes());
        if let Some(found) = told.differing(step, &world) {
            return Some(format!("step {at}: {found}"));
        }
    }
    None
}

/// The first difference between what is derived piece by piece and what is derived from nothing.
fn difference(script: &[Step]) -> Option<String> {
    let proxies = proxies();
    let mut served = Served::default();
    let mut told = Told::default();
    for (at, step) in script.iter().enumerate() {
        served.step(step, &proxies);
        if let Some(found) = told.differing(step, &served.world) {
            return Some(format!("step {at}: {found}"));
        }
        let got = served.pull(&proxies);
        let snapshot = served.world.store.snapshot();
        let fresh = Engine::new();
        for ((proxy, ty), set) in &got {
            let wanted = derived(&fresh, &snapshot, &proxies[*proxy], *ty);
            if let Some(found) = differing(set, &wanted) {
                return Some(format!("step {at}, {ty} of proxy {proxy}: {found}"));
            }
        }
        for connected in served.connected.values() {
            let query = connected.view.findings();
            if served.world.get(&query) != fresh.get(&*snapshot, &query) {
                return Some(format!("step {at}: findings of a view"));
            }
        }
        if served.world.get(&FindingsOfMesh) != fresh.get(&*snapshot, &FindingsOfMesh) {
            return Some(format!("step {at}: findings of the mesh"));
        }
    }
    let all: Vec<usize> = served.connected.keys().copied().collect();
    for proxy in all {
        served.toggle(proxy, &proxies[proxy]);
    }
    // Those of the mesh are nobody's root here.
    served.world.engine.collect();
    let left = served.world.engine.stats().memos;
    (left > 0).then(|| format!("{left} memos that nothing needs are kept"))
}

/// The first difference of a script, if there is one.
type Difference = fn(&[Step]) -> Option<String>;

fn failure(script: &[Step], difference: Difference) -> Option<String> {
    let run = catch_unwind(AssertUnwindSafe(|| difference(script)));
    run.unwrap_or_else(|_| Some("a panic".to_owned()))
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incremental/cases")
}

/// Runs a seed. What fails is made small and kept as a case.
fn run(seed: u64, steps: usize, difference: Difference) {
    let script = of_seed(seed, steps);
    if failure(&script, difference).is_none() {
        return;
    }
    let script = smallest(script, |script| failure(script, difference).is_some());
    let how = failure(&script, difference).unwrap_or_default();
    let lines: Vec<String> = script.iter().map(Step::to_string).collect();
    let path = cases().join(format!("seed-{seed}.txt"));
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    panic!(
        "seed {seed} ({VARIABLE}={seed}), kept as {}: {how}",
        path.display()
    );
}

#[test]
fn what_is_derived_piece_by_piece_equals_what_is_derived_from_nothing() {
    (0..SEEDS).for_each(|seed| run(seed, STEPS, difference));
}

#[test]
fn so_it_is_for_what_is_derived_from_objects_of_the_gateway_api() {
    let seeds = (1..GATEWAY_SEEDS).step_by(2);
    seeds.for_each(|seed| run(seed, GATEWAY_STEPS, difference_of_objects));
}

#[test]
fn so_it_is_for_a_seed_that_is_another_each_time() {
    let stated = std::env::var(VARIABLE).ok();
    let seed = match stated {
        Some(seed) => seed.parse().unwrap(),
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        }
    };
    eprintln!("{VARIABLE}={seed}");
    run(seed, STEPS, difference);
}

#[test]
fn cases_that_once_failed_do_not_any_more() {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let script: Vec<Step> = lines.map(|line| line.parse().unwrap()).collect();
        assert_eq!(failure(&script, difference), None, "{}", path.display());
    }
}

#[test]
fn drawn_objects_of_the_gateway_api_meet() {
    let proxies = proxies();
    let (mut made, mut accepted) = (BTreeSet::new(), BTreeSet::new());
    let mut listeners = 0;
    for seed in (1..GATEWAY_SEEDS).step_by(2) {
        let mut served = Served::default();
        for step in of_seed(seed, STEPS) {
            served.step(&step, &proxies);
            let converted = Converted::of(&served.world);
            made.extend(converted.objects.keys().map(|key| key.kind));
            let statuses = converted.statuses.iter();
            let good = statuses.filter(|(_, status)| {
                let text = status.to_string();
                text.contains(r#""status":"True","type":"Accepted""#)
            });
            accepted.extend(good.map(|(key, _)| key.kind));
            let view = served.world.view(&proxies[7]);
            let set = served.world.set(&view, TypeUrl::Listener);
            listeners = listeners.max(set.iter().count());
        }
    }
    let derived = [Kind::Gateway, Kind::VirtualService, Kind::DestinationRule];
    assert!(derived.iter().all(|kind| made.contains(kind)), "{made:?}");
    let wanted = [
        Kind::GatewayClass,
        Kind::KubeGateway,
        Kind::ListenerSet,
        Kind::HttpRoute,
        Kind::GrpcRoute,
        Kind::TlsRoute,
        Kind::TcpRoute,
        Kind::BackendTlsPolicy,
        Kind::XBackendTrafficPolicy,
        Kind::XBackend,
        Kind::InferencePool,
    ];
    let missing = wanted.iter().filter(|kind| !accepted.contains(*kind));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&Kind>::new());
    assert!(listeners >= 2, "{listeners}");
}

#[test]
fn options_of_an_edge_change_what_gateways_get_and_sidecars_do_not() {
    let text = std::fs::read_to_string(cases().join("options.txt")).unwrap();
    let proxies = proxies();
    let mut served = Served::default();
    let (mut of_gateway, mut steps) = (BTreeSet::new(), 0);
    let mut of_sidecar = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let step: Step = line.parse().unwrap();
        served.step(&step, &proxies);
        let got = served.pull(&proxies);
        if !matches!(step, Step::Options(_) | Step::Documents(_)) {
            of_sidecar = None;
            continue;
        }
        steps += 1;
        let sent = |proxy: usize| TypeUrl::ALL.map(|ty| got[&(proxy, ty)].fingerprint());
        of_gateway.insert(sent(3));
        let before = of_sidecar.replace(sent(0));
        assert!(before.is_none_or(|before| before == sent(0)), "{line}");
    }
    assert!(
        of_gateway.len() * 2 > steps,
        "{} of {steps}",
        of_gateway.len()
    );
}
