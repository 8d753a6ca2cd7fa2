//! The control plane as a pod of its own store: clients find it there, and reach its ports through the API.

use std::sync::Arc;

use serde_json::{Value, json};

use super::implied::Row;
use super::request::ObjectTarget;
use super::{Api, Request, Response};
use crate::access::Verb;
use crate::forward::OwnPod;
use crate::object::{now, uid_of};
use crate::resource::Resource;
use crate::status::Failure;
use crate::store::{ObjectId, Stored};

impl Api {
    /// Shows the control plane as a pod from here on. The first that is told stays.
    pub fn set_own_pod(&self, pod: OwnPod) {
        self.implied.set_pod(pod);
    }

    /// Begins to forward the ports of the control plane.
    pub(super) fn forward(
        &self,
        request: &mut Request,
        target: &ObjectTarget,
        resource: &Resource,
    ) -> Result<Response, Failure> {
        let (Some(namespace), Some(name)) = (&target.namespace, &target.name) else {
            return Err(Failure::no_path());
        };
        let verb = Verb::Create;
        let allowed = self
            .access()
            .allow(&request.who, verb, "pods/portforward", Some(namespace));
        if let Err(why) = allowed {
            let why = why.in_words(&request.who, verb, resource, Some(namespace));
            return Err(Failure::forbidden(resource, name, &why));
        }
        let own = self.implied.pod();
        let own = own.filter(|pod| pod.namespace == *namespace && pod.name == *name);
        let Some(pod) = own else {
            return Err(
                match self.found(resource, &ObjectId::new(namespace, name)) {
                    Some(_) => Failure::bad_request(
                        "nothing runs here: ports are forwarded of the control plane's own pod alone",
                    ),
                    None => Failure::not_found(resource, name),
                },
            );
        };
        let upgrade = request.upgrade.take().ok_or_else(|| {
            Failure::bad_request(
                "port forwarding begins with an upgrade to SPDY/3.1, or to a WebSocket of the protocol \
                 SPDY/3.1+portforward.k8s.io",
            )
        })?;
        let place = self.forwarding.clone().try_acquire_owned();
        Ok(upgrade.begin(pod, place.map_err(|_| Failure::too_many())?))
    }
}

/// The pod as an object.
pub(super) fn row(pod: &OwnPod) -> Row {
    let since = now();
    let ports: Vec<Value> = pod
        .ports
        .iter()
        .map(|(port, _)| json!({"containerPort": port, "protocol": "TCP"}))
        .collect();
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let image = concat!("pilothouse:", env!("CARGO_PKG_VERSION"));
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod.name, "namespace": pod.namespace,
            "uid": uid_of(&format!("pod/{}/{}", pod.namespace, pod.name)),
            "resourceVersion": "1", "creationTimestamp": since,
            "labels": pod.labels, "annotations": pod.annotations,
        },
        "spec": {"containers": [{"name": "discovery", "image": image, "ports": ports}]},
        "status": {
            "phase": "Running", "startTime": since, "conditions": conditions,
            "containerStatuses": [{
                "name": "discovery", "image": image, "imageID": "", "ready": true, "started": true, "restartCount": 0,
                "state": {"running": {"startedAt": since}},
            }],
        },
    });
    let id = ObjectId::new(&pod.namespace, &pod.name);
    (id, Arc::new(Stored::unsaved(&object)))
}
