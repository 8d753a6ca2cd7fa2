//! What the statuses of objects of the Gateway API report.

mod class;
mod condition;
mod gateway;
mod listener_set;
mod listeners;
mod mesh;
mod policy;
mod pool;
mod reach;
mod route;

use model::{Kind, ObjectKey};
use serde_json::Value;

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

pub(crate) use condition::Conditions;

/// The status of an object of the Gateway API: the fields that are ours; `None` where it is not for us to tell.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StatusOf(pub ObjectKey);

impl Derive for StatusOf {
    type Stratum = Routes;
    type Value = Option<Value>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let name = &self.0.name;
        match self.0.kind {
            Kind::GatewayClass => class::status(read, name),
            Kind::KubeGateway => gateway::status(read, &self.0),
            Kind::ListenerSet => listener_set::status(read, &self.0),
            Kind::BackendTlsPolicy => policy::backend_tls(read, name),
            Kind::XBackendTrafficPolicy => policy::backend_traffic(read, name),
            Kind::XBackend => policy::xbackend(read, name),
            Kind::XMesh => mesh::status(read, name),
            Kind::HttpRoute
            | Kind::GrpcRoute
            | Kind::TlsRoute
            | Kind::TcpRoute
            | Kind::UdpRoute => route::status(read, &self.0),
            Kind::InferencePool => pool::status(read, name),
            _ => None,
        }
    }
}
