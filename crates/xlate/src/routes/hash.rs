//! What consistent-hash load balancing hashes: a part of the DestinationRule that routes carry.
//!
//! Istio: pilot/pkg/networking/core/route/route.go ConsistentHashToHashPolicy and HashForHTTPDestination, 1.32.

use judge::{Fault, judge};
use prost::{Message, Name};
use proto_envoy::envoy::config::route::v3::route_action::HashPolicy;
use proto_envoy::envoy::config::route::v3::route_action::hash_policy::{
    ConnectionProperties, Cookie, CookieAttribute, Header, PolicySpecifier, QueryParameter,
};
use proto_istio::networking::load_balancer_settings::consistent_hash_lb::HashKey;
use proto_istio::networking::load_balancer_settings::{ConsistentHashLb, LbPolicy};
use proto_istio::networking::traffic_policy::PortTrafficPolicy;
use proto_istio::networking::{Destination, DestinationRule, LoadBalancerSettings, TrafficPolicy};

use mesh::limits::HASH_BYTES;

/// The consistent hash for a service's port.
pub(super) fn of_port(rule: &DestinationRule, port: u16) -> Option<&ConsistentHashLb> {
    let policy = rule.traffic_policy.as_ref();
    at_port(policy, u32::from(port)).or_else(|| at_any(policy))
}

/// The consistent hash for a destination: of its subset and port, its subset, its port, or the whole host.
pub(super) fn of_destination<'a>(
    rule: &'a DestinationRule,
    destination: &Destination,
) -> Option<&'a ConsistentHashLb> {
    let port = destination.port.as_ref().map(|p| p.number);
    let policy = rule.traffic_policy.as_ref();
    let subset = rule
        .subsets
        .iter()
        .find(|s| s.name == destination.subset)
        .and_then(|s| s.traffic_policy.as_ref());
    port.and_then(|port| at_port(subset, port))
        .or_else(|| at_any(subset))
        .or_else(|| port.and_then(|port| at_port(policy, port)))
        .or_else(|| at_any(policy))
}

fn at_any(policy: Option<&TrafficPolicy>) -> Option<&ConsistentHashLb> {
    consistent(policy?.load_balancer.as_ref()?)
}

fn at_port(policy: Option<&TrafficPolicy>, port: u32) -> Option<&ConsistentHashLb> {
    let stated = |p: &&PortTrafficPolicy| p.port.as_ref().map_or(0, |p| p.number) == port;
    let settings = policy?.port_level_settings.iter().find(stated)?;
    consistent(settings.load_balancer.as_ref()?)
}

fn consistent(balancer: &LoadBalancerSettings) -> Option<&ConsistentHashLb> {
    match balancer.lb_policy.as_ref()? {
        LbPolicy::ConsistentHash(hash) => Some(hash),
        LbPolicy::Simple(_) | LbPolicy::BackendUtilization(_) => None,
    }
}

/// What a route must say so that the cluster can hash; `None` where Envoy would refuse that, and the route with it, which may
/// be another's than the rule that says it.
pub(super) fn policy(hash: &ConsistentHashLb) -> Option<HashPolicy> {
    if hash.encoded_len() > HASH_BYTES {
        return None;
    }
    made(hash).filter(|policy| judged(policy).is_ok())
}

/// Why Envoy would refuse a route that hashes so.
pub(crate) fn fault(hash: &ConsistentHashLb) -> Option<Fault> {
    made(hash).and_then(|policy| judged(&policy).err())
}

fn judged(policy: &HashPolicy) -> Result<(), Fault> {
    judge(&HashPolicy::full_name(), &policy.encode_to_vec())
}

fn made(hash: &ConsistentHashLb) -> Option<HashPolicy> {
    let specifier = match hash.hash_key.as_ref()? {
        HashKey::HttpHeaderName(name) => PolicySpecifier::Header(Header {
            header_name: name.clone(),
            ..Header::default()
        }),
        HashKey::HttpCookie(cookie) => PolicySpecifier::Cookie(Cookie {
            name: cookie.name.clone(),
            ttl: cookie.ttl.map(Into::into),
            path: cookie.path.clone(),
            attributes: cookie
                .attributes
                .iter()
                .map(|a| CookieAttribute {
                    name: a.name.clone(),
                    value: a.value.clone(),
                })
                .collect(),
        }),
        HashKey::UseSourceIp(used) => {
            PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: *used })
        }
        HashKey::HttpQueryParameterName(name) => {
            PolicySpecifier::QueryParameter(QueryParameter { name: name.clone() })
        }
    };
    Some(HashPolicy {
        policy_specifier: Some(specifier),
        ..HashPolicy::default()
    })
}
