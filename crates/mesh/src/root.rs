//! The root namespace, whose objects are for the whole mesh: the operator's.

use incr::Cx;
use model::names::Namespace;
use store::{Reads, Snapshot};

/// Whether a namespace is the root namespace.
pub fn is_root(cx: &Cx<'_, Snapshot>, namespace: &Namespace) -> bool {
    **namespace == *cx.settings().mesh.root_namespace
}
