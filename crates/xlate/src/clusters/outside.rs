//! Clusters of services outside of the mesh that decide about requests of an edge: found by DNS and called over TLS, with a certificate
//! that the roots of the system vouch for.

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::edge::AskedOf;
use mesh::gateways::{self, GatewayKey};
use mesh::proxy::Traits;
use model::edge::Outside;
use model::node::Role;
use proto_envoy::envoy::config::cluster::v3::cluster::DiscoveryType;
use proto_istio::networking::ClientTlsSettings;
use proto_istio::networking::client_tls_settings::TlSmode;
use store::{Reads, Snapshot};
use xds::Resource;

use super::client::ClusterClient;
use super::draft::Draft;
use super::fixed::assignment;
use super::outbound::{NO_REGISTRY, lookup_family};
use super::tls;
use crate::judged;
use crate::load_assignment::groups;

/// The Gateways of a proxy whose routes may ask such services.
pub(super) fn gateway(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Option<GatewayKey> {
    (proxy.node.role == Role::Router).then(|| gateways::key_of(cx, proxy))
}

/// The clusters that the rules of these Gateways ask for.
pub(super) fn clusters(
    cx: &Cx<'_, Snapshot>,
    gateway: &GatewayKey,
    client: &Arc<ClusterClient>,
) -> Vec<Arc<Resource>> {
    let asked = cx.query(&AskedOf(gateway.clone()));
    let services = asked.iter().flat_map(|asked| &asked.outside);
    services
        .filter_map(|service| {
            let key = OutsideCluster {
                service: service.clone(),
                client: client.clone(),
            };
            (*cx.query(&key)).clone()
        })
        .collect()
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OutsideCluster {
    service: Outside,
    client: Arc<ClusterClient>,
}

impl Query<Snapshot> for OutsideCluster {
    type Value = Option<Arc<Resource>>;

    #[expect(deprecated, reason = "what Istio's proxies of all versions understand")]
    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let (settings, client) = (cx.settings(), &*self.client);
        let Outside { host, port } = &self.service;
        let name = self.service.cluster();
        let address = groups::socket(host, *port);
        let mut draft = Draft::new(name.clone(), DiscoveryType::StrictDns);
        let cluster = &mut draft.cluster;
        cluster.connect_timeout = settings.mesh.connect_timeout.map(|d| d.0);
        cluster.dns_lookup_family = lookup_family(settings, client.families) as i32;
        cluster.dns_refresh_rate = settings.mesh.dns_refresh_rate.map(|d| d.0);
        cluster.respect_dns_ttl = true;
        cluster.load_assignment = Some(assignment(&name, address));
        let verified = ClientTlsSettings {
            mode: TlSmode::Simple.into(),
            sni: host.to_string(),
            subject_alt_names: vec![host.to_string()],
            ..ClientTlsSettings::default()
        };
        let peer = tls::Peer {
            identities: &[],
            sni: "",
            external: true,
            registry: NO_REGISTRY,
            accepts: None,
            selected: false,
        };
        tls::apply(&mut draft, client, &settings.mesh, Some(&verified), &peer);
        judged::cluster(&draft.finish(), Vec::new())
    }
}
