//! Services and endpoints as queries over ServiceEntry, WorkloadEntry and the Kubernetes kinds.
//!
//! ```text
//! ServiceEntry ──▶ EntryServices ─┐
//! Service ───────▶ KubeService ───┼▶ InNamespace ──▶ VisibleTo        OfHost
//! InferencePool ──▶ KubeService ───┤
//! ServiceImport ─▶ ImportedService ┘
//! ServiceEntry, WorkloadEntry, Pod, EndpointSlice, shards ──▶ EndpointsOf
//! ```
//!
//! Services and endpoints are apart: when only endpoints of a ServiceEntry change, its [`EntryServices`] are derived
//! again, come out equal, and nothing above them runs.

mod accounts;
mod address;
mod alias;
mod allocation;
mod charge;
mod cluster_local;
mod endpoints;
mod entry;
mod identity;
pub(crate) mod kube;
mod kube_endpoints;
mod mcs;
pub(crate) mod network;
mod pod;
mod pool;
mod remembered;
mod targets;
mod trust_domain;
mod visibility;
mod workload;

use std::sync::Arc;

use incr::{Cx, Query};
use model::host::Hostname;
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::Service as KubeObject;
use model::kinds::multicluster::ServiceImport;
use model::names::Namespace;
use model::object::ObjectName;
use model::service::{Registry, Service, Visibility};
use store::{ObjectIndex, Reads, Snapshot};

pub use accounts::AccountsOf;
pub use address::Addressing;
pub use allocation::{Allocation, Displaced, DisplacedAddresses};
use charge::crowded_out;
pub use charge::{ServicesOver, SlicesOver, entry_is_over};
pub use cluster_local::is_cluster_local;
pub use endpoints::EndpointsOf;
pub use endpoints::RefusedEndpoints;
pub use entry::EntryServices;
pub use entry::{excess, too_many_endpoints};
pub use identity::Identity;
pub use kube::{ClusterService, KubeService, host_of, name_of, protocol};
pub use mcs::ImportedService;
pub use network::network_of;
pub use pod::{PodOf, WorkloadOfPod, pod_of};
pub use pool::PoolHosts;
pub use remembered::to_remember;
pub use targets::{labels_at, targets_of};
pub use workload::{Topology, with_topology};
pub use workload::{Workload, WorkloadOfEntry};

/// Services in Istio's order.
pub type ServiceList = Arc<[Arc<Service>]>;

/// Sorts services: the oldest first, then by name, then by namespace, as Istio does. The name of what is no Service of Kubernetes
/// is its host. Services that tie stay as they are.
pub fn sort(services: &mut [Arc<Service>]) {
    services.sort_by(|a, b| {
        (a.created, &a.name, &a.namespace).cmp(&(b.created, &b.name, &b.namespace))
    });
}

/// Every service of a namespace, whoever may see it, in Istio's order.
///
/// A ServiceEntry with several addresses is several services of one host, and several objects may declare one host:
/// whoever needs one service for each host chooses.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct InNamespace(pub Namespace);

impl Query<Snapshot> for InNamespace {
    type Value = ServiceList;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ServiceList {
        let mut services = Vec::new();
        let mut names = cx.names_in::<KubeObject>(&self.0);
        let left_out = crowded_out(cx, &self.0);
        names.retain(|name| !left_out.contains(name));
        names.extend(pool::names_in(cx, &self.0));
        names.sort();
        for name in once(names) {
            services.extend((*cx.query(&KubeService(name))).clone());
        }
        if cx.settings().features.mcs_host {
            for name in once(cx.names_in::<ServiceImport>(&self.0)) {
                services.extend((*cx.query(&ImportedService(name))).clone());
            }
        }
        for entry in cx.names_in::<ServiceEntry>(&self.0) {
            services.extend(cx.query(&EntryServices(entry)).iter().cloned());
        }
        sort(&mut services);
        services.into()
    }
}

