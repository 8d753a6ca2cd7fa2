//! Which filter chain of a listener takes a connection.
//!
//! Envoy's sieve: at each step only the chains that match best stay, and what a step has lost does not come back. See
//! `FilterChainMatch` in Envoy's listener API.

use std::net::IpAddr;

use ipnet::IpNet;
use proto_envoy::envoy::config::core::v3::CidrRange;
use proto_envoy::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};

use crate::call::{Call, Protocol, Tls};
use crate::listener::inspects;
use crate::walk::Refusal;

const TLS_INSPECTOR: &str = "envoy.filters.listener.tls_inspector";
const HTTP_INSPECTOR: &str = "envoy.filters.listener.http_inspector";

/// What a listener knows of a connection before it chooses a chain.
struct Known<'a> {
    address: Option<IpAddr>,
    port: u16,
    sni: &'a str,
    transport: &'static str,
    alpn: Vec<&'a str>,
}

impl<'a> Known<'a> {
    fn of(listener: &Listener, call: &'a Call) -> Self {
        let sees_tls = inspects(listener, TLS_INSPECTOR, call.port) && call.tls != Tls::None;
        let mut alpn = Vec::new();
        if sees_tls {
            alpn.extend(call.alpn.iter().map(String::as_str));
        }
        if call.tls == Tls::None && inspects(listener, HTTP_INSPECTOR, call.port) {
            match call.protocol {
                Protocol::Http1 => alpn.push("http/1.1"),
                Protocol::Http2 => alpn.push("h2c"),
                Protocol::Tcp => {}
            }
        }
        Self {
            address: call.address,
            port: call.port,
            sni: if sees_tls { &call.sni } else { "" },
            transport: if sees_tls { "tls" } else { "raw_buffer" },
            alpn,
        }
    }
}

/// The chain for a call.
pub(crate) fn find<'a>(listener: &'a Listener, call: &Call) -> Result<&'a FilterChain, Refusal> {
    let known = Known::of(listener, call);
    let chains: Vec<&FilterChain> = listener.filter_chains.iter().collect();
    let chains = sieve(chains, |m| {
        let port = m.destination_port?;
        Some((port == u32::from(known.port)).then_some(0))
    });
    let chains = sieve(chains, |m| {
        let ranges = &m.prefix_ranges;
        (!ranges.is_empty()).then(|| ranges.iter().filter_map(|r| length(r, known.address)).max())
    });
    let chains = sieve(chains, |m| {
        let names = &m.server_names;
        (!names.is_empty()).then(|| names.iter().filter_map(|n| closeness(n, known.sni)).max())
    });
    let chains = sieve(chains, |m| {
        let transport = &m.transport_protocol;
        (!transport.is_empty()).then(|| (transport == known.transport).then_some(0))
    });
    let chains = sieve(chains, |m| {
        let protocols = &m.application_protocols;
        let wanted = |name: &&str| protocols.iter().any(|p| p == name);
        // What the client wants most decides.
        (!protocols.is_empty()).then(|| known.alpn.iter().rev().position(wanted))
    });
    match chains.as_slice() {
        [chain] => Ok(chain),
        [] => listener
            .default_filter_chain
            .as_ref()
            .ok_or(Refusal::NoFilterChain),
        _ => Err(Refusal::SeveralFilterChains),
    }
}

/// Keeps the chains that match best. `rank` says nothing where a chain does not ask, and `Some(None)` where it does not
/// match.
fn sieve(
    chains: Vec<&FilterChain>,
    rank: impl Fn(&FilterChainMatch) -> Option<Option<usize>>,
) -> Vec<&FilterChain> {
    let rank = |c: &FilterChain| c.filter_chain_match.as_ref().and_then(&rank);
    let ranks: Vec<_> = chains.iter().map(|c| rank(c)).collect();
    let best = ranks.iter().copied().flatten().flatten().max();
    let keep = |rank: &Option<Option<usize>>| match best {
        Some(best) => *rank == Some(Some(best)),
        None => rank.is_none(),
    };
    let kept = chains.into_iter().zip(ranks);
    kept.filter(|(_, r)| keep(r)).map(|(c, _)| c).collect()
}

/// The length of a range's prefix, if it holds the address. An address that does not matter is in no range but the whole.
fn length(range: &CidrRange, address: Option<IpAddr>) -> Option<usize> {
    let bits = u8::try_from(range.prefix_len.unwrap_or(0)).ok()?;
    let net = IpNet::new(range.address_prefix.parse().ok()?, bits).ok()?;
    match address {
        Some(address) => net.contains(&address).then_some(usize::from(bits)),
        None => (bits == 0).then_some(0),
    }
}

/// How close a server name of a match is to the one that was sent; an exact one is closest.
fn closeness(name: &str, sni: &str) -> Option<usize> {
    if name.eq_ignore_ascii_case(sni) {
        return Some(usize::MAX);
    }
    let suffix = name.strip_prefix('*')?;
    let sni = sni.to_ascii_lowercase();
    (!sni.is_empty() && sni.ends_with(&suffix.to_ascii_lowercase())).then_some(name.len())
}
