//! Which objects made a resource of a proxy, and which resources an object takes part in.
//!
//! Recorded reads name every object that a resource can depend on, but most of them had no say in it: who lists all
//! services reads each of them. So each candidate is taken out of a copy of the snapshot, what depends on it is derived
//! again, and it is named if the resource is then another one or gone. What is named matters; what is not named does
//! not. Of two objects that say the same neither is named, because either is enough.
//!
//! Nothing here changes what is served: a snapshot costs nothing to keep, and the engine is one of its own.

mod explainer;
mod explanation;
mod fork;
mod likely;
mod names;
mod objects;
mod part;

pub use explainer::{Budget, Explainer, Target};
pub use explanation::{Effect, Explanation, NamedObject, Participation, Settings, Touched};
pub use names::{Unknown, type_name, type_of};
