//! The roots that agents are told to judge peers by (PCDS): a ProxyConfig that has nothing else.
//!
//! Istio: pilot/pkg/xds/pcds.go, 1.32.

use std::sync::Arc;

use incr::Cx;
use mesh::trust::TrustBundle;
use proto_istio::mesh::ProxyConfig;
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet};

/// Proxies that have the same roots: all of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TrustBundleOf;

impl TrustBundleOf {
    /// One resource without a name, where the mesh may have several roots.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        if !cx.settings().features.multi_root {
            return ResourceSet::default();
        }
        let roots = cx.query(&TrustBundle);
        let config = ProxyConfig {
            ca_certificates_pem: roots.iter().map(|pem| pem.to_string()).collect(),
            ..ProxyConfig::default()
        };
        ResourceSet::new([Arc::new(Resource::encode("", &config))])
    }
}
