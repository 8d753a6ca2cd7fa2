//! Memoised queries over a versioned input, with recorded reads.
//!
//! A caller owns some input (a *snapshot* of type `S`) and derives values from it with [`Query`]s: pure functions of
//! the snapshot and a key. The [`Engine`] remembers each derived value in a *memo*, records what the derivation read,
//! and after a change derives again only what that change can have altered. It knows nothing of what the values mean.
//!
//! # The graph
//!
//! A memo depends on *inputs* and on other memos, in the order in which its evaluation asked for them. An input is an
//! [`InputKey`]: the name of one row or of one bucket of rows. It carries no value. Whoever looks for a row records
//! its key whether or not the row is there, so absence is a dependency like presence. Two names that hash alike only
//! cause an evaluation too many.
//!
//! Each edge is stored at both ends, and each end knows its place at the other: an edge is taken out in constant time
//! even when an input has a hundred thousand readers. An evaluation that reads the same things as the last one (nearly
//! all of them) touches no edge at all.
//!
//! # Colours: push dirty, pull values
//!
//! | colour | meaning | what a pull does |
//! |---|---|---|
//! | clean | the value is that of the current revision | returns it |
//! | check | something below may have changed | refreshes its memos in order; evaluates at the first that did change |
//! | dirty | an input that it read has changed, or it has no value | evaluates |
//!
//! [`Engine::commit`] starts a revision: readers of the changed inputs become dirty, and what depends on them becomes
//! check. Its cost is that of the affected part; what is not affected costs nothing, then or later. Nothing is
//! evaluated until it is pulled, and the caller pulls its *roots*: those that [`Engine::changed_roots`] names. A memo
//! whose evaluation gives an equal value keeps its old `changed` revision, so the spread stops there.
//!
//! A memo remembers which of its dependencies were marked since it was last up to date, and validates those alone: a memo
//! with a hundred thousand dependencies costs no more than one with two. One that gathers the values of many others may
//! say how to take in the change of some ([`Query::update`]), so that it is not evaluated whole for each.
//!
//! # Invariants
//!
//! 1. A clean memo depends on clean memos only; so one that is not clean has no clean dependents, and a commit may stop
//!    marking at any memo that was already marked.
//! 2. `changed <= verified <= revision`. A memo in colour check needs an evaluation exactly when one of its memos has
//!    `changed` above its own `verified`. Dependencies are validated in the order they were asked for: those behind a
//!    changed one might not be asked for any more, and must not be evaluated, unless all before them that changed are
//!    members of a query that can be updated: those do not decide who else is asked for.
//! 3. The stored graph has no cycles, because edges are stored when an evaluation ends and its dependencies are
//!    clean by then. A query that needs itself panics, naming the queries on the way.
//! 4. A memo lives while it is a root or a memo that lives depends on it. What may have lost its last reader stands in
//!    a list, and [`Engine::collect`] frees from there: its cost is that of what is freed. Nothing is freed while an
//!    evaluation runs.
//! 5. A panic in an evaluation leaves each memo on its way dirty with its former value and edges, and reaches the
//!    caller of [`Engine::get`]. The next pull tries again. An evaluation that catches the panic of another gives a
//!    value that is used and stays dirty. Such a root stays in [`Engine::changed_roots`].
//!
//! # What it leaves to others
//!
//! It runs on one thread (it is `Send`, not `Sync`), holds no snapshot, has no clock and no locks. An evaluation must be
//! deterministic, must read the snapshot only behind [`Cx::read`] of the matching key, and must not depend on anything
//! else. The caller names every changed row *and* every bucket whose membership or members changed, and passes to each
//! pull the snapshot of the last commit.
//!
//! ```
//! use pilothouse_incr::{Cx, Engine, Guarded, InputKey, Query};
//!
//! /// The input: a price for each article.
//! struct Prices([u32; 3]);
//!
//! impl Guarded for Prices {
//!     type Token = ();
//! }
//!
//! #[derive(Clone, PartialEq, Eq, Hash, Debug)]
//! struct Total;
//!
//! impl Query<Prices> for Total {
//!     type Value = u32;
//!     fn eval(&self, cx: &Cx<'_, Prices>) -> u32 {
//!         (0..3).map(|i| cx.read(InputKey(i), ()).0[i as usize]).sum()
//!     }
//! }
//!
//! let mut engine = Engine::new();
//! let root = engine.root(&Total);
//! assert_eq!(*engine.get(&Prices([1, 2, 3]), &Total), 6);
//! engine.commit([InputKey(1)]);
//! assert_eq!(engine.changed_roots(), [root]);
//! assert_eq!(*engine.get(&Prices([1, 5, 3]), &Total), 9);
//! engine.release(root);
//! engine.collect();
//! assert_eq!(engine.stats().memos, 0);
//! ```

mod cx;
mod engine;
mod fault;
mod graph;
mod keyed;
mod memo;
mod provenance;
mod query;
mod slab;
mod stats;
#[cfg(test)]
mod tests;

pub use cx::Cx;
pub use engine::{Engine, Pulled, RootId};
pub use keyed::{KeyedMap, KeyedSet, keyed_hash};
pub use query::{Changed, Guarded, InputKey, Query};
pub use stats::{QueryStats, Stats};
