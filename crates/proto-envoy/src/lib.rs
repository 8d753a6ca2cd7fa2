//! Envoy and xDS messages with their descriptor set, generated at build time.
//!
//! The modules mirror the protobuf packages (`envoy.config.cluster.v3` is [`envoy::config::cluster::v3`]). No logic
//! lives here: only the messages, their names, and [`descriptors`] for JSON and for merging by field.

#![allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!(concat!(env!("OUT_DIR"), "/envoy.rs"));

static DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/envoy.all.fds"));

/// Descriptors of every Envoy, xDS and UDPA message, also of those that have no Rust type here.
///
/// Decoding takes some 60 ms; it happens once, at the first call.
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
