//! A workload's own certificate, and the roots by which it judges its peers: for proxies without an agent.
//!
//! Istio's agent makes the same two of what it asked for: security/pkg/nodeagent/sds/sdsservice.go, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::trust::{TrustBundle, own_domains};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3 as tls;
use store::{Reads, Snapshot};
use xds::Resource;

use super::made::{KeyProvider, certificate, validation};
use super::spiffe;
use crate::clusters::sds;

/// The certificate of an identity with its key; `None` until it is there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct OwnCertificate {
    /// `spiffe://...`
    pub(super) identity: Arc<str>,
    pub(super) keys: KeyProvider,
}

impl Query<Snapshot> for OwnCertificate {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let made = cx.certificate(&self.identity)?;
        let content = certificate(&self.keys, made.chain.as_bytes(), made.key.expose(), None);
        Some(secret(sds::OWN, tls::secret::Type::TlsCertificate(content)))
    }
}

/// The roots of the mesh, with those that it takes from elsewhere, each bound to its trust domains; `None` until its own are
/// there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct OwnRoots;

impl Query<Snapshot> for OwnRoots {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let own = cx.roots()?;
        let roots = cx.query(&TrustBundle);
        let (pem, revoked) = (text(&roots.own), own.revoked.as_deref());
        if pem.is_empty() {
            return None;
        }
        let content = match roots.foreign.is_empty() {
            true => validation(pem.as_bytes(), revoked.map(str::as_bytes)),
            false => spiffe::validation(&own_domains(&cx.settings().mesh), &roots, revoked),
        };
        Some(secret(sds::ROOT, content))
    }
}

fn text(roots: &BTreeSet<Arc<str>>) -> String {
    roots.iter().map(|pem| &**pem).collect()
}

fn secret(name: &str, content: tls::secret::Type) -> Arc<Resource> {
    let secret = tls::Secret {
        name: name.to_owned(),
        r#type: Some(content),
    };
    Arc::new(Resource::encode(name, &secret))
}
