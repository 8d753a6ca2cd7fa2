//! The filters that check who a client is and what it may do, for the side of a proxy at which clients arrive.

use incr::{Cx, Query};
use model::labels::Labels;
use model::names::Namespace;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use store::Snapshot;

use crate::view::View;

/// Filters in the order in which they run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Security {
    /// Of HTTP chains.
    pub http: Vec<hcm::HttpFilter>,
    /// Of TCP chains.
    pub tcp: Vec<listener::Filter>,
}

/// What decides those filters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SecurityOf {
    /// Namespace of the workload.
    pub namespace: Namespace,
    /// Its labels.
    pub labels: Labels,
}

impl SecurityOf {
    /// That of a view's proxies.
    pub fn of(view: &View) -> Self {
        Self {
            namespace: view.namespace.clone(),
            labels: view.labels.clone(),
        }
    }
}

impl Query<Snapshot> for SecurityOf {
    type Value = Security;

    fn eval(&self, _: &Cx<'_, Snapshot>) -> Security {
        Security::default()
    }
}
