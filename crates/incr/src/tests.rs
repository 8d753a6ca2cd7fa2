//! Single behaviours of the engine; the properties are in `property`.

mod property;
mod world;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::{Cx, Engine, InputKey, Query, RootId};

/// Numbers by name, and how often each kind of query ran.
#[derive(Default)]
struct Numbers {
    rows: BTreeMap<u64, i64>,
    parities: Cell<u32>,
    counts: Cell<u32>,
}

impl Numbers {
    fn of<const N: usize>(rows: [(u64, i64); N]) -> Self {
        Numbers {
            rows: rows.into(),
            ..Self::default()
        }
    }
}

impl crate::Guarded for Numbers {
    type Token = ();
}

const POISON: i64 = i64::MIN;

/// Whether a row is there and even. Panics on poison.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct IsEven(u64);

impl Query<Numbers> for IsEven {
    type Value = Option<bool>;
    fn eval(&self, cx: &Cx<'_, Numbers>) -> Option<bool> {
        cx.snapshot().parities.set(cx.snapshot().parities.get() + 1);
        let row = *cx.read(InputKey(self.0), ()).rows.get(&self.0)?;
        if row == POISON {
            resume_unwind(Box::new("poison"));
        }
        Some(row % 2 == 0)
    }
}

/// How many of the rows up to a name are even.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct CountEven(u64);

impl Query<Numbers> for CountEven {
    type Value = usize;
    fn eval(&self, cx: &Cx<'_, Numbers>) -> usize {
        cx.snapshot().counts.set(cx.snapshot().counts.get() + 1);
        (0..self.0)
            .filter(|i| *cx.query(&IsEven(*i)) == Some(true))
            .count()
    }
}

/// Asks for the row named by row 0, or for itself if there is none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Follow(u64);

impl Query<Numbers> for Follow {
    type Value = u64;
    fn eval(&self, cx: &Cx<'_, Numbers>) -> u64 {
        match cx.read(InputKey(self.0), ()).rows.get(&self.0) {
            Some(next) => *cx.query(&Follow(*next as u64)),
            None => self.0,
        }
    }
}

/// `IsEven`, with None instead of its panic.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Guarded(u64);

impl Query<Numbers> for Guarded {
    type Value = Option<bool>;
    fn eval(&self, cx: &Cx<'_, Numbers>) -> Option<bool> {
        catch_unwind(AssertUnwindSafe(|| *cx.query(&IsEven(self.0))))
            .ok()
            .flatten()
    }
}

fn message(run: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("it should have panicked");
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).into()))
        .unwrap()
}

#[test]
fn absence_is_a_dependency() {
    let mut engine = Engine::new();
    let mut world = Numbers::default();
    assert_eq!(*engine.get(&world, &IsEven(1)), None);
    world.rows.insert(1, 4);
    engine.commit([InputKey(1)]);
    assert_eq!(*engine.get(&world, &IsEven(1)), Some(true));
}

#[test]
fn an_equal_result_stops_the_spread() {
    let mut engine = Engine::new();
    let mut world = Numbers::of([(0, 2), (1, 3)]);
    let first = engine.get(&world, &CountEven(2));
    world.rows.insert(0, 8);
    engine.commit([InputKey(0)]);
    let second = engine.get_with_changed(&world, &CountEven(2));
    assert_eq!((world.parities.get(), world.counts.get()), (3, 1));
    assert!(!second.changed && Arc::ptr_eq(&first, &second.value));
}

#[test]
fn an_unrelated_change_costs_no_run_and_names_no_root() {
    let mut engine = Engine::new();
    let world = Numbers::of([(0, 2), (1, 3)]);
    engine.root(&CountEven(2));
    engine.get(&world, &CountEven(2));
    engine.changed_roots();
    let before = engine.stats();
    engine.commit([InputKey(7)]);
    assert_eq!(engine.changed_roots(), []);
    engine.get(&world, &CountEven(2));
    let after = engine.stats();
    assert_eq!(
        (after.runs, after.validated),
        (before.runs, before.validated)
    );
}

