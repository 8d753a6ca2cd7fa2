//! Listeners that Envoy takes: a filter chain that it does not take refuses its connections.

use std::collections::BTreeSet;
use std::sync::Arc;

use judge::{Chains, Fault, judge};
use mesh::capabilities::name;
use mesh::cluster_names;
use model::diagnostic::Diagnostic;
use model::object::ObjectKey;
use policy::filters;
use prost::{Message, Name};
use proto_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use xds::{Resource, any};

use super::finding;

/// A listener of a gRPC library, as it is: gRPC's form breaks Envoy's rules, since its connection managers have no statistics. What
/// configuration says in one is judged by itself before.
pub(crate) fn grpc_listener(listener: &Listener) -> Resource {
    Resource::encode(listener.name.as_str(), listener)
}

/// The listener as a resource, with what was found of it before; `None` where nothing is left of it that Envoy takes. `whose` says
/// which object the filter chain at a place was made from, and is asked only of what is wrong.
pub(crate) fn listener(
    mut listener: Listener,
    mut found: Vec<Diagnostic>,
    whose: &dyn Fn(usize) -> Option<ObjectKey>,
) -> Option<Arc<Resource>> {
    let of = listener.name.clone();
    let mut tell = |at: usize, effect: &str, fault: &Fault| {
        let effect = format!("listener {of}: {effect}");
        found.push(finding(whose(at), &effect, fault));
    };
    let has_chains = !listener.filter_chains.is_empty();
    let mut taken = Chains::default();
    let mut places = 0..;
    // The places of those that were left out.
    let mut gone = BTreeSet::new();
    listener.filter_chains.retain_mut(|chain| {
        let at = places.next().unwrap_or_default();
        match taken.take(chain.filter_chain_match.as_mut()) {
            Ok(left_out) => {
                for fault in left_out {
                    tell(at, "a server name is left out", &fault);
                }
                true
            }
            Err(fault) => {
                tell(at, "a filter chain is left out", &fault);
                gone.insert(at);
                false
            }
        }
    });
    if has_chains && listener.filter_chains.is_empty() && listener.default_filter_chain.is_none() {
        return None;
    }
    let mut bytes = listener.encode_to_vec();
    if judge(&Listener::full_name(), &bytes).is_err() {
        let mut left = (0..).filter(|at| !gone.contains(at));
        let mut is_kept = |chain: &mut FilterChain| {
            let at = left.next().unwrap_or_default();
            let Err(fault) = judged(chain) else {
                return true;
            };
            let matched = chain.filter_chain_match.as_ref();
            if matched.is_some_and(|matched| judged(matched).is_err()) {
                tell(at, "a filter chain is left out", &fault);
                return false;
            }
            tell(at, "the connections of a filter chain are closed", &fault);
            close(chain);
            true
        };
        listener.filter_chains.retain_mut(&mut is_kept);
        if let Some(chain) = &mut listener.default_filter_chain {
            is_kept(chain);
        }
        if has_chains && listener.filter_chains.is_empty() {
            return None;
        }
        bytes = listener.encode_to_vec();
        if let Err(fault) = judge(&Listener::full_name(), &bytes) {
            tell(0, "all its connections are closed", &fault);
            bytes = closed(&listener)?.encode_to_vec();
            judge(&Listener::full_name(), &bytes).ok()?;
        }
    }
    let resource = Resource::from_bytes(listener.name.as_str(), bytes.into());
    Some(Arc::new(resource.finding(found)))
}

fn judged<M: Message + Name>(message: &M) -> Result<(), Fault> {
    judge(&M::full_name(), &message.encode_to_vec())
}

/// A listener that closes every connection; `None` for one that takes no TCP.
fn closed(listener: &Listener) -> Option<Listener> {
    if listener.udp_listener_config.is_some() {
        return None;
    }
    let mut chain = FilterChain::default();
    close(&mut chain);
    Some(Listener {
        name: listener.name.clone(),
        address: listener.address.clone(),
        additional_addresses: listener.additional_addresses.clone(),
        listener_specifier: listener.listener_specifier,
        bind_to_port: listener.bind_to_port,
        transparent: listener.transparent,
        use_original_dst: listener.use_original_dst,
        traffic_direction: listener.traffic_direction,
        filter_chains: vec![chain],
        ..Listener::default()
    })
}

/// A chain that closes the connections it takes.
fn close(chain: &mut FilterChain) {
    let closes = TcpProxy {
        stat_prefix: cluster_names::BLACK_HOLE.to_owned(),
        cluster_specifier: Some(ClusterSpecifier::Cluster(
            cluster_names::BLACK_HOLE.to_owned(),
        )),
        ..TcpProxy::default()
    };
    *chain = FilterChain {
        filter_chain_match: chain.filter_chain_match.take(),
        filters: vec![filters::network(name::TCP_PROXY, any(&closes))],
        name: std::mem::take(&mut chain.name),
        ..FilterChain::default()
    };
}
