//! Services that requests lead to and that have no endpoints.

use std::collections::BTreeMap;

use incr::Cx;
use model::kinds::gateway_api::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute};
use model::kinds::kube::{EndpointSlice, Ingress, Service};
use model::{Object, ObjectKey, Severity};
use store::index::reference_value;
use store::snapshot::Stored;
use store::{ObjectIndex, Reads, Snapshot};

use crate::code;
use crate::facts::workloads::EntryWith;
use crate::finding::Report;

/// Says of the Services that are made for Gateways who made them.
const MANAGED: &str = "gateway.istio.io/managed";

/// A cluster has an EndpointSlice for each Service with a selector, whether or not anything is ready. So which are ready does not
/// matter here, and nothing is analysed again when that changes.
pub(crate) fn check(cx: &Cx<'_, Snapshot>, service: &Object<Service>, report: &mut Report<'_>) {
    let selector = &service.spec.selector;
    let is_alias = &*service.spec.service_type == "ExternalName";
    if is_alias || selector.is_empty() || service.meta.labels.contains(MANAGED) {
        return;
    }
    let name = &service.meta.name;
    let value = format!("{}/{}", name.namespace, name.name);
    if !cx
        .names_by::<EndpointSlice>(ObjectIndex::Service, &value)
        .is_empty()
    {
        return;
    }
    let Some(leads) = first_to(cx, service, &value) else {
        return;
    };
    let pairs = selector.iter();
    let labels: BTreeMap<String, String> = pairs
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let namespace = Some(name.namespace.clone());
    if *cx.query(&EntryWith { namespace, labels }) {
        return;
    }
    // Manifests that are for a cluster hold none at all.
    let worst = match cx.namespaces::<EndpointSlice>().is_empty() {
        true => Severity::Info,
        false => Severity::Warning,
    };
    report
        .add(
            service,
            &code::NO_ENDPOINTS,
            "spec.selector",
            format!(
                "no EndpointSlice belongs to the Service and no WorkloadEntry has its labels, so requests that {leads} sends \
                 there get 503"
            ),
        )
        .help(
            "a cluster makes EndpointSlices of Pods; in a folder or the store, write one with the label kubernetes.io/service-name",
        )
        .at_most(worst);
}

/// The first Ingress or route that leads to a Service.
fn first_to(cx: &Cx<'_, Snapshot>, service: &Object<Service>, value: &str) -> Option<ObjectKey> {
    let target = reference_value(&service.key());
    let by_route = ObjectIndex::Target;
    first::<Ingress>(cx, ObjectIndex::Service, value)
        .or_else(|| first::<HttpRoute>(cx, by_route, &target))
        .or_else(|| first::<GrpcRoute>(cx, by_route, &target))
        .or_else(|| first::<TlsRoute>(cx, by_route, &target))
        .or_else(|| first::<TcpRoute>(cx, by_route, &target))
}

fn first<T: Stored>(cx: &Cx<'_, Snapshot>, index: ObjectIndex, value: &str) -> Option<ObjectKey> {
    let names = cx.names_by::<T>(index, value);
    names.into_iter().next().map(|name| ObjectKey {
        kind: T::KIND,
        name,
    })
}
