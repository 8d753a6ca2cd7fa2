//! What objects of several authors want, and only some of them have: hosts, addresses, and ports of gateways.

use incr::{Cx, Query};
use model::kinds::istio::ServiceEntry;
use store::{Reads, Snapshot};

use super::entries::{self, TakenEntries};
use super::{Findings, in_order};
use crate::secrets::SecretsOf;
use mesh::gateways::{self, MergedGatewayOf, NotOwnedAt, RefusedRedirects};
use mesh::proxy::Traits;
use mesh::view::ProxyKey;
use mesh::virtual_service::NotOwnedInMesh;

/// The hosts and addresses that objects do not have at any proxy, or not at those of others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contested;

impl Query<Snapshot> for Contested {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = entries::displaced(cx);
        for namespace in cx.namespaces::<ServiceEntry>() {
            found.extend_from_slice(&cx.query(&TakenEntries(namespace)));
        }
        found.extend_from_slice(&cx.query(&NotOwnedInMesh));
        in_order(found)
    }
}

/// The hosts, ports and credentials that Gateways and the rules that name them do not have at a gateway proxy. What the proxy would get is not
/// made for it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ContestedAt(pub ProxyKey);

impl Query<Snapshot> for ContestedAt {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let proxy = Traits::of(cx, self.0.node());
        let key = gateways::key_of(cx, &proxy);
        // A port of a Service may have a name that no container knows: then nobody can say which ports the proxy binds.
        if key
            .instances
            .iter()
            .any(|instance| instance.target_port == 0)
        {
            return in_order(Vec::new());
        }
        let mut found = Vec::new();
        if let Some(merged) = &*cx.query(&MergedGatewayOf(key.clone())) {
            found.extend(merged.refused.iter().cloned());
            found.extend_from_slice(&cx.query(&NotOwnedAt(key.clone())));
            found.extend_from_slice(&cx.query(&RefusedRedirects(key)));
            found.extend(SecretsOf::of(cx, &proxy).missing(cx));
        }
        in_order(found)
    }
}
