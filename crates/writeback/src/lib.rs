//! What the control plane writes into a Kubernetes API: as a leader, bounded, and never twice.

pub mod place;

pub use place::{ClusterPlace, EmbeddedPlace, Limits, ObjectRef, Part, Place, WriteError};
