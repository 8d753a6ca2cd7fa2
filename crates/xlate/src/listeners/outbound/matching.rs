//! Which connections an outbound filter chain takes, and when two of them want the same.
//!
//! Istio: pilot/pkg/networking/core/listener.go filterChainOpts, 1.32.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::IpNet;
use proto_envoy::envoy::config::core::v3::CidrRange;
use proto_envoy::envoy::config::listener::v3::FilterChainMatch;

use crate::listeners::address::{WILDCARD_V4, cidr_range, prefix};
use crate::listeners::filters::RAW_BUFFER_TRANSPORT;

/// The connections that a chain takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Matching {
    /// Server names of TLS; `*` among them stands for all.
    pub(super) server_names: Vec<String>,
    /// Ranges of destinations.
    pub(super) ranges: Vec<String>,
    /// Whether only what was found to be HTTP in the clear.
    pub(super) detected_http: bool,
}

impl Matching {
    /// Whether it takes everything.
    pub(super) fn is_everything(&self) -> bool {
        (self.server_names.is_empty() || self.any_name())
            && !self.detected_http
            && self.ranges.is_empty()
    }

    /// Whether it takes exactly what another does.
    pub(super) fn conflicts_with(&self, other: &Self) -> bool {
        self.detected_http == other.detected_http
            && self.name_set() == other.name_set()
            && self.range_set() == other.range_set()
    }

    /// For Envoy; `None` where everything is taken. Names are sorted, and so are ranges, as they are written.
    pub(super) fn to_envoy(&self, plain_http: &[&str]) -> Option<FilterChainMatch> {
        if self.is_everything() {
            return None;
        }
        let mut matching = FilterChainMatch::default();
        if self.detected_http {
            RAW_BUFFER_TRANSPORT.clone_into(&mut matching.transport_protocol);
            matching.application_protocols = plain_http.iter().map(|p| (*p).to_owned()).collect();
        }
        if !self.any_name() {
            matching.server_names.clone_from(&self.server_names);
            matching.server_names.sort();
        }
        let mut ranges: Vec<&String> = self.ranges.iter().collect();
        ranges.sort();
        matching.prefix_ranges = ranges
            .into_iter()
            .filter_map(|range| cidr_range(range))
            .filter(|range: &CidrRange| range.address_prefix != WILDCARD_V4)
            .collect();
        Some(matching)
    }

    fn any_name(&self) -> bool {
        self.server_names.iter().any(|n| n == "*")
    }

    fn name_set(&self) -> BTreeSet<&str> {
        self.server_names
            .iter()
            .map(String::as_str)
            .filter(|n| *n != "*")
            .collect()
    }

    /// Ranges without their host bits: `10.1.0.0/8` and `10.2.0.0/8` are one.
    fn range_set(&self) -> BTreeSet<IpNet> {
        self.ranges
            .iter()
            .filter_map(|range| prefix(range))
            .filter(|range| range.addr() != Ipv4Addr::UNSPECIFIED)
            .map(|range| range.trunc())
            .collect()
    }
}
