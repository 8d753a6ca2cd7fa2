//! Clusters of a view.

pub mod names;

use incr::Cx;
use store::Snapshot;

use crate::resource::ResourceSet;
use crate::view::View;

/// Clusters that proxies of a view should have.
pub fn set(cx: &Cx<'_, Snapshot>, view: &View) -> ResourceSet {
    let _ = (cx, view);
    ResourceSet::default()
}
