//! What the control plane writes into a Kubernetes API: as a leader, bounded, and never twice.
//!
//! A [`Place`] is where objects are written. [`lease`] elects who writes, and [`lead`] keeps everybody else from it.

pub mod addresses;
pub mod lead;
pub mod lease;
pub mod objects;
mod pace;
pub mod place;
pub mod sets;
pub mod status;
pub mod testing;

pub use place::{ClusterPlace, Limits, ObjectRef, Page, Part, Place, WriteError};
