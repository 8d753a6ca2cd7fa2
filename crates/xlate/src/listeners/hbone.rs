//! The listener inside proxies that sends connections into tunnels.
//!
//! Istio: pilot/pkg/networking/core/listener_waypoint.go buildConnectOriginateListener, 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::capabilities::{CertificateSource, name};
use policy::filters;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{
    ClusterSpecifier, TunnelingConfig,
};
use store::{Reads, Snapshot};
use xds::Resource;

use crate::judged;

use super::access_log::of_failures;
use super::parts::SidePartsOf;
use crate::clusters::CONNECT_ORIGINATE;

/// The listener that leads to tunnels, for proxies that can open some.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ConnectOriginate(pub(super) SidePartsOf);

impl Query<Snapshot> for ConnectOriginate {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let parts = cx.query(&self.0);
        // Others lack the extension that listeners inside of the proxy need.
        let has_agent = parts.tcp.capabilities.certificates == CertificateSource::Agent;
        if !cx.settings().features.sending_hbone || !has_agent {
            return None;
        }
        let proxy = TcpProxy {
            stat_prefix: CONNECT_ORIGINATE.to_owned(),
            cluster_specifier: Some(ClusterSpecifier::Cluster(CONNECT_ORIGINATE.to_owned())),
            tunneling_config: Some(TunnelingConfig {
                hostname: "%DOWNSTREAM_LOCAL_ADDRESS%".to_owned(),
                ..TunnelingConfig::default()
            }),
            // Other connections are logged where they enter the tunnel.
            access_log: of_failures(&parts.tcp.access_log),
            ..TcpProxy::default()
        };
        let inside = listener::listener::InternalListenerConfig::default();
        let message = listener::Listener {
            name: CONNECT_ORIGINATE.to_owned(),
            use_original_dst: Some(false),
            listener_specifier: Some(listener::listener::ListenerSpecifier::InternalListener(
                inside,
            )),
            listener_filters: vec![filters::original_dst()],
            filter_chains: vec![listener::FilterChain {
                filters: vec![filters::network(name::TCP_PROXY, xds::any(&proxy))],
                ..listener::FilterChain::default()
            }],
            access_log: parts.tcp.listener_log.clone(),
            ..listener::Listener::default()
        };
        judged::listener(message, Vec::new(), &|_| None)
    }
}