/// Each name once, though several clusters have it.
fn once(mut names: Vec<ObjectName>) -> impl Iterator<Item = ObjectName> {
    names.dedup_by(|b, a| a.is_namesake(b));
    names.into_iter().map(|name| name.in_cluster(None))
}

/// The services of one namespace that another one may see, in Istio's order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Shown {
    from: Namespace,
    /// `None`: what everybody may see; else what is shown to this namespace by name.
    to: Option<Namespace>,
}

impl Query<Snapshot> for Shown {
    type Value = ServiceList;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ServiceList {
        let all = cx.query(&InNamespace(self.from.clone()));
        let shown = |service: &&Arc<Service>| match (&service.export_to, &self.to) {
            (Visibility::Public, to) => to.is_none(),
            (Visibility::Namespaces(_), None) => false,
            (listed, Some(to)) => listed.allows(to),
        };
        all.iter().filter(shown).cloned().collect()
    }
}

/// Every service that everybody may see, in Istio's order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Public;

impl Query<Snapshot> for Public {
    type Value = ServiceList;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ServiceList {
        shown(cx, None)
    }
}

fn shown(cx: &Cx<'_, Snapshot>, to: Option<&Namespace>) -> ServiceList {
    let mut services = Vec::new();
    for from in cx.query(&ServiceNamespaces).iter() {
        let (from, to) = (from.clone(), to.cloned());
        services.extend(cx.query(&Shown { from, to }).iter().cloned());
    }
    sort(&mut services);
    services.into()
}

/// The namespaces that hold services, sorted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServiceNamespaces;

impl Query<Snapshot> for ServiceNamespaces {
    type Value = Arc<[Namespace]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<[Namespace]> {
        let mut all = cx.namespaces::<ServiceEntry>();
        all.extend(cx.namespaces::<KubeObject>());
        all.extend(pool::namespaces(cx));
        all.sort();
        all.dedup();
        all.into()
    }
}

/// Every service that a namespace may see: first those that are shown to it by name, then the public ones, both in
/// Istio's order: oldest first, then by name and namespace.
///
/// One host may be there several times: see [`InNamespace`].
///
/// Istio: pilot/pkg/model/push_context.go servicesExportedToNamespace, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VisibleTo(pub Namespace);

impl Query<Snapshot> for VisibleTo {
    type Value = ServiceList;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ServiceList {
        let named = shown(cx, Some(&self.0));
        let public = cx.query(&Public);
        if named.is_empty() {
            return (*public).clone();
        }
        named.iter().chain(public.iter()).cloned().collect()
    }
}

/// The services of a host in every namespace, whoever may see them: one for each namespace, sorted by namespace. Of
/// several in one namespace, Kubernetes services win, then the oldest.
///
/// Istio: pilot/pkg/model/push_context.go initServiceRegistry (`HostnameAndNamespace`), 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OfHost(pub Hostname);

impl Query<Snapshot> for OfHost {
    type Value = ServiceList;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ServiceList {
        let mut found = Vec::new();
        if let Some(name) = name_of(&self.0, &cx.settings().domain) {
            found.extend((*cx.query(&KubeService(name))).clone());
        }
        if let Some(name) = mcs::imported_name(cx, &self.0) {
            found.extend((*cx.query(&ImportedService(name))).clone());
        }
        for entry in cx.names_by::<ServiceEntry>(ObjectIndex::Host, &self.0.to_ascii_lowercase()) {
            let services = cx.query(&EntryServices(entry));
            found.extend(services.iter().filter(|s| s.host == self.0).cloned());
        }
        sort(&mut found);
        // Stable: the order within a namespace and a registry stays.
        found.sort_by(|a, b| {
            let rank = |s: &Service| s.registry != Registry::Kubernetes;
            (&a.namespace, rank(a)).cmp(&(&b.namespace, rank(b)))
        });
        found.dedup_by(|b, a| a.namespace == b.namespace);
        found.into()
    }
}
