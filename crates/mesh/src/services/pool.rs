//! InferencePools as services.
//!
//! In Istio a pool becomes a service by way of an object: a Service that stands for it, which the leader writes and whose
//! EndpointSlices the cluster makes. Here a pool is read as that Service, written or not, and its endpoints are its Pods.
//! So it works without a cluster, and where other control planes write the Service, it is the same one.
//!
//! Istio: pilot/pkg/config/kube/gateway/inferencepool_collection.go, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::Labels;
use model::host::Hostname;
use model::kinds::gateway_api::{
    InferencePool, PickerFailureMode, pool_host, pool_service, pool_service_name,
};
use model::kinds::kube;
use model::names::Namespace;
use model::object::{Object, ObjectKey, ObjectName};
use model::service::{Endpoint, Picker};
use store::index::label_value;
use store::{ObjectIndex, Reads, Snapshot};

use super::endpoints::at_port;
use super::kube::host_of;
use super::workload::selected;

/// A pool and what stands for it.
pub(super) struct Pool {
    object: Arc<Object<InferencePool>>,
    /// The Service that stands for it.
    pub(super) service: Arc<Object<kube::Service>>,
    /// Who picks its endpoints.
    pub(super) picker: Arc<Picker>,
}

impl Pool {
    fn of(cx: &Cx<'_, Snapshot>, pool: Arc<Object<InferencePool>>) -> Option<Self> {
        let service = pool_service(&pool)?;
        let picker = &pool.spec.endpoint_picker_ref;
        let host = ObjectName::new(pool.namespace().clone(), picker.name.clone());
        Some(Self {
            service: Arc::new(service),
            picker: Arc::new(Picker {
                host: host_of(&host, &cx.settings().domain),
                port: picker.port.as_ref()?.number,
                fails_open: picker.failure_mode == PickerFailureMode::FailOpen,
            }),
            object: pool,
        })
    }

    /// The pool that a Service stands for.
    pub(super) fn find(cx: &Cx<'_, Snapshot>, service: &ObjectName) -> Option<Self> {
        if !cx.settings().features.inference_extension {
            return None;
        }
        let value = format!("{}/{}", service.namespace, service.name);
        let found = cx.list_by::<InferencePool>(ObjectIndex::Service, &value);
        Self::of(cx, found.into_iter().next()?)
    }

    /// The pool itself.
    pub(super) fn key(&self) -> ObjectKey {
        self.object.key()
    }

    /// The Services that stand for pools which select a workload.
    pub(super) fn selecting(
        cx: &Cx<'_, Snapshot>,
        namespace: &Namespace,
        labels: &Labels,
    ) -> Vec<Arc<Object<kube::Service>>> {
        if !cx.settings().features.inference_extension {
            return Vec::new();
        }
        let by = |(key, value): (&Arc<str>, &Arc<str>)| {
            cx.list_by::<InferencePool>(ObjectIndex::Selector, &label_value(namespace, key, value))
        };
        let found = labels.iter().flat_map(by);
        let found = found.filter(|pool| labels.matches(&pool.spec.selector.match_labels));
        found
            .filter_map(|pool| Some(Self::of(cx, pool)?.service))
            .collect()
    }

    /// Its endpoints: each of its ports on each of the workloads that it selects.
    pub(super) fn endpoints(&self, cx: &Cx<'_, Snapshot>) -> Vec<Endpoint> {
        let selector = &self.object.spec.selector.match_labels;
        if selector.is_empty() {
            return Vec::new();
        }
        let mut workloads = selected(cx, self.object.namespace(), selector);
        workloads.retain(|workload| !workload.named && workload.name.cluster.is_none());
        let ports = &self.service.spec.ports;
        let mut endpoints = Vec::with_capacity(ports.len() * workloads.len());
        for (port, target) in ports.iter().zip(&self.object.spec.target_ports) {
            endpoints.extend(workloads.iter().map(|workload| Endpoint {
                address: at_port(&workload.endpoint.address, target.number),
                port_name: port.name.clone(),
                ..workload.endpoint.clone()
            }));
        }
        endpoints
    }
}

/// The Services that stand for the pools of a namespace.
pub(super) fn names_in(cx: &Cx<'_, Snapshot>, namespace: &Namespace) -> Vec<ObjectName> {
    if !cx.settings().features.inference_extension {
        return Vec::new();
    }
    let pools = cx.names_in::<InferencePool>(namespace).into_iter();
    pools
        .map(|pool| ObjectName::new(pool.namespace, pool_service_name(&pool.name)))
        .collect()
}

/// The namespaces that hold pools.
pub(super) fn namespaces(cx: &Cx<'_, Snapshot>) -> Vec<Namespace> {
    match cx.settings().features.inference_extension {
        true => cx.namespaces::<InferencePool>(),
        false => Vec::new(),
    }
}

/// The hosts of all pools.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PoolHosts;

impl Query<Snapshot> for PoolHosts {
    type Value = Arc<BTreeSet<Hostname>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let domain = &cx.settings().domain;
        let mut hosts = BTreeSet::new();
        for namespace in namespaces(cx) {
            let pools = cx.names_in::<InferencePool>(&namespace);
            hosts.extend(pools.iter().map(|pool| pool_host(pool, domain)));
        }
        Arc::new(hosts)
    }
}
