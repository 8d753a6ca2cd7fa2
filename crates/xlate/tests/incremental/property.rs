//! Whatever changed, in whatever order: fixed seeds, one that is another each time, and every case that once failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::script::{Step, of_seed, smallest};
use crate::*;

/// How many seeds are drawn each time, and how many steps of each.
const SEEDS: u64 = 12;
const STEPS: usize = 30;

/// Names the seed that is otherwise taken from the clock.
const VARIABLE: &str = "INCREMENTAL_SEED";

/// The first difference between what is derived piece by piece and what is derived from nothing.
fn difference(script: &[Step]) -> Option<String> {
    let proxies = proxies();
    let mut served = Served::default();
    for (at, step) in script.iter().enumerate() {
        served.step(step, &proxies);
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

fn failure(script: &[Step]) -> Option<String> {
    let run = catch_unwind(AssertUnwindSafe(|| difference(script)));
    run.unwrap_or_else(|_| Some("a panic".to_owned()))
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incremental/cases")
}

/// Runs a seed. What fails is made small and kept as a case.
fn run(seed: u64) {
    let script = of_seed(seed, STEPS);
    if failure(&script).is_none() {
        return;
    }
    let script = smallest(script, |script| failure(script).is_some());
    let how = failure(&script).unwrap_or_default();
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
    (0..SEEDS).for_each(run);
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
    run(seed);
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
        assert_eq!(failure(&script), None, "{}", path.display());
    }
}
