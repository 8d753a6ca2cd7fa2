//! Registries outside of Kubernetes: named by McpBridges and flags; added, changed and removed while the server runs.
//!
//! Each registry is a source of its own under the supervisor. A change touches only the registries whose entries are others
//! than before. What cannot be used is a finding about its field, and a registry that was read before is read as before.
// Higress: registry/reconcile/reconcile.go, 2.1. Unlike there, Secrets of credentials are watched.

mod bridges;
mod manager;
mod options;
mod plan;
mod status;
mod url;

pub use bridges::{Bridges, Seen};
pub use manager::{Edge, Known, Manager, OnFindings, Registries, settled};
pub use options::RegistryOptions;
pub use status::page;

/// Codes of findings about registries.
pub mod code {
    /// A registry that is not used.
    pub const REGISTRY_UNUSED: &str = "PIL0050";
    /// A registry that cannot be read as its entry says.
    pub const REGISTRY_REFUSED: &str = "PIL0051";
}