#[test]
fn a_changed_value_carries_its_revision() {
    let mut engine = Engine::new();
    let mut world = Numbers::of([(0, 2)]);
    engine.get(&world, &CountEven(1));
    world.rows.insert(0, 3);
    engine.commit([InputKey(0)]);
    engine.commit([]);
    let pulled = engine.get_with_changed(&world, &CountEven(1));
    assert_eq!(
        (*pulled.value, pulled.changed_at, pulled.changed),
        (0, 2, true)
    );
    engine.commit([]);
    let pulled = engine.get_with_changed(&world, &CountEven(1));
    assert_eq!(
        (*pulled.value, pulled.changed_at, pulled.changed),
        (0, 2, false)
    );
}

#[test]
fn a_root_cleaned_by_someone_else_is_still_named_once() {
    let mut engine = Engine::new();
    let world = Numbers::default();
    let root = engine.root(&IsEven(0));
    assert_eq!(engine.changed_roots(), [root]);
    engine.get(&world, &IsEven(0));
    engine.commit([InputKey(0)]);
    engine.get(&world, &IsEven(0));
    assert_eq!(engine.changed_roots(), [root]);
    assert_eq!(engine.changed_roots(), []);
}

#[test]
fn a_root_that_is_not_pulled_is_named_again() {
    let mut engine = Engine::<Numbers>::new();
    let root = engine.root(&IsEven(0));
    assert_eq!(engine.changed_roots(), [root]);
    assert_eq!(engine.changed_roots(), [root]);
    engine.release(root);
    assert_eq!(engine.changed_roots(), []);
}

#[test]
fn a_panic_reaches_the_caller_and_the_next_pull_tries_again() {
    let mut engine = Engine::new();
    let mut world = Numbers::of([(0, 2), (1, 3), (2, 4)]);
    let root = engine.root(&CountEven(3));
    engine.get(&world, &CountEven(3));
    engine.changed_roots();

    world.rows.insert(1, POISON);
    engine.commit([InputKey(1)]);
    for _ in 0..2 {
        assert_eq!(engine.changed_roots(), [root]);
        assert_eq!(message(|| _ = engine.get(&world, &CountEven(3))), "poison");
    }
    assert_eq!(
        *engine.get(&world, &IsEven(2)),
        Some(true),
        "others are not affected"
    );

    world.rows.insert(1, 6);
    engine.commit([InputKey(1)]);
    assert_eq!(engine.changed_roots(), [root]);
    assert_eq!(*engine.get(&world, &CountEven(3)), 3);
    assert_eq!(engine.changed_roots(), []);
}

#[test]
fn a_root_that_panicked_and_was_healed_by_someone_else_is_named() {
    let mut engine = Engine::new();
    let mut world = Numbers::of([(0, POISON)]);
    let root = engine.root(&CountEven(1));
    engine.changed_roots();
    message(|| _ = engine.get(&world, &CountEven(1)));
    world.rows.insert(0, 2);
    engine.commit([InputKey(0)]);
    engine.get(&world, &CountEven(1));
    assert_eq!(engine.changed_roots(), [root]);
    assert_eq!(engine.changed_roots(), []);
}

#[test]
fn a_first_evaluation_that_panics_leaves_nothing_behind() {
    let mut engine = Engine::new();
    let world = Numbers::of([(0, 2), (1, POISON)]);
    message(|| _ = engine.get(&world, &CountEven(2)));
    engine.collect();
    let stats = engine.stats();
    assert_eq!((stats.memos, stats.inputs, stats.edges), (0, 0, 0));
}

#[test]
fn a_result_made_around_a_caught_panic_does_not_pass_for_current() {
    let mut engine = Engine::new();
    let mut world = Numbers::of([(0, 2)]);
    let root = engine.root(&Guarded(0));
    assert_eq!(*engine.get(&world, &Guarded(0)), Some(true));
    world.rows.insert(0, POISON);
    engine.commit([InputKey(0)]);
    for _ in 0..2 {
        assert_eq!(engine.changed_roots(), [root]);
        assert_eq!(*engine.get(&world, &Guarded(0)), None);
    }
    world.rows.insert(0, 3);
    engine.commit([InputKey(0)]);
    assert_eq!(engine.changed_roots(), [root]);
    assert_eq!(*engine.get(&world, &Guarded(0)), Some(false));
    assert_eq!(engine.changed_roots(), []);
}

