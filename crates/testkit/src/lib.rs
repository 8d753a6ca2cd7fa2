//! Test support: a world built from YAML, recorded scenarios and tables, messages as JSON.
//!
//! For tests only. What is recorded from the real istiod stands in a folder beside the repository, and is never copied
//! into it: tests over it pass, and say so, where it is absent.

mod arguments;
mod compare;
mod golden;
pub mod hostile;
mod istio_tests;
mod marked;
mod message;
mod recorded;
mod scenario;
mod world;

pub use arguments::{message, service};
pub use compare::differences;
pub use golden::{golden, golden_cases};
pub use istio_tests::{IstioTest, Output};
pub use marked::{derived_as_marked, edge};
pub use message::{decode, decode_recorded};
pub use recorded::{Score, Table, cases, recording, recordings};
pub use scenario::{Expected, Scenario};
pub use world::{World, as_istiod, node, settings};
