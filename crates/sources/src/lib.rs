//! Config from files, and what is wanted of the outside: keys of token issuers, Wasm modules, addresses of gateways,
//! certificates of workloads.
//!
//! Each is a [`source_api::Source`]. Nothing here translates.

pub mod certificates;
mod fetching;
pub mod files;
pub mod folder;
pub mod jwks;
pub mod modules;
pub mod names;
mod room;
