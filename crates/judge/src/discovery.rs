//! How a cluster finds its endpoints, and what it may hold beside that.

use std::net::IpAddr;

use crate::check::shown;
use crate::fault::Fault;
use crate::whole::bytes_of;
use crate::wire::{Fields, Value};

// Fields of `envoy.config.cluster.v3.Cluster`.
const TYPE: u32 = 2;
const EDS_CONFIG: u32 = 3;
const POLICY: u32 = 6;
const ENDPOINTS: u32 = 33;
const ORIGINAL_DST: u32 = 34;
const CUSTOM_TYPE: u32 = 38;
const TYPED_POLICY: u32 = 41;

/// The policy of clusters that choose endpoints themselves.
const CLUSTER_PROVIDED: u64 = 6;

/// A type of cluster discovery for which Envoy's code has requirements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Discovery {
    Static,
    StrictDns,
    LogicalDns,
    Eds,
    OriginalDst,
}

impl Discovery {
    /// The way that a cluster has; `None` where it is another one. What is written last counts.
    fn of(cluster: &[u8]) -> Result<Option<Self>, Fault> {
        let mut found = Some(Self::Static);
        for field in Fields::of(cluster) {
            match field? {
                (TYPE, Value::Varint(number)) => found = Self::numbered(number),
                (CUSTOM_TYPE, Value::Bytes(custom)) => found = Self::custom(custom),
                _ => {}
            }
        }
        Ok(found)
    }

    fn numbered(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Static,
            1 => Self::StrictDns,
            2 => Self::LogicalDns,
            3 => Self::Eds,
            4 => Self::OriginalDst,
            _ => return None,
        })
    }

    /// A way that is named, by the type of its configuration first.
    fn custom(custom: &[u8]) -> Option<Self> {
        const DNS: &[u8] = b"/envoy.extensions.clusters.dns.v3.DnsCluster";
        const ONE_ENDPOINT: u32 = 9;
        let config = bytes_of(custom, 2).unwrap_or_default();
        if bytes_of(config, 1).is_some_and(|url| url.ends_with(DNS)) {
            let dns = Fields::of(bytes_of(config, 2).unwrap_or_default());
            let stated = dns.filter_map(|field| match field {
                Ok((ONE_ENDPOINT, Value::Varint(stated))) => Some(stated != 0),
                _ => None,
            });
            return Some(match stated.last() {
                Some(true) => Self::LogicalDns,
                _ => Self::StrictDns,
            });
        }
        Some(match bytes_of(custom, 1)? {
            b"envoy.cluster.static" => Self::Static,
            b"envoy.cluster.strict_dns" => Self::StrictDns,
            b"envoy.cluster.logical_dns" => Self::LogicalDns,
            b"envoy.cluster.eds" => Self::Eds,
            b"envoy.cluster.original_dst" => Self::OriginalDst,
            _ => return None,
        })
    }
}

/// A cluster holds what its way to find endpoints needs, and nothing that this way does not know.
pub(crate) fn check(cluster: &[u8]) -> Result<(), Fault> {
    let Some(discovery) = Discovery::of(cluster)? else {
        return Ok(());
    };
    policy(discovery, cluster)?;
    let assignment = bytes_of(cluster, ENDPOINTS);
    match discovery {
        Discovery::Eds if bytes_of(cluster, EDS_CONFIG).is_none() => {
            return Err(Fault::new("is missing").within("eds_cluster_config"));
        }
        Discovery::OriginalDst => original(cluster)?,
        Discovery::LogicalDns => one_endpoint(assignment.unwrap_or_default())?,
        Discovery::Static | Discovery::StrictDns | Discovery::Eds => {}
    }
    if discovery != Discovery::Eds && bytes_of(cluster, EDS_CONFIG).is_some() {
        let why = "is stated for a cluster that does not use EDS";
        return Err(Fault::new(why).within("eds_cluster_config"));
    }
    match assignment {
        Some(assignment) => {
            addresses(discovery, assignment).map_err(|fault| fault.within("load_assignment"))
        }
        None => Ok(()),
    }
}

