//! The queries that streams hold alive: one for each view and type.

use std::sync::Arc;

use incr::{Cx, Query};
use store::Snapshot;

use crate::{clusters, ecds, endpoints, listeners, name_table, routes, secrets};
use mesh::view::View;
use xds::ResourceSet;
use xds::TypeUrl;

/// Every resource of one type that proxies of a view may ask for.
///
/// For endpoints and routes that is what the view's clusters and listeners name; streams send the names subscribed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TypeSet {
    /// For whom.
    pub view: Arc<View>,
    /// What.
    pub ty: TypeUrl,
}

impl Query<Snapshot> for TypeSet {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        match self.ty {
            TypeUrl::Cluster => clusters::set(cx, &self.view),
            TypeUrl::Endpoint => endpoints::set(cx, &self.view),
            TypeUrl::Listener => listeners::set(cx, &self.view),
            TypeUrl::Route => routes::set(cx, &self.view),
            TypeUrl::NameTable => name_table::set(cx, &self.view),
            TypeUrl::Secret => secrets::set(cx, &self.view),
            TypeUrl::Extension => ecds::set(cx, &self.view),
        }
    }
}
