//! What generation finds that cannot be honoured as written, for the proxies it concerns.
//!
//! Findings are data: queries give them beside what they derive, and the queries here gather them, so that the recorded
//! reads say when to look again. They name objects and fields; where an object was read from is for whoever shows them.
//! What is wrong with an object by itself, whoever uses it, is told when it is read, not here.

mod contested;
mod entries;
mod mesh;
mod view;

use std::sync::Arc;

use model::diagnostic::Diagnostic;

pub use contested::{Contested, ContestedAt};
pub use mesh::FindingsOfMesh;
pub use view::FindingsOfView;

/// Findings in order, each once.
pub type Findings = Arc<[Diagnostic]>;

fn in_order(mut found: Vec<Diagnostic>) -> Findings {
    found.sort();
    found.dedup();
    found.into()
}
