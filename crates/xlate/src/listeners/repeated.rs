//! Filters that all chains of one side of a proxy repeat, where that is too much.

use incr::Cx;
use store::Snapshot;

use super::class::Class;
use crate::authn::PeerPolicies;
use crate::gateways::{self, MergedGatewayOf};
use crate::limits::{REPEATED_BYTES, product};
use crate::scope::{ScopeOf, key_of};
use crate::security::Security;
use crate::view::View;

/// What a proxy lacks whose filters are too large, as it is told to those whom it refuses.
pub(super) const ROOM: &str = "room for the policies and extensions of all its ports";
/// Filters of this size are repeated by as many chains as there are.
const SMALL: usize = 16 << 10;
/// Chains of a port: for mutual TLS and for plaintext, for requests and for bytes.
const CHAINS: usize = 4;

/// Whether the chains would repeat too much. How many chains there are is asked only where the filters are large.
pub(super) fn too_much(
    cx: &Cx<'_, Snapshot>,
    view: &View,
    class: Class,
    security: &Security,
) -> bool {
    let size = security.http.encoded_len() + security.tcp.encoded_len();
    size > SMALL && product([size, chains(cx, view, class)]) > REPEATED_BYTES
}

/// About how many chains there are.
fn chains(cx: &Cx<'_, Snapshot>, view: &View, class: Class) -> usize {
    match class {
        Class::SidecarInbound => {
            let scope = cx.query(&ScopeOf(key_of(cx, view)));
            let listed = scope.sidecar.as_ref().map_or(0, |s| s.ingress.len());
            // Ports for which a policy states mutual TLS have chains of their own.
            let peers = cx.query(&PeerPolicies(view.namespace.clone()));
            let stated = peers.stated_ports(&view.labels).len();
            (listed.max(view.targets.len()) + stated + 1) * CHAINS
        }
        Class::SidecarOutbound => {
            let scope = cx.query(&ScopeOf(key_of(cx, view)));
            let ports = scope.services.iter().map(|s| s.ports.len());
            ports.sum::<usize>() + 1
        }
        Class::Gateway => {
            let merged = cx.query(&MergedGatewayOf(gateways::key_of(view)));
            merged.as_ref().as_ref().map_or(0, |m| m.servers.len()) + 1
        }
    }
}
