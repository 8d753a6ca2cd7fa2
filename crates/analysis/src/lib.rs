//! What is wrong between objects: references that lead nowhere, rules that never match, objects that contradict each
//! other.
//!
//! Everything here is made of queries over a snapshot with recorded reads, so an analysis costs what changed since the
//! last one. The same analyzers run over a folder and in the server. Nothing here reads a clock: a [`Finding`] that
//! holds only from or until some time says so, and who shows it looks at the clock ([`Finding::holds_at`]).
//!
//! An analyzer is a function over one object, one namespace or the whole mesh, named in [`registry`].

mod analyzers;
pub mod code;
mod facts;
mod finding;
pub mod implied;
mod query;
pub mod registry;
pub mod suppress;

pub use analyzers::clusters;
pub use code::Code;
pub use finding::Finding;
pub use query::Analysis;
