//! Extension configurations of a view (ECDS): what filters of listeners ask for by name.
//!
//! Istio: pilot/pkg/xds/ecds.go, 1.32.

use std::sync::Arc;

use incr::Cx;
use store::Snapshot;

use mesh::view::View;
use policy::envoy_filter::{self, ExtensionPatchesOf, SelectedBy};
use policy::traffic_extension::{ExtensionConfigOf, ExtensionsOf};
use xds::{Resource, ResourceSet};

/// The configurations that proxies of a view may ask for: those that EnvoyFilters add, and those of Wasm filters.
pub fn set(cx: &Cx<'_, Snapshot>, view: &View) -> ResourceSet {
    let patches = cx.query(&ExtensionPatchesOf(SelectedBy::of(cx, view)));
    let added = envoy_filter::extension::added(&patches)
        .map(|config| Arc::new(Resource::encode(config.name.as_str(), config)));
    // Pull secrets are for those who have proven to be of the namespace by which the filter was chosen.
    let identity = view.identity.as_ref();
    let trusted = identity.is_some_and(|i| i.namespace == view.namespace);
    let extensions = cx.query(&ExtensionsOf::of(view));
    let wasm = extensions.iter().filter_map(|extension| {
        let key = ExtensionConfigOf {
            extension: extension.origin(),
            trusted,
        };
        (*cx.query(&key)).clone()
    });
    ResourceSet::new(added.chain(wasm))
}
