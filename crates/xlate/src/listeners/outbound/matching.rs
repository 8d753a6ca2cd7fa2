//! Which connections an outbound filter chain takes, and when two of them want the same.
//!
//! Istio: pilot/pkg/networking/core/listener.go filterChainOpts, 1.32.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::IpNet;
use model::host::server_name;
use proto_envoy::envoy::config::core::v3::CidrRange;
use proto_envoy::envoy::config::listener::v3::FilterChainMatch;

use mesh::address::{WILDCARD_V4, cidr_range, prefix};
use policy::filters::RAW_BUFFER_TRANSPORT;

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
    /// What it takes by names as Envoy compares them; `None` where it is for names of which Envoy takes none, as without any
    /// it would be for all.
    pub(super) fn by_servable_names(mut self) -> Option<Self> {
        let stated = self.server_names.len();
        self.server_names = self
            .server_names
            .iter()
            .filter_map(|n| server_name(n))
            .collect();
        (stated == 0 || !self.server_names.is_empty()).then_some(self)
    }

    /// Whether it takes everything.
    pub(super) fn is_everything(&self) -> bool {
        (self.server_names.is_empty() || self.any_name())
            && !self.detected_http
            && self.ranges.is_empty()
    }

    /// What it takes: equal for two that Envoy cannot tell apart.
    pub(super) fn identity(&self) -> Identity {
        let names = self.server_names.iter().filter(|n| *n != "*");
        let ranges = self.ranges.iter().filter_map(|range| prefix(range));
        Identity {
            detected_http: self.detected_http,
            names: names.map(|n| n.as_str().into()).collect(),
            // Without their host bits: `10.1.0.0/8` and `10.2.0.0/8` are one.
            ranges: ranges
                .filter(|range| range.addr() != Ipv4Addr::UNSPECIFIED)
                .map(|range| range.trunc())
                .collect(),
        }
    }

    /// For Envoy; `None` where everything is taken. Names are sorted, and so are ranges, as they are written; of those that mean the
    /// same the first is written, as Envoy refuses the listener for two.
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
        let mut written = BTreeSet::new();
        ranges.retain(|range| prefix(range).is_none_or(|range| written.insert(range.trunc())));
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
}

/// What a [`Matching`] takes.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(super) struct Identity {
    detected_http: bool,
    names: BTreeSet<Box<str>>,
    ranges: BTreeSet<IpNet>,
}

#[cfg(test)]
mod tests {
    use super::Matching;

    fn names(list: &[&str]) -> Matching {
        Matching {
            server_names: list.iter().map(ToString::to_string).collect(),
            ..Matching::default()
        }
    }

    #[test]
    fn names_are_compared_without_case_and_partial_wildcards_are_left_out() {
        let of = |list: &[&str]| names(list).by_servable_names();
        let lower = of(&["api.vendor.example"]).unwrap();
        assert_eq!(
            of(&["API.vendor.example"]).unwrap().identity(),
            lower.identity()
        );
        assert_eq!(
            of(&["*gallery.vendor.example", "*.v.example"]),
            of(&["*.v.example"])
        );
        assert_eq!(of(&["*gallery.vendor.example"]), None);
        assert_eq!(of(&[]), Some(Matching::default()));
    }

    fn ranges(list: &[&str]) -> Matching {
        Matching {
            ranges: list.iter().map(|r| (*r).to_owned()).collect(),
            ..Matching::default()
        }
    }

    #[test]
    fn ranges_that_differ_in_host_bits_only_conflict() {
        let same = |a: &str, b: &str| ranges(&[a]).identity() == ranges(&[b]).identity();
        assert!(same("10.1.0.0/8", "10.2.0.0/8"));
        assert!(!same("10.1.0.0/16", "10.2.0.0/16"));
    }

    #[test]
    fn of_ranges_that_mean_the_same_one_is_written() {
        let of = |list: &[&str]| ranges(list).to_envoy(&[]).unwrap().prefix_ranges.len();
        assert_eq!(of(&["10.2.0.0/8", "10.1.0.0/8"]), 1);
        assert_eq!(of(&["10.0.0.1", "10.0.0.1/32", "10.0.0.2"]), 2);
        assert_eq!(of(&["fd00::/8", "fd00:0::/8", "::/0", "::/0"]), 2);
    }

    #[test]
    fn the_unspecified_address_matches_everything_and_is_not_written() {
        let everything = Matching::default().identity();
        assert_eq!(ranges(&["0.0.0.0/0"]).identity(), everything);
        let matching = ranges(&["0.0.0.0/0", "10.0.0.0/8"]).to_envoy(&[]);
        assert_eq!(matching.map(|m| m.prefix_ranges.len()), Some(1));
    }

    #[test]
    fn a_server_name_that_stands_for_all_takes_everything() {
        let any = Matching {
            server_names: vec!["a.com".to_owned(), "*".to_owned()],
            ..Matching::default()
        };
        assert!(any.is_everything() && any.to_envoy(&[]).is_none());
    }

    #[test]
    fn detected_http_does_not_conflict_with_tcp() {
        let http = Matching {
            detected_http: true,
            ..Matching::default()
        };
        assert_ne!(http.identity(), Matching::default().identity());
        let matching = http.to_envoy(&["http/1.1", "h2c"]).unwrap_or_default();
        assert_eq!(matching.application_protocols, ["http/1.1", "h2c"]);
        assert_eq!(matching.transport_protocol, "raw_buffer");
    }
}
