//! What may stand only once in a resource: domains, and the connections of filter chains.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use pilothouse_judge::{Chains, Domains};
use proto_envoy::envoy::config::core::v3::CidrRange;
use proto_envoy::envoy::config::listener::v3::FilterChainMatch;

fn names(names: &[&str]) -> FilterChainMatch {
    FilterChainMatch {
        server_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..FilterChainMatch::default()
    }
}

fn range(address: &str, length: u32) -> FilterChainMatch {
    FilterChainMatch {
        prefix_ranges: vec![CidrRange {
            address_prefix: address.to_owned(),
            prefix_len: Some(length),
        }],
        ..FilterChainMatch::default()
    }
}

#[test]
fn a_domain_belongs_to_the_first_virtual_host_that_wants_it_whatever_its_case() {
    let mut domains = Domains::default();
    assert_eq!(domains.take("shop.example.com", 0), Ok(()));
    assert_eq!(domains.take("*.example.com", 1), Ok(()));
    assert!(domains.take("Shop.Example.com", 1).is_err());
    assert!(domains.take("shop.example.com", 0).is_err());
    assert!(domains.take("", 2).is_err());
    assert!(domains.take("a\n", 2).is_err());
    assert_eq!(domains.owner("shop.example.com"), Some(0));
    assert_eq!(domains.owner("other.example.com"), None);
}

#[test]
fn a_server_name_belongs_to_the_first_chain_and_is_left_out_of_the_others() {
    let mut chains = Chains::default();
    let mut first = names(&["shop.example.com", "*.example.com"]);
    assert_eq!(chains.take(Some(&mut first)), Ok(Vec::new()));
    let mut second = names(&["SHOP.example.com", "other.example.com"]);
    assert_eq!(chains.take(Some(&mut second)).unwrap().len(), 1);
    assert_eq!(second.server_names, ["other.example.com"]);
    // Nothing is left of it, and without names it would take everything.
    assert!(
        chains
            .take(Some(&mut names(&["Shop.example.com"])))
            .is_err()
    );
    assert!(
        chains
            .take(Some(&mut names(&["*gallery.example.com"])))
            .is_err()
    );
    assert!(chains.take(Some(&mut names(&["a.*.example.com"]))).is_err());
    assert_eq!(chains.take(Some(&mut names(&[]))), Ok(Vec::new()));
    assert!(chains.take(None).is_err());
}

#[test]
fn what_stands_twice_in_a_list_of_one_chain_stands_there_once() {
    let cidr = |address: &str, length| CidrRange {
        address_prefix: address.to_owned(),
        prefix_len: Some(length),
    };
    let mut matching = FilterChainMatch {
        prefix_ranges: vec![
            cidr("10.1.0.0", 8),
            cidr("10.2.0.0", 8),
            cidr("10.0.0.0", 16),
            cidr("fd00::", 8),
            cidr("fd00:0:0::0", 8),
            cidr("10.0.0.1", 32),
            cidr("10.0.0.1", 200),
        ],
        source_prefix_ranges: vec![cidr("0.0.0.0", 0), cidr("1.2.3.4", 0)],
        source_ports: vec![1, 2, 1],
        application_protocols: vec!["h2".to_owned(), "h2".to_owned()],
        ..FilterChainMatch::default()
    };
    assert_eq!(Chains::default().take(Some(&mut matching)), Ok(Vec::new()));
    assert_eq!(
        matching,
        FilterChainMatch {
            prefix_ranges: vec![
                cidr("10.1.0.0", 8),
                cidr("10.0.0.0", 16),
                cidr("fd00::", 8),
                cidr("10.0.0.1", 32),
            ],
            source_prefix_ranges: vec![cidr("0.0.0.0", 0)],
            source_ports: vec![1, 2],
            application_protocols: vec!["h2".to_owned()],
            ..FilterChainMatch::default()
        }
    );
}

#[test]
fn chains_with_equal_names_may_differ_in_anything_else() {
    let mut chains = Chains::default();
    let with = |change: &dyn Fn(&mut FilterChainMatch)| {
        let mut matching = names(&["a.example.com"]);
        change(&mut matching);
        matching
    };
    let changes: [&dyn Fn(&mut FilterChainMatch); 5] = [
        &|_| {},
        &|m| m.destination_port = Some(8443),
        &|m| m.transport_protocol = "tls".to_owned(),
        &|m| m.application_protocols = vec!["h2".to_owned(), "http/1.1".to_owned()],
        &|m| m.source_ports = vec![1, 2],
    ];
    for change in changes {
        assert_eq!(chains.take(Some(&mut with(change))), Ok(Vec::new()));
        assert!(chains.take(Some(&mut with(change))).is_err());
    }
    // One of the protocols is taken already.
    let mut one = with(&|m| m.application_protocols = vec!["h2".to_owned()]);
    assert!(chains.take(Some(&mut one)).is_err());
}

#[test]
fn ranges_are_compared_by_what_they_hold() {
    let mut chains = Chains::default();
    assert_eq!(chains.take(Some(&mut range("10.1.2.3", 8))), Ok(Vec::new()));
    assert!(chains.take(Some(&mut range("10.9.9.9", 8))).is_err());
    assert_eq!(
        chains.take(Some(&mut range("10.1.2.3", 16))),
        Ok(Vec::new())
    );
    assert_eq!(
        chains.take(Some(&mut range("10.1.2.3", 32))),
        Ok(Vec::new())
    );
    // Envoy cuts what is too long.
    assert!(chains.take(Some(&mut range("10.1.2.3", 33))).is_err());
    assert!(chains.take(Some(&mut range("10.1.2", 8))).is_err());
}
