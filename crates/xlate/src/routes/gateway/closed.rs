//! Routes that close what a section of the options wants and the proxy cannot do, before everything else of a virtual host.

use incr::Cx;
use mesh::edge::AskedOf;
use mesh::limits;
use policy::edge::options::Options;
use policy::edge::{Closed, closed_whole};
use proto_envoy::envoy::config::route::v3::Route;
use store::Snapshot;

use super::{GatewayConfigOf, GatewayPlanOf, Host};

/// What a gateway with these options closes.
pub(super) fn of(
    cx: &Cx<'_, Snapshot>,
    key: &GatewayConfigOf,
    options: Option<&Options>,
) -> Vec<Closed> {
    let servers = options.map(|options| &options.mcp_servers);
    let Some(servers) = servers.filter(|_| !key.client.can.runs_library()) else {
        return Vec::new();
    };
    // What annotations ask for is read only where it matters.
    let asked = (servers.enable && servers.enable_user_level_server)
        .then(|| cx.query(&AskedOf((*key.gateway).clone())));
    let asked = asked.as_deref().and_then(|asked| asked.as_ref());
    let entries = asked.iter().flat_map(|asked| &asked.entries);
    servers.closed(entries.map(|(_, entry)| entry))
}

/// Whether gateways close everything, because what they close would be copied too often.
pub(in crate::routes) fn closes_all(
    cx: &Cx<'_, Snapshot>,
    mut configs: impl Iterator<Item = GatewayConfigOf>,
) -> bool {
    configs.any(|config| cx.query(&GatewayPlanOf(config)).closes_all)
}

/// Whether the routes would be too many, once for each virtual host: then everything is closed.
pub(super) fn too_many(closed: &[Closed], hosts: &[Host]) -> bool {
    let of_route = limits::ROUTE_BYTES;
    let all: usize = closed.iter().map(|c| c.weight(of_route)).sum();
    if all.saturating_mul(hosts.len()) <= limits::COPIED_BYTES {
        return false;
    }
    let mut left = limits::COPIED_BYTES;
    let pairs = hosts.iter().flat_map(|host| {
        let of_host = closed.iter();
        of_host.map(|c| c.weight_in(&host.domains, of_route))
    });
    for weight in pairs {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return true,
        }
    }
    false
}

/// The routes of a virtual host.
pub(super) fn routes(closed: &[Closed], all: bool, domains: &[String]) -> Vec<Route> {
    match all {
        true => vec![closed_whole()],
        false => closed.iter().flat_map(|c| c.routes(domains)).collect(),
    }
}