/// Clusters that take connections to where they went from the start choose endpoints themselves, and no others do.
fn policy(discovery: Discovery, cluster: &[u8]) -> Result<(), Fault> {
    let stated = Fields::of(cluster).filter_map(|field| match field {
        Ok((POLICY, Value::Varint(policy))) => Some(policy),
        _ => None,
    });
    let is_provided = stated.last() == Some(CLUSTER_PROVIDED);
    let is_typed = bytes_of(cluster, TYPED_POLICY).is_some();
    let why = match (discovery, is_provided) {
        (Discovery::OriginalDst, false) => "is not CLUSTER_PROVIDED, and the type is ORIGINAL_DST",
        (Discovery::OriginalDst, true) | (_, false) => return Ok(()),
        (_, true) if is_typed => return Ok(()),
        (_, true) => "is CLUSTER_PROVIDED, and the type is not ORIGINAL_DST",
    };
    Err(Fault::new(why).within("lb_policy"))
}

/// What Envoy asks of a cluster that takes connections to where they went from the start.
fn original(cluster: &[u8]) -> Result<(), Fault> {
    if bytes_of(cluster, ENDPOINTS).is_some() {
        let why = "is stated for a cluster of the type ORIGINAL_DST";
        return Err(Fault::new(why).within("load_assignment"));
    }
    let config = bytes_of(cluster, ORIGINAL_DST).unwrap_or_default();
    let uses_header = Fields::of(config).filter_map(|field| match field {
        Ok((1, Value::Varint(uses))) => Some(uses != 0),
        _ => None,
    });
    let has_name = bytes_of(config, 2).is_some_and(|name| !name.is_empty());
    if has_name && uses_header.last() != Some(true) {
        let why = "is stated without `use_http_header`";
        let fault = Fault::new(why).within("http_header_name");
        return Err(fault.within("original_dst_lb_config"));
    }
    Ok(())
}

/// The localities of an assignment.
fn localities(assignment: &[u8]) -> impl Iterator<Item = &[u8]> {
    items(assignment, 2)
}

/// The messages of a repeated field.
fn items(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    Fields::of(message).filter_map(move |field| match field {
        Ok((at, Value::Bytes(item))) if at == number => Some(item),
        _ => None,
    })
}

/// A cluster with LOGICAL_DNS has one locality with one endpoint.
fn one_endpoint(assignment: &[u8]) -> Result<(), Fault> {
    let places = localities(assignment).count();
    let endpoints: usize = localities(assignment).map(|at| items(at, 2).count()).sum();
    if (places, endpoints) == (1, 1) {
        return Ok(());
    }
    let why = format!(
        "has {endpoints} endpoints in {places} localities, and a cluster with LOGICAL_DNS has one endpoint in one"
    );
    Err(Fault::new(why).within("load_assignment"))
}

/// Names are resolved where the cluster does that, and by its resolver.
fn addresses(discovery: Discovery, assignment: &[u8]) -> Result<(), Fault> {
    const FROM_ELSEWHERE: u32 = 8;
    // What an EDS cluster states beside its configuration is not read.
    let named = match discovery {
        Discovery::Static => false,
        Discovery::StrictDns | Discovery::LogicalDns => true,
        Discovery::Eds | Discovery::OriginalDst => return Ok(()),
    };
    for locality in localities(assignment) {
        if !named && bytes_of(locality, FROM_ELSEWHERE).is_some() {
            let why = "is stated for a cluster that does not use EDS";
            let fault = Fault::new(why).within("leds_cluster_locality_config");
            return Err(fault.within("endpoints"));
        }
        let endpoints = items(locality, 2).filter_map(|item| bytes_of(item, 1));
        let addresses = endpoints.filter_map(|endpoint| bytes_of(endpoint, 1));
        for socket in addresses.filter_map(|address| bytes_of(address, 1)) {
            self::socket(named, socket).map_err(|fault| {
                let fault = fault.within("socket_address").within("address");
                let fault = fault.within("endpoint").within("lb_endpoints");
                fault.within("endpoints")
            })?;
        }
    }
    Ok(())
}

/// The address of an endpoint that is stated in a cluster.
fn socket(named: bool, socket: &[u8]) -> Result<(), Fault> {
    let resolver = bytes_of(socket, 5).unwrap_or_default();
    if named {
        return match resolver.is_empty() {
            true => Ok(()),
            false => Err(Fault::new("is stated beside DNS").within("resolver_name")),
        };
    }
    let address = bytes_of(socket, 2).unwrap_or_default();
    let is_ip = str::from_utf8(address).is_ok_and(|text| text.parse::<IpAddr>().is_ok());
    if resolver.is_empty() && !is_ip {
        let why = format!("{} is not an IP address", shown(address));
        return Err(Fault::new(why).within("address"));
    }
    Ok(())
}
