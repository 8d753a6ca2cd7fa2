//! Endpoints of Kubernetes that are not as they should be, by istiod's names.
// Istio: pilot/pkg/model/push_context.go, pilot/pkg/serviceregistry/kube/controller/endpointslice.go, 1.32.

use std::sync::{Mutex, PoisonError};

use model::ObjectName;
use prometheus::{IntGauge, Registry};
use store::Snapshot;

use super::gauge;

/// Endpoints that are not as they should be.
pub struct Slices {
    not_ready: IntGauge,
    without_pod: IntGauge,
    /// The revision that was counted last.
    counted: Mutex<u64>,
}

impl Slices {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            not_ready: gauge(
                registry,
                "pilot_endpoint_not_ready",
                "Endpoints of EndpointSlices that are not ready.",
            )?,
            without_pod: gauge(
                registry,
                "endpoint_no_pod",
                "Endpoints of EndpointSlices whose Pod is not there.",
            )?,
            counted: Mutex::default(),
        })
    }

    /// Counts those of a snapshot, unless they are counted already. Looks at every endpoint.
    pub fn see(&self, snapshot: &Snapshot) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if *counted == snapshot.revision {
            return;
        }
        *counted = snapshot.revision;
        let (mut not_ready, mut without_pod) = (0, 0);
        for slice in snapshot.tables.endpoint_slices.iter() {
            let cluster = slice.meta.name.cluster.as_ref();
            for endpoint in &slice.spec.endpoints {
                not_ready += i64::from(endpoint.conditions.ready == Some(false));
                let pod = endpoint.target_ref.as_ref();
                let is_missing = pod.filter(|pod| &*pod.kind == "Pod").is_some_and(|pod| {
                    let name = ObjectName::new(&*pod.namespace, &*pod.name);
                    let pods = &snapshot.tables.pods;
                    pods.get(&name.in_cluster(cluster)).is_none()
                });
                without_pod += i64::from(is_missing);
            }
        }
        self.not_ready.set(not_ready);
        self.without_pod.set(without_pod);
    }
}

#[cfg(test)]
mod tests {
    use testkit::World;

    use crate::metrics::Metrics;

    #[test]
    fn endpoints_are_counted_that_are_not_ready_or_have_no_pod() {
        let metrics = Metrics::new().unwrap();
        let mut world = World::of(
            r#"
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop}, spec: {}, status: {podIP: 10.0.0.1}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice,
 metadata: {name: web-a, namespace: shop, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{port: 80}],
 endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {kind: Pod, namespace: shop, name: web-1}},
             {addresses: [10.0.0.2], conditions: {ready: false}, targetRef: {kind: Pod, namespace: shop, name: web-2}}]}
"#,
        );
        metrics.slices.see(&world.store.snapshot());
        let text = metrics.text().unwrap();
        assert!(text.contains("\npilot_endpoint_not_ready 1\n"), "{text}");
        assert!(text.contains("\nendpoint_no_pod 1\n"), "{text}");
        world.put("{apiVersion: v1, kind: Pod, metadata: {name: web-2, namespace: shop}, spec: {}, status: {podIP: 10.0.0.2}}");
        metrics.slices.see(&world.store.snapshot());
        assert!(metrics.text().unwrap().contains("\nendpoint_no_pod 0\n"));
    }
}