#[test]
fn a_cycle_panics_naming_the_queries_on_it() {
    let mut engine = Engine::new();
    let mut world = Numbers::of([(9, 1), (1, 2), (2, 1)]);
    for _ in 0..2 {
        let text = message(|| _ = engine.get(&world, &Follow(9)));
        assert_eq!(text, "query cycle: Follow(1) -> Follow(2) -> Follow(1)");
    }
    world.rows.remove(&2);
    engine.commit([InputKey(2)]);
    assert_eq!(*engine.get(&world, &Follow(9)), 2);
}

#[test]
fn queries_may_swap_their_order() {
    let mut engine = Engine::new();
    let mut world = Numbers::of([(1, 2)]);
    assert_eq!(*engine.get(&world, &Follow(1)), 2);
    world.rows = BTreeMap::from([(2, 1)]);
    engine.commit([InputKey(1), InputKey(2)]);
    assert_eq!(*engine.get(&world, &Follow(2)), 1);
    assert_eq!(*engine.get(&world, &Follow(1)), 1);
}

#[test]
fn what_no_root_reaches_is_freed_at_the_next_collection() {
    let mut engine = Engine::new();
    let world = Numbers::default();
    let (big, small) = (engine.root(&CountEven(5)), engine.root(&CountEven(3)));
    let again = engine.root(&CountEven(5));
    assert_eq!(big, again);
    engine.get(&world, &CountEven(5));
    engine.get(&world, &CountEven(3));
    engine.get(&world, &CountEven(9));
    engine.collect();
    let size = |engine: &Engine<Numbers>| {
        let s = engine.stats();
        (s.memos, s.inputs, s.edges, s.roots)
    };
    assert_eq!(size(&engine), (7, 5, 13, 2));
    engine.release(big);
    engine.collect();
    assert_eq!(size(&engine), (7, 5, 13, 2));
    engine.release(big);
    engine.collect();
    assert_eq!(size(&engine), (4, 3, 6, 1));
    engine.release(small);
    engine.collect();
    assert_eq!(size(&engine), (0, 0, 0, 0));
    assert!(!engine.release(small), "it is gone");
    let other = engine.root(&CountEven(2));
    assert_ne!(other, small, "the slot has a new tenant");
}

#[test]
fn provenance_names_each_input_once() {
    let mut engine = Engine::new();
    let world = Numbers::default();
    let root: RootId = engine.root(&CountEven(3));
    engine.get(&world, &CountEven(3));
    engine.get(&world, &CountEven(2));
    assert_eq!(
        engine.reads_of(&CountEven(3)),
        [InputKey(0), InputKey(1), InputKey(2)]
    );
    assert_eq!(engine.reads_of(&CountEven(8)), []);
    assert_eq!(engine.dirty_roots_for([InputKey(0), InputKey(1)]), [root]);
    assert_eq!(engine.dirty_roots_for([InputKey(5)]), []);
    assert_eq!(engine.changed_roots(), [root], "asking changed nothing");
}

#[test]
fn a_dependency_asked_for_again_around_others_is_recorded_once() {
    /// Asks for one thing between many others, which ask for it too.
    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    struct Interleaved;
    impl Query<Numbers> for Interleaved {
        type Value = ();
        fn eval(&self, cx: &Cx<'_, Numbers>) {
            for i in 1..50 {
                cx.query(&IsEven(0));
                cx.read(InputKey(0), ());
                cx.query(&CountEven(i));
            }
        }
    }
    let mut engine = Engine::new();
    let world = Numbers::default();
    engine.get(&world, &Interleaved);
    let edges = engine.stats().edges;
    assert_eq!(edges, 51 + 49 + (1..50).sum::<usize>());
    engine.commit([InputKey(0)]);
    engine.get(&world, &Interleaved);
    assert_eq!(engine.stats().edges, edges);
}

#[test]
fn stats_count_by_type_of_query() {
    let engine = Engine::new();
    engine.get(&Numbers::default(), &CountEven(4));
    let stats = engine.stats();
    assert!(stats.bookkeeping_bytes > 0);
    let by_type: Vec<_> = stats
        .queries
        .iter()
        .map(|q| (q.memos, q.runs, q.name.ends_with("CountEven")))
        .collect();
    assert_eq!(by_type, [(1, 1, true), (4, 4, false)]);
}

#[test]
fn the_engine_can_move_to_another_thread() {
    fn sendable<T: Send>() {}
    sendable::<Engine<Numbers>>();
}
