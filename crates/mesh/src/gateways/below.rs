//! Redirects of hosts that another namespace routes, or that are below its wildcard. Such a redirect takes requests from these routes. So
//! for a host that another namespace routes it applies only if the Gateway or the routes of its own namespace are older, and for one
//! below a wildcard only if its Gateway or namespace also has routes for the host.

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

/// Who has routes for a host, by namespace.
#[derive(Debug, Default)]
struct Routed(BTreeMap<Namespace, Rules>);

/// The rules of a namespace for a host.
#[derive(Debug)]
struct Rules {
    oldest: Held,
    /// The Gateways that they name.
    gateways: BTreeSet<Arc<str>>,
}

impl Routed {
    /// Takes in a rule at a Gateway.
    fn take(&mut self, rule: &Claim, gateway: &Arc<str>) {
        let rules = self.0.entry(rule.namespace().clone());
        let rules = rules.or_insert_with(|| Rules {
            oldest: rule.clone().into(),
            gateways: BTreeSet::new(),
        });
        if rule.age() < rules.oldest.claim.age() {
            rules.oldest = rule.clone().into();
        }
        rules.gateways.insert(gateway.clone());
    }

    /// Whether a namespace has routes, or any rule names a Gateway.
    fn serves(&self, namespace: &Namespace, gateway: &Arc<str>) -> bool {
        let mut named = self.0.values().map(|rules| &rules.gateways);
        self.0.contains_key(namespace) || named.any(|gateways| gateways.contains(gateway))
    }

    /// The oldest rule, if it is another namespace's, and older than the Gateway that redirects. Who names that Gateway asks for its
    /// redirect.
    fn before(&self, redirect: &Claim, gateway: &Arc<str>) -> Option<&Held> {
        let by_age = |a: &&Rules, b: &&Rules| a.oldest.claim.age().cmp(&b.oldest.claim.age());
        let first = self.0.values().min_by(by_age)?;
        let claim = &first.oldest.claim;
        let is_other =
            claim.namespace() != redirect.namespace() && !first.gateways.contains(gateway);
        (is_other && claim.age() < redirect.age()).then_some(&first.oldest)
    }
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
                let claim = Claim {
                    object: author.key.clone(),
                    created: author.created(cx, head.created),
                    host: canonical(host).into(),
                };
                if let Some(known) = self.hosts.get_mut(&claim.host) {
                    known.take(&claim, &server.gateway_name);
                }
                if self.above.contains(&claim.host) {
                    let held = self.answered.entry(author.namespace().clone());
                    hold(held.or_default(), &claim, None);
                }
            }
        }
    }

    /// The finding that a server of another namespace may not send plain requests for a host to HTTPS, as it would take them away from
    /// whoever has older routes for it, or a wildcard above it where the other serves nothing. `None` where it may.
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
        let redirect = Claim {
            object: author.key.clone(),
            created: author.created(cx, gateway.meta.created),
            host: (*host).into(),
        };
        let known = self.hosts.get(&*host);
        let older = known.and_then(|known| known.before(&redirect, &server.gateway_name));
        if let Some(older) = older.filter(|older| keeps_out(cx, older, &author)) {
            let object = &older.claim.object;
            let why = format!("{object} has routes for {host:?} on that port, and is older");
            return Some(not_redirected(&author, &why));
        }
        if known.is_some_and(|known| known.serves(namespace, &server.gateway_name)) {
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
