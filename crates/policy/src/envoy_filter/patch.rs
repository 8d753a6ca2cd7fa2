//! Patches as generation uses them: read, cheap to compare and to use as part of a key.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::object::ObjectName;
use prost::Message;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::config::listener::v3::{Filter, FilterChain, Listener, ListenerFilter};
use proto_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use proto_istio::networking::envoy_filter::envoy_config_object_match::ObjectTypes;
use proto_istio::networking::envoy_filter::patch::Operation;
use proto_istio::networking::envoy_filter::{ClusterMatch, ListenerMatch, RouteConfigurationMatch};

use super::Context;
use super::merge::{Lists, NoMerge};
use mesh::cluster_names::INBOUND_PASSTHROUGH;
use mesh::finding;
use mesh::finding::code;
use mesh::keyed::hash_of_debug;

/// Names of the listeners that take all redirected traffic; their ports are those of their chains.
const VIRTUAL: [&str; 2] = ["virtualInbound", "virtualOutbound"];

/// One patch of an EnvoyFilter.
#[derive(Debug)]
pub struct Patch<T> {
    /// The EnvoyFilter.
    pub of: ObjectName,
    /// Its place among `configPatches`.
    pub at: usize,
    /// The side of the proxy.
    pub context: Context,
    /// What is done.
    pub operation: Operation,
    /// What it is done to; all of the kind where there is none.
    pub matching: Option<ObjectTypes>,
    /// What is added or laid over it; default for removals.
    pub value: T,
    /// The encoded size of the value in bytes.
    pub(super) size: usize,
    /// Of all the above.
    hash: u64,
}

impl<T: Message + fmt::Debug> Patch<T> {
    pub(super) fn new(
        (of, at): (ObjectName, usize),
        context: Context,
        operation: Operation,
        matching: Option<ObjectTypes>,
        value: T,
    ) -> Self {
        let mut patch = Self {
            size: value.encoded_len(),
            of,
            at,
            context,
            operation,
            matching,
            value,
            hash: 0,
        };
        patch.hash = hash_of_debug(&patch);
        patch
    }
}

impl<T> Patch<T> {
    /// Tells why the patch does not fit something that it is for.
    pub(super) fn misfit(&self, found: &mut Vec<Diagnostic>, target: &str, why: &NoMerge) {
        let message = format!("{target} stays as it is: {why}");
        let (kind, severity) = (Kind::EnvoyFilter, Severity::Error);
        let told = finding::about_named(kind, &self.of, code::UNUSABLE_PATCH, severity, message);
        found.push(told.at(format!("spec.configPatches[{}].patch.value", self.at)));
    }

    pub(super) fn is_for(&self, context: Context) -> bool {
        self.context == context || self.context == Context::Any
    }

    /// How a patch is laid over what is there; `None` for other operations.
    pub(super) fn lists(&self) -> Option<Lists> {
        match self.operation {
            Operation::Merge => Some(Lists::Append),
            Operation::MergeAndReplaceList => Some(Lists::Replace),
            _ => None,
        }
    }

    pub(super) fn cluster(&self) -> Option<&ClusterMatch> {
        match &self.matching {
            Some(ObjectTypes::Cluster(cluster)) => Some(cluster),
            _ => None,
        }
    }

    pub(super) fn listener(&self) -> Option<&ListenerMatch> {
        match &self.matching {
            Some(ObjectTypes::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    pub(super) fn route(&self) -> Option<&RouteConfigurationMatch> {
        match &self.matching {
            Some(ObjectTypes::RouteConfiguration(route)) => Some(route),
            _ => None,
        }
    }
}

impl<T: PartialEq> PartialEq for Patch<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.of == other.of
            && self.at == other.at
            && self.context == other.context
            && self.operation == other.operation
            && self.matching == other.matching
            && self.value == other.value
    }
}

/// Patches of one kind in the order in which they work. Clones share them.
pub struct Patches<T>(Arc<[Arc<Patch<T>>]>);

impl<T> Patches<T> {
    /// Those that may concern something.
    pub(super) fn retain(&self, concerns: impl Fn(&Patch<T>) -> bool) -> Self {
        if self.iter().all(&concerns) {
            return self.clone();
        }
        Self(self.0.iter().filter(|p| concerns(p)).cloned().collect())
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Patch<T>> {
        self.0.iter().map(|p| &**p)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> FromIterator<Arc<Patch<T>>> for Patches<T> {
    fn from_iter<I: IntoIterator<Item = Arc<Patch<T>>>>(patches: I) -> Self {
        Self(patches.into_iter().collect())
    }
}

impl<T> Default for Patches<T> {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl<T> Clone for Patches<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: PartialEq> PartialEq for Patches<T> {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&Arc<Patch<T>>, &Arc<Patch<T>>)| Arc::ptr_eq(a, b) || a == b;
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.len() == other.0.len() && self.0.iter().zip(other.0.iter()).all(same)
    }
}

impl<T: PartialEq> Eq for Patches<T> {}

impl<T> Hash for Patches<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for patch in self.iter() {
            patch.hash.hash(state);
        }
    }
}

impl<T> fmt::Debug for Patches<T> {
    /// By name and place: what an object holds is shown with the object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|p| format!("{}[{}]", p.of, p.at)))
            .finish()
    }
}

impl Patches<Cluster> {
    /// Those that may concern clusters of a host.
    pub fn of_host(&self, context: Context, host: &str) -> Self {
        self.retain(|p| {
            p.is_for(context)
                && p.operation != Operation::Add
                && p.cluster().is_none_or(|m| {
                    if m.name.is_empty() {
                        m.service.is_empty() || m.service == host
                    } else {
                        m.name.ends_with(host)
                    }
                })
        })
    }

