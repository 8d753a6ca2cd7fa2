//! Objects with the status that they would get, as queries over the same stage.

use incr::{Cx, Engine, Query};
use model::kinds::gateway_api;
use model::kinds::kube::{Ingress, LoadBalancerIngress};
use model::{Kind, ObjectKey, ObjectName};
use serde_json::{Value, json};
use store::snapshot::Stored;
use store::{Reads, Snapshot};

use crate::gateway_api::StatusOf;
use crate::ingress;
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
        let mut all: Vec<Status> = of_ingresses(cx).collect();
        macro_rules! of_gateway_api {
            ($($kind:ident),+) => {
                $(all.extend(of_kind::<gateway_api::$kind>(cx));)+
            };
        }
        of_gateway_api!(
            GatewayClass,
            Gateway,
            ListenerSet,
            HttpRoute,
            GrpcRoute,
            TlsRoute,
            TcpRoute,
            UdpRoute,
            BackendTlsPolicy,
            XBackend,
            XBackendTrafficPolicy,
            XMesh,
            InferencePool
        );
        all.sort_by(|a, b| a.object.cmp(&b.object));
        all
    }
}

fn names<T: Stored>(cx: &Cx<'_, Snapshot>) -> impl Iterator<Item = ObjectName> {
    let namespaces = cx.namespaces::<T>().into_iter();
    namespaces.flat_map(|namespace| cx.names_in::<T>(&namespace))
}

fn of_ingresses(cx: &Cx<'_, Snapshot>) -> impl Iterator<Item = Status> {
    names::<Ingress>(cx).filter_map(|name| {
        let status = cx.query(&Derivation(ingress::StatusOf(name.clone())));
        let addresses = status.as_ref().as_ref()?;
        let addresses: Vec<Value> = addresses.iter().map(address).collect();
        Some(Status {
            object: ObjectKey {
                kind: Kind::Ingress,
                name,
            },
            status: json!({ "loadBalancer": { "ingress": addresses } }),
        })
    })
}

/// Other clusters tell the statuses of their own objects.
fn of_kind<T: Stored>(cx: &Cx<'_, Snapshot>) -> impl Iterator<Item = Status> {
    let names = names::<T>(cx).filter(|name| name.cluster.is_none());
    names.filter_map(|name| {
        let object = ObjectKey {
            kind: T::KIND,
            name,
        };
        let status = cx.query(&Derivation(StatusOf(object.clone())));
        let status = status.as_ref().clone()?;
        Some(Status { object, status })
    })
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
    Engine::new().get(snapshot, &Statuses).to_vec()
}

fn address(at: &LoadBalancerIngress) -> Value {
    if at.ip.is_empty() {
        json!({ "hostname": *at.hostname })
    } else {
        json!({ "ip": *at.ip })
    }
}
