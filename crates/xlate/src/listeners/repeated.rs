//! Filters that all chains of one side of a proxy repeat, where that is too much.

use std::collections::BTreeSet;

use incr::Cx;
use model::node::Role;
use store::Snapshot;

use mesh::class::{Class, Handling, handling};
use mesh::gateways::{self, MergedGatewayOf};
use mesh::limits::{REPEATED_BYTES, product};
use mesh::scope::{ScopeOf, key_of};
use mesh::view::View;
use policy::authn::PeerPolicies;
use policy::envoy_filter::{Context, ListenerPatchesOf, PatchesLeftOut, SelectedBy};
use policy::security::Security;

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

/// Whether a side refuses everything because of patches: one that may protect it is left out, or the chains of a side
/// would repeat too much of them.
pub(super) fn closed_by_patches(cx: &Cx<'_, Snapshot>, view: &View, class: Class) -> bool {
    let selected = SelectedBy::of(cx, view);
    cx.query(&PatchesLeftOut(selected)).closes(context(class)) || too_many_copies(cx, view)
}

/// Whether the chains of a side would repeat too much of the patches of listeners: then none of these works.
pub(crate) fn too_many_copies(cx: &Cx<'_, Snapshot>, view: &View) -> bool {
    let patches = cx.query(&ListenerPatchesOf(SelectedBy::of(cx, view)));
    let classes = match view.role {
        Role::Sidecar => &[Class::SidecarInbound, Class::SidecarOutbound][..],
        Role::Router => &[Class::Gateway],
        Role::Waypoint | Role::Ztunnel => &[],
    };
    classes.iter().any(|class| {
        let weight = patches.chain_weight(context(*class));
        if weight.http.saturating_add(weight.all) <= SMALL {
            return false;
        }
        let (all, http) = match class {
            Class::SidecarOutbound => outbound_chains(cx, view),
            _ => {
                let all = chains(cx, view, *class);
                (all, all)
            }
        };
        product([weight.http, http]).saturating_add(product([weight.all, all])) > REPEATED_BYTES
    })
}

fn context(class: Class) -> Context {
    match class {
        Class::SidecarInbound => Context::SidecarInbound,
        Class::SidecarOutbound => Context::SidecarOutbound,
        Class::Gateway => Context::Gateway,
    }
}

/// About how many outbound chains there are, and how many of them for requests: ports of HTTP share those of a number.
fn outbound_chains(cx: &Cx<'_, Snapshot>, view: &View) -> (usize, usize) {
    let scope = cx.query(&ScopeOf(key_of(cx, view)));
    let mut numbers = BTreeSet::new();
    let (mut own, mut detected) = (0, 0);
    for port in scope.services.iter().flat_map(|s| s.ports.iter()) {
        match handling(port.protocol) {
            Handling::Http => {
                numbers.insert(port.number);
            }
            Handling::Tcp => own += 1,
            Handling::Auto => {
                own += 1;
                detected += 1;
            }
            Handling::Ignored => {}
        }
    }
    let http = numbers.len() + 1;
    (own + http, detected + http)
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
