//! What route configurations depend on in a proxy, so that proxies that differ otherwise share them.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::DestinationRule;
use model::labels::Labels;
use model::names::Namespace;
use model::node::{Interception, Role};
use model::object::ObjectName;
use model::service::Locality;
use store::{Reads, Snapshot};

use super::rule::LabelsReadBy;
use crate::proxy_headers::ProxyHeaders;
use mesh::class::Class;
use mesh::proxy_options::proxy_config;
use mesh::scope::{ScopeKey, ScopeOf, key_of};
use mesh::view::{Traits, View};

/// A proxy as a client of routes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RouteClient {
    /// What it may see.
    pub(super) scope: ScopeKey,
    /// The proxy without what routes do not read.
    pub(super) view: Arc<View>,
    /// Its labels that DestinationRules of its namespace read.
    pub(super) selectable: Labels,
    /// Whether requests say how often they were tried.
    pub(super) attempt_count: bool,
    /// Whether `x-forwarded-host` is added where the host is rewritten.
    pub(super) forwarded_host: bool,
    /// Whether it is a gRPC library rather than an Envoy: it minds ports in host names and other timeouts.
    pub(super) proxyless: bool,
}

impl RouteClient {
    /// What of a view routes read.
    pub(super) fn of(cx: &Cx<'_, Snapshot>, view: &View) -> Self {
        let scope = key_of(cx, view);
        let class = match view.role {
            Role::Sidecar => Class::SidecarOutbound,
            _ => Class::Gateway,
        };
        let headers = ProxyHeaders::of(&proxy_config(view, &cx.settings().mesh), class);
        let selectors = cx.query(&LabelsSelectedIn(view.namespace.clone()));
        // A scope lists the rules of the mesh, not those of its gateways.
        let read = (view.role == Role::Sidecar).then(|| cx.query(&LabelsReadIn(scope.clone())));
        let is_read = |key: &str| read.as_ref().is_none_or(|read| read.contains(key));
        let keep = ["DNS_CAPTURE", "DNS_AUTO_ALLOCATE"];
        let metadata = view.metadata.iter();
        Self {
            selectable: only(&view.labels, |key| selectors.contains(key)),
            attempt_count: headers.attempt_count,
            forwarded_host: headers.forwarded_host,
            proxyless: view.metadata.get("GENERATOR") == Some("grpc"),
            view: Arc::new(View::new(Traits {
                labels: only(&view.labels, |k| is_read(k) || selectors.contains(k)),
                metadata: metadata
                    .filter(|(key, _)| keep.contains(&&***key))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect(),
                locality: Locality::default(),
                interception: Interception::default(),
                network: Default::default(),
                version: None,
                extensions: None,
                targets: Arc::from([]),
                ..Traits::clone(view)
            })),
            scope,
        }
    }

    /// The namespace of the proxy.
    pub(super) fn namespace(&self) -> &Namespace {
        &self.view.namespace
    }

    /// The labels that decide the routes of a rule.
    pub(super) fn labels_for(&self, cx: &Cx<'_, Snapshot>, rule: &ObjectName) -> Labels {
        let read = cx.query(&LabelsReadBy(rule.clone()));
        if read.is_empty() {
            return self.selectable.clone();
        }
        only(&self.view.labels, |k| {
            read.contains(k) || self.selectable.contains(k)
        })
    }
}

fn only(labels: &Labels, keep: impl Fn(&str) -> bool) -> Labels {
    let kept = labels.iter().filter(|(key, _)| keep(key));
    kept.map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The names of labels by which DestinationRules of a namespace select clients.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LabelsSelectedIn(Namespace);

impl Query<Snapshot> for LabelsSelectedIn {
    type Value = Arc<BTreeSet<Arc<str>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let rules = cx.list_in::<DestinationRule>(&self.0);
        let selectors = rules
            .iter()
            .filter_map(|rule| rule.spec.workload_selector.as_ref());
        let keys = selectors.flat_map(|s| s.match_labels.keys());
        Arc::new(keys.map(|k| k.as_str().into()).collect())
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
