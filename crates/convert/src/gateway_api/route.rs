//! Routes of any kind.

use model::kinds::gateway_api::{GrpcRoute, HttpRoute, Route, TcpRoute, TlsRoute, UdpRoute};
use model::{Kind, ObjectKey, Timestamp};

use crate::reader::{Derive, Reader};
use crate::strata::{Layered, Routes, Written};

/// A kind of route that translators read.
pub(super) trait WrittenRoute: Route + Layered<MadeIn = Written> {}

impl<T: Route + Layered<MadeIn = Written>> WrittenRoute for T {}

/// Calls a function with the type of a route of that kind.
macro_rules! with_route_type {
    ($kind:expr, $function:ident($($argument:expr),*), $otherwise:expr) => {
        match $kind {
            Kind::HttpRoute => $function::<HttpRoute>($($argument),*),
            Kind::GrpcRoute => $function::<GrpcRoute>($($argument),*),
            Kind::TlsRoute => $function::<TlsRoute>($($argument),*),
            Kind::TcpRoute => $function::<TcpRoute>($($argument),*),
            Kind::UdpRoute => $function::<UdpRoute>($($argument),*),
            _ => $otherwise,
        }
    };
}
pub(super) use with_route_type;

/// When a route was created.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct CreatedOf(pub(super) ObjectKey);

impl Derive for CreatedOf {
    type Stratum = Routes;
    type Value = Option<Timestamp>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        fn of<T: WrittenRoute>(
            read: &Reader<'_, '_, Routes>,
            key: &ObjectKey,
        ) -> Option<Timestamp> {
            read.get::<T>(&key.name)?.meta.created
        }
        with_route_type!(self.0.kind, of(read, &self.0), None)
    }
}

/// The generation of a route; `None` where it is not there.
pub(super) fn generation(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Option<i64> {
    fn of<T: WrittenRoute>(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Option<i64> {
        Some(read.get::<T>(&key.name)?.meta.generation)
    }
    with_route_type!(key.kind, of(read, key), None)
}
