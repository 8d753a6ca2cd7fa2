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
use model::ownership::{Claim, ends_above};
use store::{Reads, Snapshot};

use super::author::Author;
use super::held::{Held, keep};
use super::owned::{claim_of, given_to, keeps_out, not_redirected, routed};
use super::{GatewayKey, GatewayServer};
use crate::stated_hosts::stated_for;
use crate::virtual_service::VirtualServicesFor;

/// What a route configuration has for some hosts, and for wildcards.
#[derive(Debug)]
pub(super) struct Below {
    /// Who has routes for each of the hosts.
    hosts: BTreeMap<Arc<str>, Routed>,
    /// Who answers requests for wildcards: by what follows the `*.`, then by namespace. Only what somebody has is kept, and found by
    /// the ends of a host.
    answered: BTreeMap<Arc<str>, BTreeMap<Namespace, Held>>,
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
            self.answers(&claim, given_to(&namespaces));
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
                self.answers(&claim, None);
            }
        }
    }

    /// Takes in a claim, if it is one to a wildcard.
    fn answers(&mut self, claim: &Claim, given: Option<&str>) {
        if let Some(end) = claim.host.strip_prefix("*.") {
            let by_namespace = self.answered.entry(end.into()).or_default();
            keep(by_namespace.entry(claim.namespace().clone()), claim, given);
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
        for end in ends_above(&host) {
            let held = self.answered.get(end).into_iter();
            let mut held = held.flat_map(BTreeMap::values);
            if let Some(held) = held.find(|held| keeps_out(cx, held, &author)) {
                let Claim {
                    object,
                    host: wildcard,
                    ..
                } = &held.claim;
                let why = format!(
                    "{object} has {wildcard:?} on that port, and {namespace} has no routes for {host:?} there"
                );
                return Some(not_redirected(&author, &why));
            }
        }
        None
    }
}
