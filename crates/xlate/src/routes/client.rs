//! What route configurations depend on in a proxy, so that proxies that differ otherwise share them.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::capabilities::Loadable;
use mesh::class::Class;
use mesh::gateways;
use mesh::label_names::{Reader, only};
use mesh::proxy::Traits;
use mesh::proxy_options::proxy_config;
use mesh::scope::{ScopeKey, ScopeOf};
use mesh::services::Addressing;
use model::edge::Front;
use model::labels::Labels;
use model::names::Namespace;
use model::node::Role;
use model::object::ObjectName;
use policy::edge::{Can, FrontOf};
use store::{Reads, Snapshot};

use super::rule::LabelsReadBy;
use crate::proxy_headers::ProxyHeaders;

/// A proxy as a client of routes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RouteClient {
    /// What it may see.
    pub(super) scope: ScopeKey,
    /// Its DNS domain, relative to which names are short.
    pub(super) dns_domain: Arc<str>,
    /// By which addresses it knows services.
    pub(super) addressing: Addressing,
    /// Its labels that DestinationRules of its namespace read.
    pub(super) selectable: Labels,
    /// Its labels that matches of rules read.
    matched: Labels,
    /// Whether requests say how often they were tried.
    pub(super) attempt_count: bool,
    /// Whether `x-forwarded-host` is added where the host is rewritten.
    pub(super) forwarded_host: bool,
    /// Whether proxies before a gateway are trusted to say how clients connect.
    pub(super) trusts_forwarded: bool,
    /// Whether it is a gRPC library rather than an Envoy: it minds ports in host names and other timeouts.
    pub(super) proxyless: bool,
    /// What a gateway can do of what single routes of an edge ask for.
    pub(super) can: Can,
}

/// What stands before a proxy.
fn front(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Front {
    match proxy.node.role {
        Role::Router => *cx.query(&FrontOf(gateways::key_of(cx, proxy))),
        _ => Front::default(),
    }
}

impl RouteClient {
    /// What of a proxy any routes may depend on.
    pub(super) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let class = match proxy.node.role {
            Role::Sidecar => Class::SidecarOutbound,
            _ => Class::Gateway,
        };
        let config = proxy_config(proxy, &cx.settings().mesh);
        let headers = ProxyHeaders::of(&config, class);
        let topology = config.gateway_topology.as_ref();
        let is_stated = topology.is_some_and(|topology| topology.num_trusted_proxies > 0);
        let trusts = || is_stated || front(cx, proxy).trusted_proxies > 0;
        Self {
            scope: proxy.scope.clone(),
            dns_domain: proxy.node.dns_domain.clone(),
            addressing: proxy.addressing(&cx.settings().features),
            selectable: proxy.labels_for(cx, Reader::DestinationRules),
            matched: proxy.labels_for(cx, Reader::VirtualServices),
            attempt_count: headers.attempt_count,
            forwarded_host: headers.forwarded_host,
            trusts_forwarded: class == Class::Gateway && trusts(),
            proxyless: proxy.is_grpc(),
            can: match class {
                Class::Gateway => Can::of(&Loadable::of(proxy)),
                _ => Can::default(),
            },
        }
    }

    /// The same as far as the rules in its scope depend on it.
    pub(super) fn in_scope(&self, cx: &Cx<'_, Snapshot>) -> Self {
        // A scope lists the rules of the mesh, not those of its gateways.
        if self.scope.gateway || self.matched.is_empty() {
            return self.clone();
        }
        let read = cx.query(&LabelsReadIn(self.scope.clone()));
        Self {
            matched: only(&self.matched, |key| read.contains(key)),
            ..self.clone()
        }
    }

    /// The namespace of the proxy.
    pub(super) fn namespace(&self) -> &Namespace {
        &self.scope.namespace
    }

    /// The labels that decide the routes of a rule.
    pub(super) fn labels_for(&self, cx: &Cx<'_, Snapshot>, rule: &ObjectName) -> Labels {
        if self.matched.is_empty() {
            return self.selectable.clone();
        }
        let read = cx.query(&LabelsReadBy(rule.clone()));
        let matched = self.matched.iter().filter(|(key, _)| read.contains(*key));
        let both = self.selectable.iter().chain(matched);
        both.map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}

/// The names of labels that the rules of a scope read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LabelsReadIn(ScopeKey);

impl Query<Snapshot> for LabelsReadIn {
    type Value = Arc<BTreeSet<Arc<str>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let scope = cx.query(&ScopeOf(self.0.clone()));
        let rules = scope.egress.iter().flat_map(|e| e.rules.iter());
        let mut keys = BTreeSet::new();
        for rule in rules {
            keys.extend(cx.query(&LabelsReadBy(rule.name.clone())).iter().cloned());
        }
        Arc::new(keys)
    }
}
