//! The most important test of the project: after any sequence of changes, registrations and releases, what the engine
//! has is what a derivation from scratch gives, it keeps nothing that no root reaches, and its provenance is complete.
//!
//! The roots are pulled as the server does it: only those that `changed_roots` names, keeping a value when the engine
//! says that it has not changed. The same check must fail for each [`Fault`].

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::world::{Change, Clusters, NAMESPACES, POISON, SERVICES, VIEWS, World};
use crate::fault::Fault;
use crate::{Engine, InputKey, RootId};

#[derive(Clone, Debug)]
enum Step {
    /// One batch, then a commit.
    Change(Vec<Change>),
    Register(u8),
    Release(u8),
    /// Somebody looks at a value, root or not.
    Look(u8),
    /// Pull what changed, and compare everything. Without it, revisions pile up.
    Pull,
}

fn change() -> impl Strategy<Value = Change> {
    let service = || (0..NAMESPACES, 0..SERVICES);
    let rule = prop_oneof![12 => 0..POISON, 1 => Just(POISON)];
    prop_oneof![
        4 => (service(), proptest::option::of(0..3u8)).prop_map(|(s, port)| Change::Service(s, port)),
        4 => (service(), proptest::option::weighted(0.8, rule)).prop_map(|(s, rule)| Change::Rule(s, rule)),
        2 => (0..VIEWS, proptest::option::of(proptest::option::of(0..NAMESPACES)))
            .prop_map(|(view, scope)| Change::Scope(view, scope)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => proptest::collection::vec(change(), 1..5).prop_map(Step::Change),
        2 => (0..VIEWS).prop_map(Step::Register),
        1 => (0..VIEWS).prop_map(Step::Release),
        1 => (0..VIEWS).prop_map(Step::Look),
        5 => Just(Step::Pull),
    ]
}

fn steps() -> impl Strategy<Value = (Vec<Step>, Vec<Change>)> {
    (
        proptest::collection::vec(step(), 1..40),
        proptest::collection::vec(change(), 8),
    )
}

/// What the server would hold of a root.
struct Held {
    times: u32,
    root: RootId,
    /// What it published last; None if the evaluation panicked, or before the first pull.
    published: Option<(Vec<String>, u64)>,
}

struct Run {
    engine: Engine<World>,
    world: World,
    held: BTreeMap<u8, Held>,
}

/// Fails the case with what is not as it should be.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(TestCaseError::fail(format!($($what)+)));
        }
    };
}

impl Run {
    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Change(changes) => {
                let keys: Vec<InputKey> =
                    changes.iter().flat_map(|c| self.world.apply(c)).collect();
                self.engine.commit(keys);
            }
            Step::Register(view) => {
                let root = self.engine.root(&Clusters(*view));
                let held = self.held.entry(*view).or_insert(Held {
                    times: 0,
                    root,
                    published: None,
                });
                held.times += 1;
                ensure!(held.root == root, "view {view} got a second root");
            }
            Step::Release(view) => {
                if let Some(held) = self.held.get_mut(view) {
                    ensure!(
                        self.engine.release(held.root),
                        "the root of view {view} is unknown"
                    );
                    held.times -= 1;
                    if held.times == 0 {
                        self.held.remove(view);
                    }
                }
            }
            Step::Look(view) => {
                let expected = self.world.expected(*view);
                let seen = self.pull(*view).map(|(value, _)| value);
                ensure!(
                    seen == expected,
                    "view {view}: looked {seen:?}, from scratch {expected:?}"
                );
            }
            Step::Pull => self.pull_changed_roots()?,
        }
        Ok(())
    }

    fn pull(&self, view: u8) -> Option<(Vec<String>, u64)> {
        let pulled = catch_unwind(AssertUnwindSafe(|| {
            self.engine.get_with_changed(&self.world, &Clusters(view))
        }));
        let pulled = pulled.ok()?;
        let clusters = pulled.value.values().filter_map(Clone::clone).collect();
        Some((clusters, pulled.changed_at))
    }

    fn pull_changed_roots(&mut self) -> Result<(), TestCaseError> {
        for root in self.engine.changed_roots() {
            let view = self
                .held
                .iter()
                .find(|(_, held)| held.root == root)
                .map(|(view, _)| *view);
            let Some(view) = view else {
                return Err(TestCaseError::fail(
                    "a root was named that is not registered",
                ));
            };
            let new = self.pull(view);
            let published = &mut self.held.get_mut(&view).unwrap().published;
            *published = match (published.take(), new) {
                // Not changed, says the engine: what was published stays.
                (Some(old), Some(new)) if new.1 <= old.1 => Some(old),
                (_, new) => new,
            };
        }
        let mut all_well = true;
        for (view, held) in &self.held {
            let expected = self.world.expected(*view);
            all_well &= expected.is_some();
            let published = held.published.as_ref().map(|(clusters, _)| clusters);
            ensure!(
                published == expected.as_ref(),
                "view {view}: published {published:?}, from scratch {expected:?}"
            );
        }
        if all_well {
            self.engine.collect();
            let (kept, needed) = (
                self.engine.stats().memos,
                self.world.reachable(self.held.keys().copied()),
            );
            ensure!(kept == needed, "{kept} memos are kept, {needed} are needed");
        }
        Ok(())
    }

    /// Whether each change would reach exactly where provenance says that it may.
    fn check_provenance(&self, changes: &[Change]) -> Result<(), TestCaseError> {
        for change in changes {
            let mut world = self.world.clone();
            let keys = world.apply(change);
            let dirty = self.engine.dirty_roots_for(keys.iter().copied());
            for (view, held) in &self.held {
                let now = self.world.expected(*view);
                if now.is_none() || now == world.expected(*view) {
                    continue;
                }
                let reads = self.engine.reads_of(&Clusters(*view));
                ensure!(
                    keys.iter().any(|k| reads.binary_search(k).is_ok()),
                    "{change:?} alters view {view}, which has not read {keys:?}"
                );
                ensure!(
                    dirty.contains(&held.root),
                    "{change:?} alters view {view}, which was not named"
                );
            }
        }
        Ok(())
    }
}

