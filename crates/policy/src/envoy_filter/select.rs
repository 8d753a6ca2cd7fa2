//! Which patches work on a proxy, and in which order.
//!
//! Istio: pilot/pkg/model/push_context.go EnvoyFilters, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::label_names::Reader;
use mesh::policy_target::Target;
use mesh::proxy::Traits;
use model::diagnostic::Diagnostic;
use model::kinds::istio::EnvoyFilter;
use model::labels::Labels;
use model::names::Namespace;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use store::{Reads, Snapshot};

use super::Context;
use super::compile::{Compiled, CompiledFilter, Proxies};
use super::patch::{AnyPatch, ListenerPatches, Patches, RoutePatches};
use super::size::Fitting;

/// The metadata key under which a proxy states its version.
const VERSION: &str = "ISTIO_VERSION";

/// The metadata keys that EnvoyFilters match proxies by, sorted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct MatchedKeys;

impl Query<Snapshot> for MatchedKeys {
    type Value = BTreeSet<Arc<str>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let filters = cx.list::<EnvoyFilter>();
        let patches = filters.iter().flat_map(|f| &f.spec.config_patches);
        let mut keys = BTreeSet::new();
        for proxy in patches.filter_map(|patch| patch.r#match.as_ref()?.proxy.as_ref()) {
            keys.extend(proxy.metadata.keys().map(|key| Arc::from(key.as_str())));
            if !proxy.proxy_version.is_empty() {
                keys.insert(Arc::from(VERSION));
            }
        }
        keys
    }
}

/// Proxies as far as it depends on them which patches they get.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SelectedBy {
    namespace: Namespace,
    /// Those by which EnvoyFilters select.
    labels: Labels,
    /// What of their metadata patches may ask for.
    metadata: Labels,
}

impl SelectedBy {
    /// What of a proxy selects its patches.
    pub fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let keys = cx.query(&MatchedKeys);
        Self {
            namespace: proxy.namespace().clone(),
            labels: proxy.labels_for(cx, Reader::EnvoyFilters),
            metadata: keys
                .iter()
                .filter_map(|key| Some((key.clone(), Arc::from(proxy.stated(key)?))))
                .collect(),
        }
    }

    fn is_selected_by(&self, filter: &Compiled) -> bool {
        let target = Target {
            namespace: &filter.name.namespace,
            selector: filter.selector.as_ref(),
            target_refs: &filter.target_refs,
            target_ref: None,
        };
        target.covers(&self.namespace, &self.labels)
    }
}

/// The patches that work on a proxy, in order.
#[derive(PartialEq, Debug, Default)]
pub struct Selected {
    pub(super) clusters: Patches<Cluster>,
    pub(super) listeners: Arc<ListenerPatches>,
    pub(super) routes: Arc<RoutePatches>,
    pub(super) extensions: Patches<TypedExtensionConfig>,
    pub(super) left_out: Arc<LeftOut>,
}

/// What patches of a proxy are left out.
#[derive(PartialEq, Debug, Default)]
pub struct LeftOut {
    /// Those that are too large or too many together.
    pub findings: Vec<Diagnostic>,
    /// The sides that refuse everything, since what is left out may protect them.
    closed: Vec<Context>,
}

impl LeftOut {
    /// Whether a side of the proxy is closed.
    pub fn closes(&self, side: Context) -> bool {
        self.closed.iter().any(|c| *c == side || *c == Context::Any)
    }
}

