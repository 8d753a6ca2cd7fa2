//! Settings of the whole mesh: mesh config, mesh networks and feature flags, as one input of generation.

use std::sync::Arc;

pub use proto_istio::mesh::{MeshConfig, MeshNetworks};

use crate::names::{ClusterId, Namespace};

/// What is set once for everybody. Replaced whole; generation reads it through the snapshot.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Mesh config, defaults applied.
    pub mesh: Arc<MeshConfig>,
    /// Mesh networks.
    pub networks: Arc<MeshNetworks>,
    /// Feature flags that change what is generated.
    pub features: Arc<Features>,
    /// The DNS domain of Kubernetes services, `cluster.local`.
    pub domain: Arc<str>,
    /// The cluster that objects without another cluster belong to.
    pub cluster: ClusterId,
    /// The namespace of the control plane (`istio-system`).
    pub system_namespace: Namespace,
}

/// Feature flags that change generation, by Istio's environment names; a row of the snapshot, never read from the
/// environment by generation.
#[derive(Clone, PartialEq, Debug)]
pub struct Features {
    /// `ISTIO_DUAL_STACK`.
    pub dual_stack: bool,
    /// `PILOT_ENABLE_IP_AUTOALLOCATE`.
    pub ip_auto_allocate: bool,
    /// `PILOT_SEND_UNHEALTHY_ENDPOINTS`.
    pub send_unhealthy_endpoints: bool,
    /// `PILOT_HTTP10`.
    pub http10: bool,
    /// `PILOT_ENABLE_QUIC_LISTENERS`.
    pub quic_listeners: bool,
    /// `PILOT_ENABLE_PERSISTENT_SESSION_FILTER`.
    pub persistent_session_filter: bool,
    /// `PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN`.
    pub absolute_fqdn_vhost_domain: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            dual_stack: false,
            ip_auto_allocate: true,
            send_unhealthy_endpoints: false,
            http10: false,
            quic_listeners: false,
            persistent_session_filter: false,
            absolute_fqdn_vhost_domain: true,
        }
    }
}
