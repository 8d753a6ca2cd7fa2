//! Headers of requests whose names have underscores, which nginx drops.
//!
//! Envoy's own option is for all routes of a connection manager, also for those that users wrote; so a script does it for the routes
//! that ask for it. It stands before all filters that decide about requests: what these add stays.

use std::collections::BTreeMap;

use prost_types::Struct;
use prost_types::value::Kind;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;

use super::{UNDERSCORES, disabled, object, script_of_routes};

/// Removes them; which routes ask for it is in their metadata.
pub(super) const SCRIPT: &str = include_str!("underscores.lua");

/// The filter, which runs the script of a route configuration.
pub(super) fn filter() -> hcm::HttpFilter {
    disabled(UNDERSCORES, &script_of_routes())
}

/// Adds what a route says to it.
pub(super) fn add(metadata: &mut BTreeMap<String, Struct>) {
    let asked = object([("drop", Kind::BoolValue(true))]);
    metadata.insert(UNDERSCORES.to_owned(), asked);
}
