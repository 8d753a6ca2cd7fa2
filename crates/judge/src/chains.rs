//! Which connections filter chains take: no two of a listener may take the same.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;
use proto_envoy::envoy::config::core::v3::CidrRange;
use proto_envoy::envoy::config::listener::v3::FilterChainMatch;

use crate::fault::Fault;

/// A chain takes at most so many kinds of connections.
const MOST: usize = 1 << 20;

/// The connections that chains of a listener have taken, the first that wants some gets them.
#[derive(Debug, Default)]
pub struct Chains {
    taken: HashSet<String, foldhash::fast::RandomState>,
}

impl Chains {
    /// Takes connections for a chain: `matching` loses the server names that Envoy refuses, or that another chain has, and what
    /// stands twice in a list, as Envoy refuses a chain that takes the same connections by two of its entries.
    ///
    /// # Errors
    ///
    /// When nothing is left of it, or another chain takes the same connections.
    pub fn take(&mut self, matching: Option<&mut FilterChainMatch>) -> Result<Vec<Fault>, Fault> {
        let Some(matching) = matching else {
            return match self
                .taken
                .insert(key(&FilterChainMatch::default(), "", ["", "", "", ""]))
            {
                true => Ok(Vec::new()),
                false => Err(Fault::new("another filter chain takes every connection")),
            };
        };
        without_repeats(matching)?;
        let mut kinds: usize = 1;
        let lists = [
            matching.prefix_ranges.len(),
            matching.source_prefix_ranges.len(),
            matching.application_protocols.len(),
            matching.source_ports.len(),
            matching.server_names.len(),
        ];
        for length in lists {
            kinds = kinds.saturating_mul(length.max(1));
        }
        if kinds > MOST {
            return Err(Fault::new(format!(
                "takes {kinds} kinds of connections, more than {MOST}"
            )));
        }
        let others = others(matching);
        let mut found = Vec::new();
        if matching.server_names.is_empty() {
            return self.take_name(matching, "", &others).map(|()| found);
        }
        let names = std::mem::take(&mut matching.server_names);
        let mut kept = Vec::with_capacity(names.len());
        for name in names {
            let lower = name.to_ascii_lowercase();
            let sound = server_name(&lower)
                .and_then(|()| self.take_name(matching, &lower, &others))
                .map_err(|fault| fault.within("server_names"));
            match sound {
                Ok(()) => kept.push(name),
                Err(fault) => found.push(fault),
            }
        }
        matching.server_names = kept;
        match (matching.server_names.is_empty(), found.pop()) {
            // A chain without names would take every connection.
            (true, Some(last)) => Err(last),
            (_, last) => {
                found.extend(last);
                Ok(found)
            }
        }
    }

    fn take_name(
        &mut self,
        matching: &FilterChainMatch,
        name: &str,
        others: &[[String; 4]],
    ) -> Result<(), Fault> {
        let keys: Vec<String> = others
            .iter()
            .map(|[to, from, alpn, port]| key(matching, name, [to, from, alpn, port]))
            .collect();
        if keys.iter().any(|key| self.taken.contains(key)) {
            return Err(Fault::new(match name {
                "" => "another filter chain takes the same connections".to_owned(),
                name => format!("another filter chain takes the connections for {name:?}"),
            }));
        }
        self.taken.extend(keys);
        Ok(())
    }
}

/// A name, or one below a whole label that may be any.
fn server_name(name: &str) -> Result<(), Fault> {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    match name.is_empty() || rest.contains('*') {
        true => Err(Fault::new(format!(
            "{name:?}: a wildcard stands for whole labels at the start"
        ))),
        false => Ok(()),
    }
}

/// Leaves the first of entries that mean the same: ranges that differ in host bits or spelling only, equal ports and protocols.
///
/// # Errors
///
/// When a range is none.
fn without_repeats(matching: &mut FilterChainMatch) -> Result<(), Fault> {
    for ranges in [
        &mut matching.prefix_ranges,
        &mut matching.source_prefix_ranges,
    ] {
        let networks: Vec<IpNet> = ranges.iter().map(network).collect::<Result<_, _>>()?;
        let mut networks = networks.into_iter();
        let mut seen = HashSet::with_capacity(ranges.len());
        ranges.retain(|_| networks.next().is_some_and(|network| seen.insert(network)));
    }
    let mut ports = HashSet::new();
    matching.source_ports.retain(|port| ports.insert(*port));
    let mut protocols = HashSet::new();
    let protocols_of = &mut matching.application_protocols;
    protocols_of.retain(|protocol| protocols.insert(protocol.clone()));
    Ok(())
}

/// Every combination of what lists say beside server names.
fn others(matching: &FilterChainMatch) -> Vec<[String; 4]> {
    let or_any = |list: Vec<String>| match list.is_empty() {
        true => vec![String::new()],
        false => list,
    };
    let networks = |ranges: &[CidrRange]| {
        let networks = ranges.iter().filter_map(|range| network(range).ok());
        or_any(networks.map(|network| network.to_string()).collect())
    };
    let to = networks(&matching.prefix_ranges);
    let from = networks(&matching.source_prefix_ranges);
    let alpn = or_any(matching.application_protocols.clone());
    let ports = or_any(matching.source_ports.iter().map(u32::to_string).collect());
    let mut found = Vec::with_capacity(to.len() * from.len() * alpn.len() * ports.len());
    for to in &to {
        for from in &from {
            for alpn in &alpn {
                for port in &ports {
                    found.push([to.clone(), from.clone(), alpn.clone(), port.clone()]);
                }
            }
        }
    }
    found
}

fn network(range: &CidrRange) -> Result<IpNet, Fault> {
    let length = u8::try_from(range.prefix_len.unwrap_or(0)).unwrap_or(u8::MAX);
    let network = range.address_prefix.parse().ok().and_then(|address| {
        let longest = if IpAddr::is_ipv4(&address) { 32 } else { 128 };
        IpNet::new(address, length.min(longest)).ok()
    });
    match network {
        Some(network) => Ok(network.trunc()),
        None => Err(Fault::new(format!(
            "{:?} is not a range of addresses",
            range.address_prefix
        ))),
    }
}

/// One kind of connections.
fn key(matching: &FilterChainMatch, name: &str, others: [&str; 4]) -> String {
    let port = matching.destination_port.unwrap_or(0);
    let mut key = format!("{port}\n{name}\n{}\n", matching.transport_protocol);
    for other in others {
        key.push_str(other);
        key.push('\n');
    }
    // The source that is the same machine, or another one.
    write!(key, "{}", matching.source_type).expect("a String grows as needed");
    for direct in &matching.direct_source_prefix_ranges {
        write!(key, "\n{direct:?}").expect("a String grows as needed");
    }
    key
}
