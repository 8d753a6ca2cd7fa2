//! Roots that peers are judged by.

use std::sync::Arc;

/// The roots of the mesh's own authority.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeshRoots {
    /// Root certificates, in PEM.
    pub roots: Arc<str>,
    /// Certificates that are revoked, in PEM.
    pub revoked: Option<Arc<str>>,
}
