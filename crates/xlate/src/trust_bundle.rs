//! The roots that agents are told to judge peers by (PCDS): a ProxyConfig that has nothing else.
//!
//! An agent judges every peer by all of them, whatever the trust domain. Roots of other trust domains are therefore kept
//! from it, unless the operator has them sent (`PILOTHOUSE_UNBOUND_FOREIGN_ROOTS`).
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
        let bundle = cx.query(&TrustBundle);
        let roots = match cx.settings().features.unbound_foreign_roots {
            true => bundle.all(),
            false => bundle.own.iter().collect(),
        };
        let config = ProxyConfig {
            ca_certificates_pem: roots.iter().map(|pem| pem.to_string()).collect(),
            ..ProxyConfig::default()
        };
        ResourceSet::new([Arc::new(Resource::encode("", &config))])
    }
}
