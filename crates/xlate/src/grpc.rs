//! Resources for gRPC libraries, which route, balance and encrypt by themselves, without an Envoy.
//!
//! A client asks for the listener of its target (`HOST:PORT`), then for the routes, clusters and endpoints that each names;
//! a server asks for the listener of the address that it listens at. They take Envoy's messages, but little of what these may
//! hold, and refuse some of the rest. Their routes and endpoints are made with those of sidecars.
//!
//! ```text
//! ScopeOf ─▶ GrpcClient ─▶ ServiceListeners ─┐
//! AuthorizationPolicies ─▶ Checks ─┐         ├─▶ ListenersOf      ScopeOf ─▶ GrpcServiceClusters ─▶ GrpcClusters
//! PeerPolicies ────────────────────┴▶ Server ┘
//! ```
//!
//! Clients choose the names of resources: a set holds one resource for each valid name, short names included. Its
//! [`SubscriptionRule`] says which name without a port matches it too, and whether a wildcard does.
//!
//! Listeners are not validated as a whole: Envoy's rules require a `stat_prefix`, which gRPC's form lacks. The parts that
//! configuration determines are validated one by one.
//!
//! Istio: pilot/pkg/networking/grpcgen, 1.32.

mod clusters;
mod inbound;
mod outbound;
mod tls;

use std::sync::Arc;

use incr::Cx;
use mesh::proxy::Traits;
use model::diagnostic::Diagnostic;
use proto_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto_envoy::envoy::config::core::v3::{AggregatedConfigSource, ConfigSource};
use store::Snapshot;
use xds::{ResourceSet, SubscriptionRule};

use crate::hashed::Hashed;

pub(crate) use clusters::GrpcClusters;
use inbound::Server;
use outbound::GrpcClient;

/// What decides the listeners of a gRPC library.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct GrpcWorkload {
    /// As a client.
    client: Hashed<GrpcClient>,
    /// As a server; `None` where no service leads to its workload.
    server: Option<Hashed<Server>>,
}

impl GrpcWorkload {
    /// What decides the listeners of such a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let serves = !proxy.targets.is_empty();
        Self {
            client: Hashed::shared(cx, GrpcClient::of(cx, proxy)),
            server: serves.then(|| Hashed::shared(cx, Server::of(cx, proxy))),
        }
    }

    /// Its listeners: for what it calls, and for what it serves.
    pub(crate) fn listeners(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let outbound = cx.query(&outbound::Listeners(self.client.clone()));
        match &self.server {
            Some(server) => {
                let inbound = cx.query(&inbound::Listeners(server.clone()));
                outbound.and(inbound.iter().cloned())
            }
            None => (*outbound).clone(),
        }
    }

    /// What is wrong with the policies that it checks.
    pub(crate) fn findings(&self, cx: &Cx<'_, Snapshot>) -> Vec<Diagnostic> {
        let server = self.server.as_ref();
        server.map_or_else(Vec::new, |server| server.findings(cx))
    }
}

/// Matched by its name alone.
fn by_name() -> Arc<SubscriptionRule> {
    Arc::new(SubscriptionRule::default())
}

/// With the other resources of the same stream.
fn ads() -> ConfigSource {
    ConfigSource {
        config_source_specifier: Some(
            ConfigSourceSpecifier::Ads(AggregatedConfigSource::default()),
        ),
        ..ConfigSource::default()
    }
}
