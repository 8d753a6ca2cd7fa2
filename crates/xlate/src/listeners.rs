//! Listeners of a view.

pub mod access_log;
pub mod address;
pub mod class;
pub mod filters;
pub mod hcm;
pub mod metrics;
pub mod parts;
pub mod provider_cluster;
pub mod proxy_headers;
pub mod proxy_options;
pub mod tcp;
pub mod tracing;

use incr::Cx;
use store::Snapshot;

use crate::resource::ResourceSet;
use crate::view::View;

/// Listeners that proxies of a view should have.
pub fn set(cx: &Cx<'_, Snapshot>, view: &View) -> ResourceSet {
    let _ = (cx, view);
    ResourceSet::default()
}
