//! Routes of any kind.

use std::collections::BTreeSet;

use model::kinds::gateway_api::{GrpcRoute, HttpRoute, Route, TcpRoute, TlsRoute, UdpRoute};
use model::{Age, Kind, Namespace, ObjectKey};
use store::index::ObjectIndex;

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

/// The routes of a kind with an index value. Those of other clusters are theirs.
pub(super) fn of_kind_by<T: WrittenRoute>(
    read: &Reader<'_, '_, Routes>,
    index: ObjectIndex,
    value: &str,
) -> impl Iterator<Item = ObjectKey> + use<T> {
    let names = read.names_by::<T>(index, value).into_iter();
    let own = names.filter(|name| name.cluster.is_none());
    own.map(|name| ObjectKey {
        kind: T::KIND,
        name,
    })
}

/// The HTTPRoutes and GRPCRoutes with an index value.
pub(super) fn of_requests_by(
    read: &Reader<'_, '_, Routes>,
    index: ObjectIndex,
    value: &str,
) -> impl Iterator<Item = ObjectKey> + use<> {
    of_kind_by::<HttpRoute>(read, index, value).chain(of_kind_by::<GrpcRoute>(read, index, value))
}

/// The routes of any kind with an index value.
pub(super) fn of_any_kind_by(
    read: &Reader<'_, '_, Routes>,
    index: ObjectIndex,
    value: &str,
) -> impl Iterator<Item = ObjectKey> + use<> {
    of_requests_by(read, index, value)
        .chain(of_kind_by::<TlsRoute>(read, index, value))
        .chain(of_kind_by::<TcpRoute>(read, index, value))
        .chain(of_kind_by::<UdpRoute>(read, index, value))
}

/// The namespaces that hold routes of any kind.
pub(super) fn namespaces(read: &Reader<'_, '_, Routes>) -> BTreeSet<Namespace> {
    let all = [
        read.namespaces::<HttpRoute>(),
        read.namespaces::<GrpcRoute>(),
        read.namespaces::<TlsRoute>(),
        read.namespaces::<TcpRoute>(),
        read.namespaces::<UdpRoute>(),
    ];
    all.into_iter().flatten().collect()
}

/// When a route was created.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct CreatedOf(pub(super) ObjectKey);

impl Derive for CreatedOf {
    type Stratum = Routes;
    type Value = Age;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        fn of<T: WrittenRoute>(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Age {
            let route = read.get::<T>(&key.name);
            route.map_or_else(Age::default, |route| route.meta.created)
        }
        with_route_type!(self.0.kind, of(read, &self.0), Age::default())
    }
}

/// The generation of a route; `None` where it is not there.
pub(super) fn generation(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Option<i64> {
    fn of<T: WrittenRoute>(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Option<i64> {
        Some(read.get::<T>(&key.name)?.meta.generation)
    }
    with_route_type!(key.kind, of(read, key), None)
}
