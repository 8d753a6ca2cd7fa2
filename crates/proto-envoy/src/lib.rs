//! Envoy and xDS messages with their descriptor set, generated at build time.
//!
//! The modules mirror the protobuf packages (`envoy.config.cluster.v3` is [`envoy::config::cluster::v3`]). No logic
//! lives here: only the messages, their names, and [`descriptor_set`] for JSON and for merging by field.

#![allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]

include!(concat!(env!("OUT_DIR"), "/envoy.rs"));

static DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/envoy.all.fds"));

/// The encoded descriptors of every Envoy, xDS and UDPA message, also of those that have no Rust type here.
pub fn descriptor_set() -> &'static [u8] {
    DESCRIPTOR_SET
}
