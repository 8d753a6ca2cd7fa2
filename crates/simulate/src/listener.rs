//! Which listener a connection comes to, and what its listener filters find out.

use std::net::IpAddr;

use proto_envoy::envoy::config::core::v3::address::Address as Form;
use proto_envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use proto_envoy::envoy::config::core::v3::{Address, SocketAddress, TrafficDirection};
use proto_envoy::envoy::config::listener::v3::listener_filter_chain_match_predicate::Rule;
use proto_envoy::envoy::config::listener::v3::{Listener, ListenerFilterChainMatchPredicate};

use crate::call::{Call, Entry};

const INBOUND: &str = "virtualInbound";
const OUTBOUND: &str = "virtualOutbound";

/// The listener of a call: of its address, of every address at its port, or the one that takes what is redirected.
pub(crate) fn find<'a>(listeners: &'a [Listener], call: &Call) -> Option<&'a Listener> {
    let named = |name: &str| listeners.iter().find(|l| l.name == name);
    let is_inbound = |l: &&Listener| l.traffic_direction() == TrafficDirection::Inbound;
    if call.entry == Entry::Inbound {
        return named(INBOUND).or_else(|| inbound(listeners.iter().filter(is_inbound), call));
    }
    let at = |wanted: &dyn Fn(IpAddr) -> bool| {
        listeners
            .iter()
            .find(|l| addresses(l).any(|(address, port)| port == call.port && wanted(address)))
    };
    // Whoever does not say an address means one that the proxy is bound to for what its workload sends.
    let bound = || {
        let of_port = |l: &&Listener| addresses(l).any(|(_, port)| port == call.port);
        let bound = listeners.iter().filter(|l| l.bind_to_port != Some(false));
        let outbound = bound.filter(|l| !is_inbound(l));
        outbound.filter(|_| call.address.is_none()).find(of_port)
    };
    at(&|address| Some(address) == call.address)
        .or_else(|| at(&|address| address.is_unspecified()))
        .or_else(bound)
        .or_else(|| named(OUTBOUND))
}

/// The listener that takes a call to the workload where nothing is redirected: each port has one of its own.
fn inbound<'a>(
    inbound: impl Iterator<Item = &'a Listener> + Clone,
    call: &Call,
) -> Option<&'a Listener> {
    let at = |wanted: &dyn Fn(IpAddr) -> bool| {
        let is = |l: &&Listener| addresses(l).any(|(a, port)| port == call.port && wanted(a));
        inbound.clone().find(is)
    };
    match call.address {
        Some(stated) => at(&|address| address == stated).or_else(|| at(&|a| a.is_unspecified())),
        None => at(&|_| true),
    }
}

/// Where a listener listens.
pub(crate) fn addresses(listener: &Listener) -> impl Iterator<Item = (IpAddr, u16)> {
    let more = listener.additional_addresses.iter();
    let more = more.filter_map(|a| a.address.as_ref());
    listener.address.iter().chain(more).filter_map(socket)
}

/// The IP address and port of an address.
pub(crate) fn socket(address: &Address) -> Option<(IpAddr, u16)> {
    let Some(Form::SocketAddress(SocketAddress {
        address,
        port_specifier: Some(PortSpecifier::PortValue(port)),
        ..
    })) = &address.address
    else {
        return None;
    };
    Some((address.parse().ok()?, u16::try_from(*port).ok()?))
}

/// Whether a listener filter of that name looks at connections to a port.
pub(crate) fn inspects(listener: &Listener, filter: &str, port: u16) -> bool {
    let filters = listener.listener_filters.iter();
    let mut of_name = filters.filter(|f| f.name == filter);
    of_name.any(|f| f.filter_disabled.as_ref().is_none_or(|d| !holds(d, port)))
}

fn holds(predicate: &ListenerFilterChainMatchPredicate, port: u16) -> bool {
    match &predicate.rule {
        Some(Rule::OrMatch(set)) => set.rules.iter().any(|r| holds(r, port)),
        Some(Rule::AndMatch(set)) => set.rules.iter().all(|r| holds(r, port)),
        Some(Rule::NotMatch(rule)) => !holds(rule, port),
        Some(Rule::AnyMatch(any)) => *any,
        Some(Rule::DestinationPortRange(range)) => {
            (range.start..range.end).contains(&i32::from(port))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str, address: &str, direction: TrafficDirection) -> Listener {
        let socket = SocketAddress {
            address: address.to_owned(),
            port_specifier: Some(PortSpecifier::PortValue(9080)),
            ..SocketAddress::default()
        };
        Listener {
            name: name.to_owned(),
            address: Some(Address {
                address: Some(Form::SocketAddress(socket)),
            }),
            traffic_direction: direction.into(),
            ..Listener::default()
        }
    }

    #[test]
    fn without_redirection_a_port_of_the_workload_is_not_one_of_a_service() {
        let listeners = [
            listener("own", "127.0.20.10", TrafficDirection::Inbound),
            listener("service", "127.0.21.10", TrafficDirection::Outbound),
        ];
        let found = |entry, address: Option<&str>| {
            let call = Call {
                entry,
                address: address.and_then(|a| a.parse().ok()),
                port: 9080,
                ..Call::default()
            };
            find(&listeners, &call).map(|listener| listener.name.as_str())
        };
        assert_eq!(found(Entry::Outbound, None), Some("service"));
        assert_eq!(
            found(Entry::Outbound, Some("127.0.20.10")),
            Some("own"),
            "it is bound there"
        );
        assert_eq!(found(Entry::Inbound, None), Some("own"));
        assert_eq!(found(Entry::Inbound, Some("127.0.20.10")), Some("own"));
        assert_eq!(found(Entry::Inbound, Some("127.0.21.10")), None);
    }
}