    /// Those that may concern clusters of hosts.
    pub fn of_hosts(&self, context: Context) -> Self {
        self.retain(|p| p.is_for(context) && p.operation != Operation::Add)
    }

    /// Those that may concern the clusters that every proxy has, whose names say nothing of a service.
    pub fn of_fixed(&self) -> Self {
        self.retain(|p| {
            let all = |m: &ClusterMatch| {
                if m.name.is_empty() {
                    m.service.is_empty() && m.subset.is_empty() && m.port_number == 0
                } else {
                    !m.name.contains('|')
                }
            };
            p.operation != Operation::Add && p.cluster().is_none_or(all)
        })
    }
}

/// The patches of listeners and what lies inside them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ListenerPatches {
    /// Of listeners.
    pub listeners: Patches<Listener>,
    /// Of filters before the choice of a chain.
    pub listener_filters: Patches<ListenerFilter>,
    /// Of filter chains.
    pub chains: Patches<FilterChain>,
    /// Of filters of connections.
    pub network_filters: Patches<Filter>,
    /// Of filters of requests.
    pub http_filters: Patches<HttpFilter>,
}

impl ListenerPatches {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
            && self.listener_filters.is_empty()
            && self.chains.is_empty()
            && self.network_filters.is_empty()
            && self.http_filters.is_empty()
    }

    /// Those that are not only for another side of the proxy.
    pub fn of_side(&self, context: Context) -> Arc<Self> {
        Arc::new(Self {
            listeners: self.listeners.retain(|p| p.is_for(context)),
            listener_filters: self.listener_filters.retain(|p| p.is_for(context)),
            chains: self.chains.retain(|p| p.is_for(context)),
            network_filters: self.network_filters.retain(|p| p.is_for(context)),
            http_filters: self.http_filters.retain(|p| p.is_for(context)),
        })
    }

    /// Those that may concern a listener of that name and port; `None` where there are none.
    pub fn of_listener(&self, context: Context, name: &str, port: u16) -> Option<Arc<Self>> {
        fn own<T>(p: &Patch<T>, context: Context, name: &str, port: Option<u16>) -> bool {
            let matches = |m: &ListenerMatch| {
                (m.name.is_empty() || m.name == name)
                    && (m.port_number == 0
                        || port.is_none_or(|port| u32::from(port) == m.port_number))
            };
            p.is_for(context) && p.listener().is_none_or(matches)
        }
        let of_chains = (!VIRTUAL.contains(&name)).then_some(port);
        let narrowed = Self {
            listeners: self
                .listeners
                .retain(|p| p.operation != Operation::Add && own(p, context, name, Some(port))),
            listener_filters: self
                .listener_filters
                .retain(|p| own(p, context, name, of_chains)),
            chains: self.chains.retain(|p| own(p, context, name, of_chains)),
            network_filters: self
                .network_filters
                .retain(|p| own(p, context, name, of_chains)),
            http_filters: self
                .http_filters
                .retain(|p| own(p, context, name, of_chains)),
        };
        (!narrowed.is_empty()).then(|| Arc::new(narrowed))
    }
}

/// Whether a listener takes all redirected traffic.
pub(super) fn is_virtual(name: &str) -> bool {
    VIRTUAL.contains(&name)
}

/// The patches of route configurations and what lies inside them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct RoutePatches {
    /// Of route configurations.
    pub configs: Patches<RouteConfiguration>,
    /// Of virtual hosts.
    pub hosts: Patches<VirtualHost>,
    /// Of routes.
    pub routes: Patches<Route>,
}

impl RoutePatches {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.configs.is_empty() && self.hosts.is_empty() && self.routes.is_empty()
    }

    /// Those that may concern a route configuration of a side of the proxy; `None` where there are none.
    pub fn of_config(&self, context: Context, name: &str) -> Option<Arc<Self>> {
        self.named(context, |stated| stated == name)
    }

    /// Those that may concern the routes inside inbound listeners; `None` where there are none.
    pub fn of_inbound(&self) -> Option<Arc<Self>> {
        self.named(Context::SidecarInbound, |stated| {
            stated.starts_with("inbound|") || stated == INBOUND_PASSTHROUGH
        })
    }

    fn named(&self, context: Context, is_it: impl Fn(&str) -> bool) -> Option<Arc<Self>> {
        fn own<T>(p: &Patch<T>, context: Context, is_it: impl Fn(&str) -> bool) -> bool {
            let named = |m: &RouteConfigurationMatch| m.name.is_empty() || is_it(&m.name);
            p.is_for(context) && p.route().is_none_or(named)
        }
        let narrowed = Self {
            configs: self.configs.retain(|p| own(p, context, &is_it)),
            hosts: self.hosts.retain(|p| own(p, context, &is_it)),
            routes: self.routes.retain(|p| own(p, context, &is_it)),
        };
        (!narrowed.is_empty()).then(|| Arc::new(narrowed))
    }
}

/// A patch of any kind.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum AnyPatch {
    Cluster(Arc<Patch<Cluster>>),
    Listener(Arc<Patch<Listener>>),
    ListenerFilter(Arc<Patch<ListenerFilter>>),
    FilterChain(Arc<Patch<FilterChain>>),
    NetworkFilter(Arc<Patch<Filter>>),
    HttpFilter(Arc<Patch<HttpFilter>>),
    RouteConfiguration(Arc<Patch<RouteConfiguration>>),
    VirtualHost(Arc<Patch<VirtualHost>>),
    HttpRoute(Arc<Patch<Route>>),
    ExtensionConfig(Arc<Patch<TypedExtensionConfig>>),
}
