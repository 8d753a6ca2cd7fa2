//! Redirects of hosts below another namespace's wildcard. Such a redirect takes requests from the wildcard's routes, so it applies only
//! if its Gateway or namespace also has routes for the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Cx;
use model::diagnostic::Diagnostic;
use model::host::canonical;
use model::kinds::istio::Gateway;
use model::names::Namespace;
use model::ownership::{Claim, above};
use store::{Reads, Snapshot};

use super::author::Author;
use super::owned::{Held, claim_of, given_to, hold, keeps_out, not_redirected, routed};
use super::{GatewayKey, GatewayServer};
use crate::stated_hosts::stated_for;
use crate::virtual_service::VirtualServicesFor;

/// What a route configuration has for some hosts, and for the wildcards above them.
#[derive(Debug)]
pub(super) struct Below {
    /// Who has routes for each of the hosts.
    hosts: BTreeMap<Arc<str>, Routed>,
    /// The wildcards above them.
    above: BTreeSet<Arc<str>>,
    /// Who answers requests for these: by namespace, then by wildcard.
    answered: BTreeMap<Namespace, BTreeMap<Arc<str>, Held>>,
}

/// Who has routes for a host.
#[derive(Debug, Default)]
struct Routed {
    /// The namespaces of the rules.
    namespaces: BTreeSet<Namespace>,
    /// The Gateways that the rules name.
    gateways: BTreeSet<Arc<str>>,
}

impl Below {
    /// What the servers of a route configuration of a proxy have for these hosts.
    pub(super) fn of(
        cx: &Cx<'_, Snapshot>,
        key: &GatewayKey,
        servers: &[&GatewayServer],
        hosts: BTreeSet<Arc<str>>,
    ) -> Self {
        let mut below = Self {
            above: hosts.iter().flat_map(|host| wildcards(host)).collect(),
            hosts: hosts
                .into_iter()
                .map(|host| (host, Routed::default()))
                .collect(),
            answered: BTreeMap::new(),
        };
        for server in servers {
            if server.https_redirect() {
                below.redirected(cx, server);
            }
            below.routed(cx, key, server);
        }
        below
    }

    /// Takes in the wildcards that a server sends to HTTPS.
    fn redirected(&mut self, cx: &Cx<'_, Snapshot>, server: &GatewayServer) {
        let Some(gateway) = cx.get::<Gateway>(&server.gateway) else {
            return;
        };
        let author = Author::of_gateway(&gateway);
        let created = author.created(cx, gateway.meta.created);
        for host in &server.server.hosts {
            let (namespaces, claim) = claim_of(&author, created, host);
            if self.above.contains(&claim.host) {
                let held = self.answered.entry(author.namespace().clone());
                hold(held.or_default(), &claim, given_to(&namespaces));
            }
        }
    }

    /// Takes in the hosts and wildcards for which rules have routes at a server.
    fn routed(&mut self, cx: &Cx<'_, Snapshot>, key: &GatewayKey, server: &GatewayServer) {
        let lists = cx.query(&VirtualServicesFor {
            namespace: key.namespace.clone(),
            gateway: server.gateway_name.clone(),
        });
        for head in lists.in_order().into_iter().flatten() {
            let author = Author::of_rule(head);
            for host in routed(cx, None, &server.server.hosts, head) {
                let host: Arc<str> = canonical(host).into();
                if let Some(known) = self.hosts.get_mut(&host) {
                    known.namespaces.insert(author.namespace().clone());
                    known.gateways.insert(server.gateway_name.clone());
                }
                if self.above.contains(&host) {
                    let claim = Claim {
                        object: author.key.clone(),
                        created: author.created(cx, head.created),
                        host,
                    };
                    let held = self.answered.entry(author.namespace().clone());
                    hold(held.or_default(), &claim, None);
                }
            }
        }
    }

    /// The finding that a server of another namespace may not send plain requests for a host to HTTPS, as it would take them away from
    /// whoever has a wildcard above it, and serves nothing there. `None` where it may.
    pub(super) fn refuses_redirect(
        &self,
        cx: &Cx<'_, Snapshot>,
        server: &GatewayServer,
        host: &str,
    ) -> Option<Diagnostic> {
        let gateway = cx.get::<Gateway>(&server.gateway)?;
        let author = Author::of_gateway(&gateway);
        let namespace = author.namespace();
        let host = canonical(stated_for(host).1);
        let serves = |known: &Routed| {
            known.namespaces.contains(namespace) || known.gateways.contains(&server.gateway_name)
        };
        if self.hosts.get(&*host).is_some_and(serves) {
            return None;
        }
        for wildcard in wildcards(&host) {
            let mut held = self.answered.values().filter_map(|by| by.get(&wildcard));
            if let Some(held) = held.find(|held| keeps_out(cx, held, &author)) {
                let object = &held.claim.object;
                let why = format!(
                    "{object} has {wildcard:?} on that port, and {namespace} has no routes for {host:?} there"
                );
                return Some(not_redirected(&author, &why));
            }
        }
        None
    }
}

/// The wildcards that a host is below, the longest first.
fn wildcards(host: &str) -> impl Iterator<Item = Arc<str>> + use<> {
    std::iter::successors(above(host), |wildcard| above(wildcard))
}
