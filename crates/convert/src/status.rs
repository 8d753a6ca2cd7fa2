//! Objects with the status that they would get, as queries over the same stage.

mod live;

use std::sync::Arc;

use incr::{Cx, Engine, Query, RootId};
use model::kinds::kube::LoadBalancerIngress;
use model::{Kind, ObjectKey};
use serde_json::{Value, json};
use store::Snapshot;

use crate::gateway_api::StatusOf;
use crate::ingress;
use crate::knative;
use crate::reader::Derivation;

pub(crate) use live::LiveStatuses;

/// The annotation of documents about objects of remote clusters.
pub const CLUSTER: &str = "pilothouse.io/cluster";

/// An object and its status.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// Which object.
    pub object: ObjectKey,
    /// The status, as its field `status` holds it.
    pub status: Value,
}

impl Status {
    /// The object as a document that holds nothing but its status.
    pub fn document(&self) -> Value {
        let ObjectKey { kind, name, .. } = &self.object;
        let mut metadata = json!({ "name": *name.name });
        if !name.namespace.is_empty() {
            metadata["namespace"] = Value::from(&*name.namespace);
        }
        if let Some(cluster) = &name.cluster {
            metadata["annotations"] = json!({ CLUSTER: cluster.as_str() });
        }
        json!({
            "apiVersion": kind.api_version(),
            "kind": kind.name(),
            "metadata": metadata,
            "status": self.status,
        })
    }
}

/// Documents as kubectl lists them.
pub fn list(statuses: &[Status]) -> Value {
    let items: Vec<Value> = statuses.iter().map(Status::document).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// An object whose status became another.
#[derive(Clone, PartialEq, Debug)]
pub struct StatusChange {
    /// Which object.
    pub object: ObjectKey,
    /// Its status; `None` where it is not for us to tell.
    pub status: Arc<Option<Value>>,
}

/// The kinds whose objects get a status.
pub const KINDS: [Kind; 15] = [
    Kind::Ingress,
    Kind::KnativeIngress,
    Kind::GatewayClass,
    Kind::KubeGateway,
    Kind::ListenerSet,
    Kind::HttpRoute,
    Kind::GrpcRoute,
    Kind::TlsRoute,
    Kind::TcpRoute,
    Kind::UdpRoute,
    Kind::BackendTlsPolicy,
    Kind::XBackend,
    Kind::XBackendTrafficPolicy,
    Kind::XMesh,
    Kind::InferencePool,
];

/// Whether an object may get a status: of other clusters only Ingresses do, the rest gets theirs there.
pub(crate) fn is_told(object: &ObjectKey) -> bool {
    match object.name.cluster {
        None => KINDS.contains(&object.kind),
        Some(_) => object.kind == Kind::Ingress,
    }
}

/// Keeps the status of an object up to date from here on.
pub(crate) fn register(engine: &mut Engine<Snapshot>, object: &ObjectKey) -> RootId {
    match object.kind {
        Kind::Ingress => engine.root(&Derivation(ingress::StatusOf(object.name.clone()))),
        Kind::KnativeIngress => engine.root(&Derivation(knative::StatusOf(object.name.clone()))),
        _ => engine.root(&Derivation(StatusOf(object.clone()))),
    }
}

/// The status of an object at the last commit.
pub(crate) fn pull(
    engine: &Engine<Snapshot>,
    snapshot: &Snapshot,
    object: &ObjectKey,
) -> Arc<Option<Value>> {
    if object.kind == Kind::KnativeIngress {
        return engine.get(
            snapshot,
            &Derivation(knative::StatusOf(object.name.clone())),
        );
    }
    if object.kind != Kind::Ingress {
        return engine.get(snapshot, &Derivation(StatusOf(object.clone())));
    }
    let status = engine.get(
        snapshot,
        &Derivation(ingress::StatusOf(object.name.clone())),
    );
    let status = status.as_ref().as_ref().map(|addresses| {
        let addresses: Vec<Value> = addresses.iter().map(address).collect();
        json!({ "loadBalancer": { "ingress": addresses } })
    });
    Arc::new(status)
}

/// The status of an object of the Gateway API; `None` where it is not for us to tell.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OfGatewayApi(pub ObjectKey);

impl Query<Snapshot> for OfGatewayApi {
    type Value = Option<Value>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        match self.0.name.cluster {
            Some(_) => None,
            None => (*cx.query(&Derivation(StatusOf(self.0.clone())))).clone(),
        }
    }
}

/// Every object that gets a status, by kind, namespace and name.
pub fn all(snapshot: &Snapshot) -> Vec<Status> {
    let engine = Engine::new();
    let objects = KINDS
        .iter()
        .flat_map(|kind| snapshot.tables.iter_any(*kind));
    let keys = objects.map(|object| object.key()).filter(is_told);
    let statuses = keys.filter_map(|object| {
        let status = pull(&engine, snapshot, &object);
        let status = status.as_ref().clone()?;
        Some(Status { object, status })
    });
    let mut all: Vec<Status> = statuses.collect();
    all.sort_by(|a, b| a.object.cmp(&b.object));
    all
}

fn address(at: &LoadBalancerIngress) -> Value {
    if at.ip.is_empty() {
        json!({ "hostname": *at.hostname })
    } else {
        json!({ "ip": *at.ip })
    }
}
