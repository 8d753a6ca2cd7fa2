//! Patches of clusters.
//!
//! Istio: pilot/pkg/networking/core/envoyfilter/cluster_patch.go, 1.32.

use model::diagnostic::Diagnostic;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::core::v3::{TransportSocket, transport_socket::ConfigType};
use proto_istio::networking::envoy_filter::patch::Operation;

use super::Context;
use super::merge::{NoMerge, merge, merge_any};
use super::patch::{Patch, Patches};

/// The cluster as the patches leave it; `None` where one of them takes it out. Inbound clusters are matched by `hosts`,
/// the services of their port.
pub fn apply(
    patches: &Patches<Cluster>,
    context: Context,
    mut cluster: Cluster,
    hosts: &[&str],
    found: &mut Vec<Diagnostic>,
) -> Option<Cluster> {
    if patches.is_empty() {
        return Some(cluster);
    }
    let name = cluster.name.clone();
    for patch in patches.iter() {
        if !patch.is_for(context) || !matches(patch, &name, hosts) {
            continue;
        }
        if patch.operation == Operation::Remove {
            return None;
        }
        let Some(lists) = patch.lists() else {
            continue;
        };
        match merge_socket(&mut cluster, &patch.value) {
            Ok(true) => {}
            Ok(false) => merge(&mut cluster, &patch.value, lists),
            Err(why) => patch.misfit(found, &cluster.name, &why),
        }
        if cluster.name != name {
            patch.misfit(found, &name, &NoMerge::Renamed);
            cluster.name.clone_from(&name);
        }
    }
    Some(cluster)
}

/// The clusters that are added to a side of a proxy.
pub fn added(patches: &Patches<Cluster>, context: Context) -> impl Iterator<Item = &Cluster> {
    patches.iter().filter_map(move |patch| {
        (patch.operation == Operation::Add && adds_to(patch.context, context))
            .then_some(&patch.value)
    })
}

/// Whether something for which no side is stated is added to this one: once to each proxy.
pub(super) fn adds_to(stated: Context, context: Context) -> bool {
    match stated {
        Context::Any => matches!(context, Context::SidecarOutbound | Context::Gateway),
        stated => stated == context,
    }
}

/// Whether the patch has a transport socket, and is done with that.
fn merge_socket(cluster: &mut Cluster, patch: &Cluster) -> Result<bool, NoMerge> {
    let Some(socket) = &patch.transport_socket else {
        return Ok(false);
    };
    if !cluster.transport_socket_matches.is_empty() {
        // Beside these a socket of its own would make the cluster invalid.
        let mut sockets = cluster
            .transport_socket_matches
            .iter_mut()
            .filter_map(|m| m.transport_socket.as_mut());
        if let Some(there) = sockets.find(|s| s.name == socket.name) {
            merge_config(there, socket)?;
        }
        return Ok(true);
    }
    match &mut cluster.transport_socket {
        Some(there) if there.name == socket.name => merge_config(there, socket)?,
        there => *there = Some(socket.clone()),
    }
    Ok(true)
}

/// Merges the configuration of one transport socket into that of another of the same name.
pub(super) fn merge_config(
    there: &mut TransportSocket,
    patch: &TransportSocket,
) -> Result<(), NoMerge> {
    match (&mut there.config_type, &patch.config_type) {
        (Some(ConfigType::TypedConfig(there)), Some(ConfigType::TypedConfig(patch))) => {
            merge_any(there, patch)
        }
        _ => Ok(()),
    }
}

pub(super) fn matches(patch: &Patch<Cluster>, name: &str, hosts: &[&str]) -> bool {
    let Some(wanted) = patch.cluster() else {
        return true;
    };
    if !wanted.name.is_empty() {
        return wanted.name == name;
    }
    let parts = ClusterName::of(name);
    let is_of = |host: &str| {
        if parts.direction == "inbound" && !hosts.is_empty() {
            hosts.contains(&host)
        } else {
            parts.host == host
        }
    };
    (wanted.subset.is_empty() || wanted.subset == parts.subset)
        && (wanted.service.is_empty() || is_of(&wanted.service))
        && (wanted.port_number == 0 || Some(wanted.port_number) == parts.port)
}

/// The parts of a cluster's name: `direction|port|subset|host`, or with `_.` between them.
#[derive(Default)]
pub(super) struct ClusterName<'a> {
    direction: &'a str,
    pub(super) port: Option<u32>,
    subset: &'a str,
    host: &'a str,
}

impl<'a> ClusterName<'a> {
    /// Istio: pilot/pkg/model/service.go ParseSubsetKey, 1.32.
    pub(super) fn of(name: &'a str) -> Self {
        let separator = if name.starts_with("outbound_.") || name.starts_with("inbound_.") {
            "_."
        } else {
            "|"
        };
        let mut split = name.split(separator);
        let (Some(direction), Some(port)) = (split.next(), split.next()) else {
            return Self::default();
        };
        let mut parts = Self {
            direction,
            ..Self::default()
        };
        let mut rest = split.peekable();
        if rest.peek().is_none() {
            return parts;
        }
        parts.port = port.parse().ok();
        let (Some(subset), Some(host)) = (rest.next(), rest.next()) else {
            return parts;
        };
        parts.subset = subset;
        if rest.next().is_none() {
            parts.host = host;
        }
        parts
    }
}