fn check(fault: Option<Fault>, steps: &[Step], probes: &[Change]) -> Result<(), TestCaseError> {
    let engine = Engine::new();
    engine.graph.borrow_mut().fault = fault;
    let mut run = Run {
        engine,
        world: World::default(),
        held: BTreeMap::new(),
    };
    for step in steps {
        run.take(step)?;
    }
    run.take(&Step::Pull)?;
    run.check_provenance(probes)?;
    run.held
        .values()
        .for_each(|held| (0..held.times).for_each(|_| _ = run.engine.release(held.root)));
    run.engine.collect();
    let stats = run.engine.stats();
    let left = (stats.memos, stats.inputs, stats.edges, stats.roots);
    ensure!(left == (0, 0, 0, 0), "without roots, {left:?} is left");
    Ok(())
}

/// Four times as many cases as usual: 1,024, or as `PROPTEST_CASES` says.
fn config() -> Config {
    let usual = Config::default();
    Config {
        cases: usual.cases * 4,
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn incremental_is_as_from_scratch_and_nothing_unreachable_is_kept((steps, probes) in steps()) {
        check(None, &steps, &probes)?;
    }
}

/// Runs the property against an engine with a fault and returns what it reports.
fn caught(fault: Fault) -> String {
    let config = Config {
        max_shrink_iters: 0,
        ..config()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, rng).run(&steps(), |(steps, probes)| {
        check(Some(fault), &steps, &probes)
    });
    match outcome {
        Err(TestError::Fail(reason, _)) => reason.to_string(),
        Err(other) => panic!("{fault:?}: {other}"),
        Ok(()) => panic!("{fault:?} is not caught"),
    }
}

#[test]
fn a_read_that_is_not_recorded_is_caught() {
    let report = caught(Fault::ForgetLastRead);
    assert!(
        report.contains("from scratch") || report.contains("has not read"),
        "{report}"
    );
}

#[test]
fn a_change_that_does_not_count_as_one_is_caught() {
    let report = caught(Fault::KeepChangedRevision);
    assert!(report.contains("from scratch"), "{report}");
}

#[test]
fn a_mark_that_does_not_spread_is_caught() {
    let report = caught(Fault::DontPropagateCheck);
    assert!(report.contains("from scratch"), "{report}");
}

#[test]
fn a_check_that_looks_at_nothing_is_caught() {
    let report = caught(Fault::TrustCheck);
    assert!(report.contains("from scratch"), "{report}");
}

#[test]
fn a_memo_that_is_not_told_what_was_marked_is_caught() {
    let report = caught(Fault::ForgetStale);
    assert!(report.contains("from scratch"), "{report}");
}

#[test]
fn an_update_that_misses_a_change_is_caught() {
    let report = caught(Fault::UpdateAllButLast);
    assert!(report.contains("from scratch"), "{report}");
}

#[test]
fn dependencies_that_are_not_renewed_are_caught() {
    caught(Fault::KeepOldDeps);
}

#[test]
fn a_released_root_that_stays_is_caught() {
    let report = caught(Fault::LeakOnRelease);
    assert!(
        report.contains("are kept") || report.contains("is left"),
        "{report}"
    );
}

#[test]
fn a_dependency_that_stays_after_its_last_reader_is_caught() {
    let report = caught(Fault::LeakOnUnlink);
    assert!(
        report.contains("are kept") || report.contains("is left"),
        "{report}"
    );
}

#[test]
fn a_panic_that_leaves_a_memo_clean_is_caught() {
    let report = caught(Fault::CleanAfterPanic);
    assert!(report.contains("from scratch"), "{report}");
}
