//! The endpoints of one cluster, for one kind of client: chosen, grouped by locality, seen through network gateways.
//!
//! Assignments (EDS) are made of them, and clusters that carry their endpoints.

pub(crate) mod client;
pub(crate) mod groups;
pub(crate) mod locality;
pub(crate) mod network;
pub(crate) mod select;

pub(crate) use client::{EndpointClient, Place};
pub(crate) use network::NetworkWays;
