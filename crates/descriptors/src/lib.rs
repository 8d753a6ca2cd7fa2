//! Descriptors of Envoy's and Istio's messages in one pool, so that every `Any` that proxies get can be read.
//!
//! A pool of Envoy's messages takes tens of megabytes; this is the only one of a process. No logic lives here.

pub mod json;
pub mod texts;

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

/// Descriptors of every message of Envoy, xDS and Istio.
///
/// Decoding takes some 60 ms; it happens once, at the first call.
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let mut pool = DescriptorPool::decode(proto_envoy::descriptor_set())
            .expect("the descriptor set was written by protoc at build time");
        pool.decode_file_descriptor_set(proto_istio::descriptor_set())
            .expect("the two descriptor sets have no file of one name with different content");
        pool
    });
    &POOL
}

#[cfg(test)]
mod tests {
    use super::pool;

    #[test]
    fn messages_of_both_are_there() {
        for name in [
            "envoy.config.cluster.v3.Cluster",
            "istio.networking.v1alpha3.VirtualService",
            "google.protobuf.Any",
        ] {
            assert!(pool().get_message_by_name(name).is_some(), "{name}");
        }
    }
}
