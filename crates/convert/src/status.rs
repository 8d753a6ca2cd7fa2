//! Objects with the status that they would get, as queries over the same stage.

use incr::Engine;
use model::kinds::kube::LoadBalancerIngress;
use model::{Kind, ObjectKey};
use serde_json::{Value, json};
use store::Snapshot;

use crate::ingress::StatusOf;
use crate::reader::Derivation;

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

/// Every object that gets a status, by kind, namespace and name.
pub fn all(snapshot: &Snapshot) -> Vec<Status> {
    let engine = Engine::new();
    let ingresses = snapshot.tables.ingresses.iter();
    let of = ingresses.filter_map(|ingress| {
        let name = &ingress.meta.name;
        let status = engine.get(snapshot, &Derivation(StatusOf(name.clone())));
        let addresses = status.as_ref().as_ref()?;
        let addresses: Vec<Value> = addresses.iter().map(address).collect();
        Some(Status {
            object: ObjectKey {
                kind: Kind::Ingress,
                name: name.clone(),
            },
            status: json!({ "loadBalancer": { "ingress": addresses } }),
        })
    });
    of.collect()
}

fn address(at: &LoadBalancerIngress) -> Value {
    if at.ip.is_empty() {
        json!({ "hostname": *at.hostname })
    } else {
        json!({ "ip": *at.ip })
    }
}
