//! Filters that all chains of one side of a proxy repeat, where that is too much.

use std::collections::BTreeSet;

use incr::Cx;
use mesh::class::{Class, Handling, handling};
use mesh::gateways;
use mesh::gateways::{GatewayKey, MergedGatewayOf};
use mesh::limits::{REPEATED_BYTES, product};
use mesh::proxy::Traits;
use mesh::scope::{ScopeKey, ScopeOf};
use model::node::Role;
use policy::authn::PeerPolicies;
use policy::envoy_filter::{Context, ListenerPatchesOf, PatchesLeftOut, SelectedBy};
use policy::security::{Security, SecurityOf};
use store::Snapshot;

use super::parts::SidePartsOf;

/// What a proxy lacks whose filters are too large, as it is told to those whom it refuses.
pub(super) const ROOM: &str = "room for the policies and extensions of all its ports";
/// Filters of this size are repeated by as many chains as there are.
const SMALL: usize = 16 << 10;
/// Chains of a port: for mutual TLS and for plaintext, for requests and for bytes.
const CHAINS: usize = 4;

/// What decides how many filter chains one side of a proxy has, besides what it may see.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Chains {
    /// Those of its workload's ports.
    Inbound {
        /// How many service ports that workload serves.
        targets: usize,
    },
    /// Those of what it may see.
    Outbound,
    /// Those of its Gateways.
    Gateway(GatewayKey),
}

/// Whether the chains would repeat too much. How many chains there are is asked only where the filters are large.
pub(super) fn too_much(cx: &Cx<'_, Snapshot>, parts: &SidePartsOf, security: &Security) -> bool {
    let size = security.http.encoded_len() + security.tcp.encoded_len();
    size > SMALL && product([size, parts.chains(cx)]) > REPEATED_BYTES
}

/// Whether a side refuses everything because of patches: one that may protect it is left out, or the chains of a side
/// would repeat too much of them.
pub(super) fn closed_by_patches(cx: &Cx<'_, Snapshot>, parts: &SidePartsOf) -> bool {
    let left_out = cx.query(&PatchesLeftOut(parts.patched.clone()));
    parts.too_many_copies || left_out.closes(context(parts.class))
}

/// Whether the chains of a side would repeat too much of the patches of listeners: then none of these works.
pub(super) fn too_many_copies(
    cx: &Cx<'_, Snapshot>,
    proxy: &Traits<'_>,
    patched: &SelectedBy,
) -> bool {
    let patches = cx.query(&ListenerPatchesOf(patched.clone()));
    let weighs = |class, of: &dyn Fn() -> (usize, usize)| {
        let weight = patches.chain_weight(context(class));
        if weight.http.saturating_add(weight.all) <= SMALL {
            return false;
        }
        let (all, http) = of();
        product([weight.http, http]).saturating_add(product([weight.all, all])) > REPEATED_BYTES
    };
    let alike = |count: usize| (count, count);
    match proxy.node.role {
        Role::Sidecar => {
            let inbound = || {
                let security = SecurityOf::of(cx, proxy);
                alike(inbound_chains(
                    cx,
                    &proxy.scope,
                    Some(&security),
                    proxy.targets.len(),
                ))
            };
            weighs(Class::SidecarInbound, &inbound)
                || weighs(Class::SidecarOutbound, &|| {
                    outbound_chains(cx, &proxy.scope)
                })
        }
        Role::Router => weighs(Class::Gateway, &|| {
            alike(gateway_chains(cx, &gateways::key_of(cx, proxy)))
        }),
        Role::Waypoint | Role::Ztunnel => false,
    }
}

fn context(class: Class) -> Context {
    match class {
        Class::SidecarInbound => Context::SidecarInbound,
        Class::SidecarOutbound => Context::SidecarOutbound,
        Class::Gateway => Context::Gateway,
    }
}

/// About how many outbound chains there are, and how many of them for requests: ports of HTTP share those of a number.
fn outbound_chains(cx: &Cx<'_, Snapshot>, scope: &ScopeKey) -> (usize, usize) {
    let scope = cx.query(&ScopeOf(scope.clone()));
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

impl SidePartsOf {
    /// About how many chains there are.
    fn chains(&self, cx: &Cx<'_, Snapshot>) -> usize {
        match &self.chains {
            Chains::Inbound { targets } => {
                inbound_chains(cx, &self.scope, self.security.as_ref(), *targets)
            }
            Chains::Outbound => {
                let scope = cx.query(&ScopeOf(self.scope.clone()));
                let ports = scope.services.iter().map(|s| s.ports.len());
                ports.sum::<usize>() + 1
            }
            Chains::Gateway(gateway) => gateway_chains(cx, gateway),
        }
    }
}

fn inbound_chains(
    cx: &Cx<'_, Snapshot>,
    scope: &ScopeKey,
    security: Option<&SecurityOf>,
    targets: usize,
) -> usize {
    let scope = cx.query(&ScopeOf(scope.clone()));
    let listed = scope.sidecar.as_ref().map_or(0, |s| s.ingress.len());
    // Ports for which a policy states mutual TLS have chains of their own.
    let stated = security.map_or(0, |of| {
        let peers = cx.query(&PeerPolicies(of.namespace.clone()));
        peers.stated_ports(&of.labels).len()
    });
    (listed.max(targets) + stated + 1) * CHAINS
}

fn gateway_chains(cx: &Cx<'_, Snapshot>, gateway: &GatewayKey) -> usize {
    let merged = cx.query(&MergedGatewayOf(gateway.clone()));
    merged.as_ref().as_ref().map_or(0, |m| m.servers.len()) + 1
}
