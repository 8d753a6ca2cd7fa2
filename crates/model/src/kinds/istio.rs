//! Istio's kinds: their specs are the protobuf messages themselves.

pub use proto_istio::extensions::{TrafficExtension, WasmPlugin};
pub use proto_istio::networking::{
    DestinationRule, EnvoyFilter, Gateway, ProxyConfig, ServiceEntry, ServiceEntryStatus, Sidecar,
    VirtualService, WorkloadEntry, WorkloadGroup,
};
pub use proto_istio::security::{AuthorizationPolicy, PeerAuthentication, RequestAuthentication};
pub use proto_istio::telemetry::Telemetry;

/// Conditions of a WorkloadEntry, its health among them.
pub use proto_istio::meta::IstioStatus as WorkloadEntryStatus;

/// Conditions of an AuthorizationPolicy, whether proxies took it among them.
pub use proto_istio::meta::IstioStatus as AuthorizationPolicyStatus;
