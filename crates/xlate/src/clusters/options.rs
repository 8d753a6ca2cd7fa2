//! What options of an edge make of the clusters of a gateway.
//!
//! Higress: pkg/ingress/kube/configmap/global.go and tracing.go, 2.1, which writes EnvoyFilters.

use std::sync::Arc;

use incr::Cx;
use mesh::gateways;
use mesh::proxy::Traits;
use mesh::proxy_options::seconds;
use model::host::Hostname;
use model::node::Role;
use model::service::Port;
use policy::edge::options::{OptionsOf, Upstream};
use store::Snapshot;

use super::draft::Draft;

/// What options of an edge say of connections to backends.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct UpstreamOptions {
    /// Their limits.
    stated: Upstream,
    /// The host and port that is told of requests by gRPC.
    collector: Option<(Hostname, u16)>,
}

impl UpstreamOptions {
    /// Those of a proxy, where it serves an edge.
    pub(super) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Option<Arc<Self>> {
        if proxy.node.role != Role::Router {
            return None;
        }
        let options = cx.query(&OptionsOf(gateways::key_of(cx, proxy)));
        let options = (*options).as_ref()?;
        let collector = options.tracing.collector();
        let collector = collector.filter(|collector| collector.speaks_grpc());
        Some(Arc::new(Self {
            stated: options.upstream.clone(),
            collector: collector.map(|c| (Hostname::from(&*c.host), c.port)),
        }))
    }

    /// Collectors of requests are told by gRPC, whether their port says so or not.
    pub(super) fn choose_protocol(&self, draft: &mut Draft<'_>, host: &Hostname, port: &Port) {
        let is_collector = |(of, number): &(Hostname, u16)| *number == port.number && of == host;
        if self.collector.as_ref().is_some_and(is_collector) {
            draft.speak_only_http2();
        }
    }

    /// Limits connections. Those by SNI carry what is not read on the way.
    pub(super) fn limit(&self, draft: &mut Draft<'_>, sni: bool) {
        let bytes = self.stated.connection_buffer_limits;
        draft.cluster.per_connection_buffer_limit_bytes = Some(bytes);
        if !sni {
            draft.close_idle(seconds(self.stated.idle_timeout.into()));
        }
    }
}
