//! Objects with the status that they would get, as queries over the same stage.

use incr::{Cx, Engine, Query};
use model::kinds::kube::{Ingress, LoadBalancerIngress};
use model::{Kind, ObjectKey};
use serde_json::{Value, json};
use store::{Reads, Snapshot};

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

/// The statuses of all objects that get one, kept up to date by an engine that has this as a root.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Statuses;

impl Query<Snapshot> for Statuses {
    type Value = Vec<Status>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let namespaces = cx.namespaces::<Ingress>().into_iter();
        let names = namespaces.flat_map(|namespace| cx.names_in::<Ingress>(&namespace));
        let of = names.filter_map(|name| {
            let status = cx.query(&Derivation(StatusOf(name.clone())));
            let addresses = status.as_ref().as_ref()?;
            let addresses: Vec<Value> = addresses.iter().map(address).collect();
            Some(Status {
                object: ObjectKey {
                    kind: Kind::Ingress,
                    name,
                },
                status: json!({ "loadBalancer": { "ingress": addresses } }),
            })
        });
        let mut all: Vec<Status> = of.collect();
        all.sort_by(|a, b| a.object.cmp(&b.object));
        all
    }
}

/// Every object that gets a status, by kind, namespace and name.
pub fn all(snapshot: &Snapshot) -> Vec<Status> {
    Engine::new().get(snapshot, &Statuses).to_vec()
}

fn address(at: &LoadBalancerIngress) -> Value {
    if at.ip.is_empty() {
        json!({ "hostname": *at.hostname })
    } else {
        json!({ "ip": *at.ip })
    }
}
