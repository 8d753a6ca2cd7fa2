//! Which labels of workloads an object reads.
//!
//! A workload has labels that nothing looks at: the hash of its Pod's template, the name of its node. Proxies that differ
//! in these alone get the same, so whoever makes a key of a proxy's labels takes those that some object reads.

use model::Object;
use model::kinds::Kinded;
use model::kinds::istio::{
    AuthorizationPolicy, DestinationRule, EnvoyFilter, PeerAuthentication, RequestAuthentication,
    ServiceEntry, Sidecar, Telemetry, TrafficExtension, VirtualService, WasmPlugin,
};
use model::kinds::kube::{NamespaceSpec, Service};
use proto_istio::networking::TrafficPolicy;
use proto_istio::types::{PolicyTargetReference, WorkloadSelector};

/// The label of a workload's node.
pub const NODE_LABEL: &str = "kubernetes.io/hostname";
/// The label by which a proxy says which Gateway API gateway it belongs to.
pub const GATEWAY_NAME_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
/// The annotation that says which endpoints of a service its clients prefer.
const TRAFFIC_DISTRIBUTION: &str = "networking.istio.io/traffic-distribution";

/// What a label is read for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// It decides whether the object concerns a workload.
    Selection,
    /// It is compared with that of endpoints.
    Place,
}

/// A kind whose objects read labels of workloads.
pub trait LabelReader: Kinded {
    /// Whether its objects may concern workloads of other namespaces than their own and, for those of the root
    /// namespace, of all.
    const MESH_WIDE: bool = false;

    /// Calls `take` with the name of each label that the object reads.
    fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str));
}

fn of_target<'a>(
    selector: Option<&'a WorkloadSelector>,
    references: impl IntoIterator<Item = &'a PolicyTargetReference>,
    take: &mut dyn FnMut(Reading, &str),
) {
    for key in selector.iter().flat_map(|s| s.match_labels.keys()) {
        take(Reading::Selection, key);
    }
    if references.into_iter().next().is_some() {
        take(Reading::Selection, GATEWAY_NAME_LABEL);
    }
}

macro_rules! by_target {
    ($($kind:ty: $selector:ident $(, $references:ident)*;)+) => {$(
        impl LabelReader for $kind {
            fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str)) {
                let references: [Option<&PolicyTargetReference>; 0] = [];
                let references = references.into_iter().flatten();
                $(let references = references.chain(object.spec.$references.iter());)*
                of_target(object.spec.$selector.as_ref(), references, take);
            }
        }
    )+};
}

by_target! {
    AuthorizationPolicy: selector, target_refs, target_ref;
    PeerAuthentication: selector;
    RequestAuthentication: selector, target_refs, target_ref;
    Telemetry: selector, target_refs, target_ref;
    TrafficExtension: selector, target_refs;
    WasmPlugin: selector, target_refs, target_ref;
}

impl LabelReader for Sidecar {
    fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str)) {
        let selector = object.spec.workload_selector.iter();
        for key in selector.flat_map(|s| s.labels.keys()) {
            take(Reading::Selection, key);
        }
    }
}

impl LabelReader for EnvoyFilter {
    fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str)) {
        let selector = object.spec.workload_selector.iter();
        for key in selector.flat_map(|s| s.labels.keys()) {
            take(Reading::Selection, key);
        }
        of_target(None, &object.spec.target_refs, take);
    }
}

impl LabelReader for VirtualService {
    const MESH_WIDE: bool = true;

    fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str)) {
        let spec = &object.spec;
        let http = spec.http.iter().flat_map(|r| &r.r#match);
        let tls = spec.tls.iter().flat_map(|r| &r.r#match);
        let tcp = spec.tcp.iter().flat_map(|r| &r.r#match);
        http.flat_map(|m| m.source_labels.keys())
            .chain(tls.flat_map(|m| m.source_labels.keys()))
            .chain(tcp.flat_map(|m| m.source_labels.keys()))
            .for_each(|key| take(Reading::Selection, key));
    }
}

impl LabelReader for DestinationRule {
    fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str)) {
        let spec = &object.spec;
        of_target(spec.workload_selector.as_ref(), [], take);
        let subsets = spec.subsets.iter().map(|s| &s.traffic_policy);
        let policies = std::iter::once(&spec.traffic_policy).chain(subsets);
        for label in policies.flatten().flat_map(failover_labels) {
            take(Reading::Place, label);
        }
    }
}

/// The names of the labels by which a policy orders endpoints.
fn failover_labels(policy: &TrafficPolicy) -> impl Iterator<Item = &str> {
    let ports = policy.port_level_settings.iter();
    let balancers = ports.filter_map(|p| p.load_balancer.as_ref());
    policy
        .load_balancer
        .iter()
        .chain(balancers)
        .flat_map(|lb| {
            let locality = lb.locality_lb_setting.iter();
            let zones = lb.zone_aware_lb_setting.iter();
            let locality = locality.flat_map(|s| &s.failover_priority);
            locality.chain(zones.flat_map(|s| &s.failover_priority))
        })
        .map(|priority| label_of(priority))
}

/// The label of a priority, which is its name or `name=value`.
pub fn label_of(priority: &str) -> &str {
    priority.split_once('=').map_or(priority, |(name, _)| name)
}

impl LabelReader for Service {
    fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str)) {
        let spec = &object.spec;
        if &*spec.internal_traffic_policy == "Local"
            || &*spec.traffic_distribution == "PreferSameNode"
            || prefers_node(object)
        {
            take(Reading::Place, NODE_LABEL);
        }
    }
}

impl LabelReader for ServiceEntry {
    fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str)) {
        if prefers_node(object) {
            take(Reading::Place, NODE_LABEL);
        }
    }
}

impl LabelReader for NamespaceSpec {
    fn labels_read(object: &Object<Self>, take: &mut dyn FnMut(Reading, &str)) {
        if prefers_node(object) {
            take(Reading::Place, NODE_LABEL);
        }
    }
}

fn prefers_node<T: Kinded>(object: &Object<T>) -> bool {
    let stated = object.meta.annotations.get(TRAFFIC_DISTRIBUTION);
    stated.is_some_and(|stated| stated.eq_ignore_ascii_case("PreferSameNode"))
}