impl Query<Snapshot> for SelectedBy {
    type Value = Arc<Selected>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Selected> {
        let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
        let mut names = cx.names_in::<EnvoyFilter>(&self.namespace);
        if self.namespace != root && !root.is_empty() {
            names.extend(cx.names_in::<EnvoyFilter>(&root));
        }
        let mut filters: Vec<Arc<Compiled>> = names
            .into_iter()
            .filter_map(|name| (*cx.query(&CompiledFilter(name))).clone())
            .filter(|filter| self.is_selected_by(filter))
            .collect();
        filters.sort_by(|a, b| {
            let order = |f: &Compiled| {
                let name = &f.name;
                (
                    f.priority,
                    name.namespace != root,
                    f.created,
                    format!("{}.{}", name.name, name.namespace),
                )
            };
            order(a).cmp(&order(b))
        });
        let version = self.metadata.get(VERSION);
        let is_for = |proxies: &Proxies| proxies.include(version, |key| self.metadata.get(key));
        let patches = filters
            .iter()
            .flat_map(|f| &f.patches)
            .filter(|(proxies, _)| is_for(proxies));
        let fitting = Fitting::of(patches.map(|(_, patch)| patch));
        let mut closed = fitting.closed;
        let by_themselves = filters.iter().flat_map(|f| &f.closed);
        closed.extend(
            by_themselves
                .filter(|(proxies, _)| is_for(proxies))
                .map(|(_, side)| *side),
        );
        Arc::new(Selected {
            left_out: Arc::new(LeftOut {
                findings: fitting.findings,
                closed,
            }),
            ..Selected::sort(fitting.patches.into_iter())
        })
    }
}

impl Selected {
    pub(super) fn sort<'a>(patches: impl Iterator<Item = &'a AnyPatch>) -> Self {
        let mut clusters = Vec::new();
        let mut listeners = Vec::new();
        let mut listener_filters = Vec::new();
        let mut chains = Vec::new();
        let mut network_filters = Vec::new();
        let mut http_filters = Vec::new();
        let mut configs = Vec::new();
        let mut hosts = Vec::new();
        let mut routes = Vec::new();
        let mut extensions = Vec::new();
        for patch in patches {
            match patch.clone() {
                AnyPatch::Cluster(p) => clusters.push(p),
                AnyPatch::Listener(p) => listeners.push(p),
                AnyPatch::ListenerFilter(p) => listener_filters.push(p),
                AnyPatch::FilterChain(p) => chains.push(p),
                AnyPatch::NetworkFilter(p) => network_filters.push(p),
                AnyPatch::HttpFilter(p) => http_filters.push(p),
                AnyPatch::RouteConfiguration(p) => configs.push(p),
                AnyPatch::VirtualHost(p) => hosts.push(p),
                AnyPatch::HttpRoute(p) => routes.push(p),
                AnyPatch::ExtensionConfig(p) => extensions.push(p),
            }
        }
        Self {
            clusters: clusters.into_iter().collect(),
            listeners: Arc::new(ListenerPatches {
                listeners: listeners.into_iter().collect(),
                listener_filters: listener_filters.into_iter().collect(),
                chains: chains.into_iter().collect(),
                network_filters: network_filters.into_iter().collect(),
                http_filters: http_filters.into_iter().collect(),
            }),
            routes: Arc::new(RoutePatches {
                configs: configs.into_iter().collect(),
                hosts: hosts.into_iter().collect(),
                routes: routes.into_iter().collect(),
            }),
            extensions: extensions.into_iter().collect(),
            left_out: Arc::default(),
        }
    }
}

macro_rules! part {
    ($(#[$doc:meta])* $vis:vis $name:ident, $value:ty, $field:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        $vis struct $name(pub SelectedBy);

        impl Query<Snapshot> for $name {
            type Value = $value;

            fn eval(&self, cx: &Cx<'_, Snapshot>) -> $value {
                cx.query(&self.0).$field.clone()
            }
        }
    };
}

part!(
    /// A proxy's patches of clusters.
    pub ClusterPatchesOf, Patches<Cluster>, clusters
);
part!(
    /// A proxy's patches of listeners and what lies inside them.
    pub ListenerPatchesOf, Arc<ListenerPatches>, listeners
);
part!(
    /// A proxy's patches of route configurations and what lies inside them.
    pub RoutePatchesOf, Arc<RoutePatches>, routes
);
part!(
    /// A proxy's patches of extension configurations.
    pub ExtensionPatchesOf, Patches<TypedExtensionConfig>, extensions
);
part!(
    /// What patches of a proxy are left out.
    pub PatchesLeftOut, Arc<LeftOut>, left_out
);
