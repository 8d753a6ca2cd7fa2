//! Filters of users' own code: TrafficExtension, and the WasmPlugins of Istio and of Higress, which are other ways of writing
//! one.
//!
//! Lua stands in the listener itself. Wasm is asked for by name, and served as an extension configuration
//! (`xlate::ecds`): a change of the code leaves the listener and its connections alone.
//!
//! Istio: pilot/pkg/model/extensions.go, pilot/pkg/networking/core/extension, 1.32.

mod higress;
mod module;
mod names;
mod phases;
mod read;
mod url;
mod wasm;

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::class::Class;
use mesh::label_names::Reader;
use mesh::policy_target::Target;
use mesh::proxy::Traits;
use model::age::Age;
use model::kinds;
use model::kinds::istio::{TrafficExtension, WasmPlugin};
use model::labels::Labels;
use model::names::Namespace;
use model::node::Role;
use model::object::ObjectName;
use proto_envoy::envoy::config::listener::v3::Filter;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use proto_istio::extensions::{LuaConfig, TrafficSelector, WasmConfig};
use proto_istio::types::{PolicyTargetReference, WorkloadSelector};
use store::{Reads, Snapshot};

pub use module::{troubles, wanted};
pub(crate) use phases::asked_for;
pub use phases::{FilterOf, Has, Phases, extend};
pub use proto_istio::extensions::traffic_extension::ExecutionPhase as Phase;
pub use read::{ReadExtension, Wanted};
pub use wasm::{ExtensionConfigOf, PullFrom, refusing};

/// A filter of a user's.
#[derive(PartialEq, Debug)]
pub struct Extension {
    /// The object that it was read from.
    pub origin: Wanted,
    /// The name that it has in the proxy; that of a WasmPlugin of Istio's has a mark which no object can have.
    pub name: ObjectName,
    /// The name of the filter, and of its configuration.
    pub resource: Arc<str>,
    created: Age,
    version: Arc<str>,
    selector: Option<WorkloadSelector>,
    target_refs: Vec<PolicyTargetReference>,
    /// Where among other filters it stands.
    pub phase: Phase,
    priority: Option<i32>,
    matches: Vec<TrafficSelector>,
    /// What it runs.
    pub code: Code,
}

/// The code of a filter.
#[derive(PartialEq, Debug)]
pub enum Code {
    /// A script, for requests.
    Lua(LuaConfig),
    /// A module, for requests or for connections.
    Wasm(Box<WasmConfig>),
    /// Nothing that could be told what to do: it refuses requests, or connections.
    Closed {
        /// Whether it is for connections.
        network: bool,
    },
}

/// The filters for workloads of a namespace with these labels: those of each phase in the order in which they run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExtensionsOf {
    namespace: Namespace,
    /// Those by which such filters select.
    labels: Labels,
    /// Whether they serve Ingresses with annotations, and so run Higress's plugins.
    edge: bool,
}

impl ExtensionsOf {
    /// What decides those of a proxy.
    pub fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            namespace: proxy.namespace().clone(),
            labels: proxy.labels_for(cx, Reader::Extensions),
            edge: proxy.node.role == Role::Router && serves_edge(cx, &proxy.labels),
        }
    }
}

impl Query<Snapshot> for ExtensionsOf {
    type Value = Vec<Arc<Extension>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for namespace in [&self.namespace, &root] {
            if namespace.is_empty() || !seen.insert(namespace) {
                continue;
            }
            let plugins = cx.names_in::<WasmPlugin>(namespace);
            let wanted = cx
                .names_in::<TrafficExtension>(namespace)
                .into_iter()
                .map(Wanted::TrafficExtension)
                .chain(plugins.into_iter().map(Wanted::WasmPlugin));
            let mut of_namespace: Vec<Arc<Extension>> = wanted
                .filter_map(|name| cx.query(&ReadExtension(name)).extension.clone())
                .filter(|extension| self.is_covered_by(extension))
                .collect();
            of_namespace.sort_by(|a, b| {
                let order = |e: &Extension| (e.created, e.name.name.clone());
                order(a).cmp(&order(b))
            });
            found.extend(of_namespace);
        }
        if self.edge {
            let plugins =
                cx.names_in::<kinds::higress::WasmPlugin>(&cx.settings().features.edge_namespace);
            let read = plugins.into_iter().filter_map(|name| {
                let read = cx.query(&ReadExtension(Wanted::HigressPlugin(name)));
                read.extension.clone()
            });
            found.extend(read);
        }
        // Of one phase, the highest priority first; one without is last.
        found.sort_by_key(|e| std::cmp::Reverse(e.priority.unwrap_or(i32::MIN)));
        found
    }
}

/// What proxies lack on one side for filters that cannot be left out, with the objects of those filters.
pub fn lacking(
    cx: &Cx<'_, Snapshot>,
    extensions: &ExtensionsOf,
    has: Has<'_>,
    class: Class,
) -> Vec<(Wanted, String)> {
    let mut lacking = Vec::new();
    for extension in cx.query(extensions).iter() {
        let one = std::slice::from_ref(extension);
        let requests = extend::<HttpFilter>(&mut Phases::default(), one, has, class);
        let connections = extend::<Filter>(&mut Phases::default(), one, has, class);
        for what in requests.into_iter().chain(connections) {
            lacking.push((extension.origin.clone(), what));
        }
    }
    lacking
}

/// Whether a gateway with these labels serves Ingresses with annotations.
fn serves_edge(cx: &Cx<'_, Snapshot>, labels: &Labels) -> bool {
    let selector = cx.settings().features.edge_selector.as_str();
    let (key, value) = selector.split_once('=').unwrap_or((selector, ""));
    labels
        .get(key.trim())
        .is_some_and(|own| *own == *value.trim())
}

impl ExtensionsOf {
    fn is_covered_by(&self, extension: &Extension) -> bool {
        let target = Target {
            namespace: &extension.name.namespace,
            selector: extension.selector.as_ref(),
            target_refs: &extension.target_refs,
            target_ref: None,
        };
        target.covers(&self.namespace, &self.labels)
    }
}
