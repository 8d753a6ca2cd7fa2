//! Istio, MCP, mesh-config, workload and CA messages, and those of gRPC itself, with their descriptor set and JSON mapping.
//!
//! [`proto`] mirrors the protobuf packages (`istio.networking.v1alpha3` is `proto::istio::networking::v1alpha3`); the
//! short modules ([`networking`], [`security`], …) name what the rest of the workspace uses. Fields of well-known
//! types have the types of [`wkt`], and labels of workloads are a [`SharedMap`]. [`json`] reads configuration the way
//! Istio does; no other logic lives here.

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

pub mod json;
mod shared_map;
pub mod wkt;

pub use shared_map::{SharedMap, share};

/// Every generated message, in modules named as the protobuf packages.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    rustdoc::all
)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/istio.rs"));
}

pub use proto::istio;

/// Resources of `networking.istio.io`.
pub mod networking {
    pub use crate::istio::networking::v1alpha3::*;
    /// The `ProxyConfig` resource; the mesh-wide settings of the same name are [`crate::mesh::ProxyConfig`].
    pub use crate::istio::networking::v1beta1 as proxy_config;
    pub use crate::istio::networking::v1beta1::ProxyConfig;
}

/// Resources of `security.istio.io`.
pub mod security {
    pub use crate::istio::security::v1beta1::*;
}

/// Resources of `telemetry.istio.io`.
pub mod telemetry {
    pub use crate::istio::telemetry::v1alpha1::*;
}

/// Resources of `extensions.istio.io`.
pub mod extensions {
    pub use crate::istio::extensions::v1alpha1::*;
}

/// Mesh configuration and the mesh's networks.
pub mod mesh {
    pub use crate::istio::mesh::v1alpha1::*;
}

/// Selectors and target references of policies.
pub mod types {
    pub use crate::istio::r#type::v1beta1::*;
}

/// Statuses that controllers write on resources.
pub mod meta {
    pub use crate::istio::meta::v1alpha1::*;
}

/// Findings of configuration analysis.
pub mod analysis {
    pub use crate::istio::analysis::v1alpha1::*;
}

/// Configuration objects sent over xDS.
pub mod mcp {
    pub use crate::istio::mcp::v1alpha1::*;
}

/// The name table of the agent's DNS server.
pub mod nds {
    pub use crate::istio::networking::nds::v1::*;
}

/// Workloads and services as ztunnel takes them.
pub mod workload {
    pub use crate::istio::workload::*;
}

/// Authorization policies as ztunnel takes them.
pub mod ztunnel_security {
    pub use crate::istio::security::*;
}

/// Certificate signing.
pub mod ca {
    pub use crate::istio::v1::auth::*;
}

/// gRPC's questions whether a server serves.
pub mod health {
    pub use crate::proto::grpc::health::v1::*;
}

/// gRPC's questions which services a server has.
pub mod reflection {
    pub use crate::proto::grpc::reflection::v1::*;
}

/// Configuration of the filters that only Istio's build of Envoy has.
pub mod filters {
    pub use crate::proto::envoy::tcp::metadataexchange::config as metadata_exchange;
    pub use crate::proto::istio::envoy::config::filter::http::alpn::v2alpha1 as alpn;
    pub use crate::proto::stats;
}

/// Configuration of the filters that only Higress's build of Envoy has.
pub mod higress {
    pub use crate::proto::envoy::extensions::filters::http::golang::v3alpha as golang;
    pub use crate::proto::envoy::extensions::filters::http::http_dubbo_transcoder::v3 as dubbo;
    pub use crate::proto::envoy::extensions::upstreams::http::dubbo_tcp::v3 as dubbo_tcp;
}

static DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/istio.all.fds"));

/// Descriptors of every message of this crate.
pub fn descriptors() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        DescriptorPool::decode(DESCRIPTOR_SET)
            .expect("the descriptor set was written by protoc at build time")
    });
    &POOL
}

/// The encoded descriptor set behind [`descriptors`], for pools that add further files to it.
pub fn descriptor_set() -> &'static [u8] {
    DESCRIPTOR_SET
}
