//! Any bytes as an encoded resource of each type: no panic, and what prost cannot read is refused or has no rule.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use proto_envoy::envoy::config::listener::v3::FilterChainMatch;

const TYPES: [&str; 5] = [
    "envoy.config.route.v3.RouteConfiguration",
    "envoy.config.route.v3.Route",
    "envoy.config.listener.v3.Listener",
    "envoy.config.cluster.v3.Cluster",
    "envoy.config.endpoint.v3.ClusterLoadAssignment",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((ty, message)) = bytes.split_first() else {
        return;
    };
    let name = TYPES[usize::from(*ty) % TYPES.len()];
    if let Err(fault) = judge::judge(name, message) {
        assert!(!fault.to_string().is_empty());
    }
    if let Ok(mut matching) = FilterChainMatch::decode(message) {
        let mut chains = judge::Chains::default();
        let mut again = matching.clone();
        if chains.take(Some(&mut matching)).is_ok() {
            assert!(chains.take(Some(&mut again)).is_err());
        }
    }
});
