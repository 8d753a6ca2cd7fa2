//! What users have is far from every limit.

use std::fmt::Write;

use crate::limits::hostile::{everybody, list, object};
use crate::limits::measured::Measured;

#[test]
fn a_host_with_5000_routes_is_served() {
    let routes = list(5000, |at| {
        format!(
            "{{match: [{{uri: {{prefix: /team/{at}}}}}], timeout: 3s, headers: {{request: {{set: {{x-team: t{at}}}}}}}, \
             route: [{{destination: {{host: cart}}}}]}}"
        )
    });
    let spec = format!("{{hosts: [cart], http: {routes}}}");
    let measured = Measured::new(&(everybody() + &object("VirtualService", "rule", &spec)));
    assert_eq!(measured.exceeded, []);
    let host = measured.virtual_host("80", "cart.shop.svc.cluster.local");
    assert_eq!(host.unwrap()["routes"].as_array().map(Vec::len), Some(5000));
}

#[test]
fn a_gateway_with_many_hosts_is_served() {
    let mut yaml = everybody();
    for at in 0..1000 {
        let spec = format!(
            "{{hosts: [h{at}.example.com], gateways: [edge], http: [{{route: [{{destination: {{host: cart}}}}]}}]}}"
        );
        yaml += &object("VirtualService", &format!("r{at}"), &spec);
    }
    let hosts = list(10_000, |at| format!("all{at}.example.com"));
    let spec = format!(
        "{{hosts: {hosts}, gateways: [edge], http: [{{route: [{{destination: {{host: cart}}}}]}}]}}"
    );
    let measured = Measured::new(&(yaml + &object("VirtualService", "all", &spec)));
    assert_eq!(measured.exceeded, []);
    let set = measured.world.set(&measured.gateway, xds::TypeUrl::Route);
    let config = testkit::decode(
        xds::TypeUrl::Route.as_str(),
        &set.get("http.8080").unwrap().body,
    );
    let hosts = config["virtual_hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 1001);
}

#[test]
fn a_delegate_with_2000_routes_under_many_prefixes_is_served() {
    let root = list(20, |at| format!("{{uri: {{prefix: /v{at}}}}}"));
    let mut leaf = String::from("{http: [");
    for at in 0..2000 {
        let _ = write!(
            leaf,
            "{{match: [{{uri: {{prefix: /v{}/{at}}}}}], route: [{{destination: {{host: cart}}}}]}}, ",
            at % 20
        );
    }
    leaf += "]}";
    let root = format!("{{hosts: [cart], http: [{{match: {root}, delegate: {{name: leaf}}}}]}}");
    let yaml = everybody()
        + &object("VirtualService", "rule", &root)
        + &object("VirtualService", "leaf", &leaf);
    let measured = Measured::new(&yaml);
    assert_eq!(measured.exceeded, []);
    // `/v1` covers `/v10/...` too.
    let host = measured.virtual_host("80", "cart.shop.svc.cluster.local");
    assert!(host.unwrap()["routes"].as_array().unwrap().len() >= 2000);
}

#[test]
fn a_policy_with_thousands_of_addresses_is_enforced() {
    let blocks = list(5000, |at| format!("10.{}.{}.0/24", at / 256, at % 256));
    let sources = list(20, |at| format!("{{source: {{namespaces: [n{at}]}}}}"));
    let spec = format!(
        "{{action: DENY, rules: [{{from: [{{source: {{ipBlocks: {blocks}}}}}]}}, {{from: {sources}, when: [{{key: source.ip, values: {blocks}}}]}}]}}"
    );
    let yaml = everybody() + &object("AuthorizationPolicy", "p", &spec);
    assert_eq!(Measured::new(&yaml).exceeded, []);
}
