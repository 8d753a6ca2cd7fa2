//! Who may read what: translators run in an order, and one reads only what is made before it.
//!
//! Each kind that a translator reads or makes has a row in the list below, which names the stratum that makes it.
//! [`Reader`](crate::Reader) gives a translator only kinds of earlier strata, and [`Made`](crate::Made) takes from it
//! only kinds of its own. So no translator can read what it, or a later one, makes, and derivation has no cycles:
//!
//! ```compile_fail,E0277
//! use model::kinds::istio::VirtualService;
//! use pilothouse_convert::{Reader, strata::Routes};
//!
//! // A translator of routes must not see VirtualServices: some are its own.
//! fn translate(read: &Reader<'_, '_, Routes>) {
//!     read.get::<VirtualService>(&Default::default());
//! }
//! ```
//!
//! ```compile_fail,E0271
//! use model::{Object, kinds::kube::Service};
//! use pilothouse_convert::{Made, strata::Routes};
//!
//! // Nor can it make an object of a kind that it may read.
//! fn translate(service: Object<Service>) -> Made<Routes> {
//!     Made::new(service)
//! }
//! ```

use model::kinds::{gateway_api, higress, istio, knative, kube, multicluster};
use store::snapshot::Stored;

/// Kinds that are only ever written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Written {}

/// Services, made of backends that are none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Services {}

/// Gateways, routes and settings of backends, made of Ingresses and of the Gateway API.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Routes {}

/// What is there before the translators of `S` run.
pub trait Before<S> {}

impl Before<Services> for Written {}
impl Before<Routes> for Written {}
impl Before<Routes> for Services {}

/// A kind that translators read or make.
pub trait Layered: Stored {
    /// The stratum whose translators make it.
    type MadeIn;
}

macro_rules! layers {
    ($($stratum:ident: $($kind:path),+;)+) => {
        $($(impl Layered for $kind { type MadeIn = $stratum; })+)+
    };
}

layers! {
    Written: kube::Ingress, kube::IngressClass, kube::Service, kube::EndpointSlice, kube::Pod, kube::Node,
        kube::NamespaceSpec, kube::Secret, kube::ConfigMap,
        gateway_api::GatewayClass, gateway_api::Gateway, gateway_api::ListenerSet, gateway_api::HttpRoute,
        gateway_api::GrpcRoute, gateway_api::TlsRoute, gateway_api::TcpRoute, gateway_api::UdpRoute,
        gateway_api::ReferenceGrant, gateway_api::BackendTlsPolicy, gateway_api::XBackend,
        gateway_api::XBackendTrafficPolicy, gateway_api::XMesh, gateway_api::InferencePool,
        multicluster::ServiceImport, knative::Ingress, higress::Http2Rpc;
    Services: istio::ServiceEntry;
    Routes: istio::Gateway, istio::VirtualService, istio::DestinationRule;
}
