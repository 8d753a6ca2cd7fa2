//! The cluster behind a service that an extension provider of the mesh config names.

use incr::Cx;
use model::host::{Hostname, canonical};
use proto_envoy::envoy::config::core::v3::{GrpcService, grpc_service};
use store::Snapshot;

use mesh::services::OfHost;

/// Where a provider is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProviderCluster {
    /// Host of the service.
    pub host: String,
    /// Name of the cluster.
    pub cluster: String,
}

/// The cluster of `service`, which is `host` or `namespace/host`. `None` where there is no such service, or where several
/// namespaces have one and none is stated.
///
/// Istio: pilot/pkg/model/telemetry_logging.go LookupCluster, 1.32.
pub fn lookup(cx: &Cx<'_, Snapshot>, service: &str, port: u32) -> Option<ProviderCluster> {
    let (namespace, host) = match service.split_once('/') {
        Some((_, rest)) if rest.contains('/') => (None, service),
        Some((namespace, host)) => (Some(namespace), host),
        None => (None, service),
    };
    if host.is_empty() {
        return None;
    }
    let host = &*canonical(host);
    let found = cx.query(&OfHost(Hostname::from(host)));
    let known = match namespace {
        Some(namespace) => found.iter().any(|s| s.namespace == namespace),
        None => found.len() == 1,
    };
    known.then(|| ProviderCluster {
        host: host.to_owned(),
        cluster: format!("outbound|{port}||{host}"),
    })
}

/// A gRPC service that is reached through a cluster.
pub fn envoy_grpc(cluster: &ProviderCluster) -> GrpcService {
    GrpcService {
        target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(
            grpc_service::EnvoyGrpc {
                cluster_name: cluster.cluster.clone(),
                authority: cluster.host.clone(),
                ..Default::default()
            },
        )),
        ..Default::default()
    }
}
