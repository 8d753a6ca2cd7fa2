//! What servers of Gateways are, as istiod has it, where the recordings are at hand.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use pilothouse_mesh::gateways::{is_http, is_passthrough, is_tls, terminates_https};
use proto_istio::networking::Server;
use serde_json::json;
use testkit::{Score, cases, differences};

type Predicate = fn(&Server) -> bool;

#[test]
fn servers_are_told_apart_as_recorded() {
    let functions: [(&str, Predicate); 6] = [
        ("IsTLSServer", is_tls),
        ("IsHTTPServer", is_http),
        ("IsHTTPSServerWithTLSTermination", terminates_https),
        ("IsPassThroughServer", is_passthrough),
        ("IsTCPServerWithTLSTermination", |server| {
            is_tls(server) && !is_http(server) && !is_passthrough(server)
        }),
        // Recorded with QUIC listeners switched on.
        ("IsEligibleForHTTP3Upgrade", terminates_https),
    ];
    let mut score = Score::default();
    for (name, function) in functions {
        for case in cases("gateway-server-predicates", &format!("gateway.{name}")) {
            let server: Server = serde_json::from_value(case["in"]["server"].clone()).unwrap();
            score.count(
                &format!("{name} {server:?}"),
                &differences(&case["out"], &json!(function(&server))),
            );
        }
    }
    score.all_as_recorded();
}
