//! Every attack there is.

mod audit_log;
mod bodies;
mod certificates;
mod delegates;
mod dribble;
mod files;
mod headers;
mod hoard;
mod idle;
mod jwks;
mod labels;
mod modules;
mod names;
mod namespaces;
mod nodes;
mod partial;
mod patterns;
mod quiet_frames;
mod rebinding;
mod resets;
mod streams;
mod templates;
mod tls;
mod token;
mod views;
mod windows;

use std::io;

use crate::attack::Attack;
use crate::attack::Target;
use crate::peer::{Peer, Reads};
use crate::proto::{self, Request};
use crate::wire;

/// Every attack, by the order of the audit.
pub const ALL: &[Attack] = &[
    token::EMPTY_TOKEN,
    audit_log::AUDIT_BYPASS,
    names::NAMES_FLOOD,
    names::NAMES_HOARD,
    views::COLLIDING_VIEWS,
    partial::PARTIAL_MESSAGES,
    nodes::HUGE_NODES,
    nodes::NODES_HOARD,
    namespaces::INVENTED_NAMESPACES,
    streams::STREAM_FLOOD,
    dribble::DRIBBLE,
    idle::IDLE_CONNECTIONS,
    delegates::DELEGATE_BOMB,
    files::HIDDEN_FOLDER,
    files::FIFO,
    files::LINK,
    bodies::SILENT_TLS,
    bodies::ANONYMOUS_BODIES,
    jwks::JWKS_TARPIT,
    rebinding::REBINDING,
    labels::VERSION_LABELS,
    labels::NACK_LOGS,
    patterns::PATTERNS,
    quiet_frames::PING_FLOOD,
    quiet_frames::OCTET_THEN_PINGS,
    quiet_frames::SETTINGS_FLOOD,
    quiet_frames::EMPTY_FRAMES,
    resets::RESET_FLOOD,
    resets::MADE_YOU_RESET,
    headers::CONTINUATION_FLOOD,
    headers::HPACK_BOMB,
    windows::ZERO_WINDOW,
    tls::HALF_HANDSHAKES,
    tls::HANDSHAKE_FLOOD,
    tls::CERTIFICATE_CHAINS,
    tls::TLS_GARBAGE,
    tls::KEY_UPDATES,
    modules::MODULES,
    certificates::CERTIFICATES,
    templates::TEMPLATES,
    hoard::CANARY_BOMB,
    hoard::CANARY_HOSTS,
    hoard::INGRESSES,
    hoard::RULES,
    hoard::RULE_HOSTS,
    hoard::DELEGATES,
    hoard::SETTINGS,
    hoard::WILDCARDS,
    hoard::ENTRIES,
    hoard::ENDPOINTS,
    hoard::PATCHES,
    hoard::POLICIES,
    hoard::EXTENSIONS,
    hoard::TELEMETRY,
    hoard::SIDECARS,
    hoard::ROUTES,
    hoard::GATEWAYS,
    hoard::SMALL_GATEWAYS,
    hoard::LISTENERS,
    hoard::SMALL_RULES,
    hoard::SERVICES,
    hoard::SMALL_SERVICES,
    hoard::SLICES,
    hoard::SMALL_SLICES,
    hoard::WORKLOADS,
    hoard::PLAIN_INGRESSES,
];

/// The attack of a name.
pub fn named(name: &str) -> Option<&'static Attack> {
    ALL.iter().find(|attack| attack.name == name)
}

/// Opens an ADS stream of a node, and asks for clusters.
async fn subscribe(peer: &mut Peer, node: &[u8]) -> io::Result<u32> {
    let stream = peer.call(&wire::ads()).await?;
    let request = Request {
        node,
        ty: proto::CLUSTER,
        ..Request::default()
    };
    peer.data(stream, &request.encode()).await?;
    Ok(stream)
}

/// A connection that speaks HTTP/2 with usual windows.
async fn http2(target: &Target) -> io::Result<Peer> {
    Peer::open(target.xds, 65_535, Reads::All).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = ALL.iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
