//! The roots that workloads of the mesh judge each other by: those of its own authority, those that the mesh config adds, and
//! those that SPIFFE endpoints publish.
//!
//! Istio: pilot/pkg/trustbundle/trustbundle.go, 1.32. There, one bad certificate of the mesh config keeps all of them from
//! being used.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::jwks::KeySource;
use model::settings::MeshConfig;
use model::trust::{of_bundle, of_pem};
use proto_istio::mesh::mesh_config::certificate_data::CertificateData as Data;
use store::{Reads, Snapshot};

/// Most endpoints of bundles that are asked.
pub const MOST_ENDPOINTS: usize = 64;

/// The SPIFFE endpoints that the mesh config names, each once.
pub fn endpoints(mesh: &MeshConfig) -> BTreeSet<KeySource> {
    let stated = mesh.ca_certificates.iter();
    let urls = stated.filter_map(|c| match &c.certificate_data {
        Some(Data::SpiffeBundleUrl(url)) if !url.is_empty() => Some(url.as_str()),
        _ => None,
    });
    let sources = urls.take(MOST_ENDPOINTS);
    sources.map(|url| KeySource::Bundle(url.into())).collect()
}

/// All roots, each in PEM, once and sorted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TrustBundle;

impl Query<Snapshot> for TrustBundle {
    type Value = Arc<[Arc<str>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut all: BTreeSet<Arc<str>> = BTreeSet::new();
        let own = cx.roots();
        all.extend(
            own.iter()
                .flat_map(|own| of_pem(&own.roots).unwrap_or_default()),
        );
        let mesh = &cx.settings().mesh;
        for stated in &mesh.ca_certificates {
            if let Some(Data::Pem(pem)) = &stated.certificate_data {
                all.extend(of_pem(pem).unwrap_or_default());
            }
        }
        for endpoint in endpoints(mesh) {
            let fetched = cx.keys(&endpoint);
            let text = fetched.as_ref().and_then(|fetched| fetched.keys.as_deref());
            all.extend(
                text.map(|text| of_bundle(text).unwrap_or_default())
                    .unwrap_or_default(),
            );
        }
        all.into_iter().collect()
    }
}
