//! Messages put together from encoded parts.
//!
//! Protobuf fields may stand in any order and repeated ones concatenate, so a route configuration is its own fields
//! followed by virtual hosts, and a virtual host is its own fields followed by routes, none of them encoded again.

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use proto_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};

use super::matching::is_catch_all;

const VIRTUAL_HOSTS: u32 = 2;
const ROUTES: u32 = 3;

/// Encoded routes, as fields of a virtual host.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct RouteList {
    bytes: Bytes,
    /// Where each route ends, and whether it takes every request.
    ends: Box<[(usize, bool)]>,
}

impl RouteList {
    pub(super) fn new(routes: &[Route]) -> Self {
        let takes_all = |route: &Route| route.r#match.as_ref().is_some_and(is_catch_all);
        Self::of(routes.iter().map(|route| (route, takes_all(route))))
    }

    /// Of routes and whether they, or others that they belong to, take every request.
    pub(super) fn of<'r>(routes: impl Iterator<Item = (&'r Route, bool)>) -> Self {
        let mut bytes = Vec::new();
        let ends = routes
            .map(|(route, catch_all)| {
                encode_key(ROUTES, WireType::LengthDelimited, &mut bytes);
                route
                    .encode_length_delimited(&mut bytes)
                    .expect("a Vec grows as needed");
                (bytes.len(), catch_all)
            })
            .collect();
        Self {
            bytes: bytes.into(),
            ends,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, in order.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Those that take every request, or those that do not.
    pub(super) fn parts(&self, catch_all: bool) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().filter_map(move |(end, all)| {
            let part = &self.bytes[start..*end];
            start = *end;
            (*all == catch_all).then_some(part)
        })
    }
}

/// A route configuration under construction.
#[derive(Default)]
pub(super) struct ConfigBytes(Vec<u8>);

impl ConfigBytes {
    /// Starts with everything but virtual hosts.
    pub(super) fn new(config: &RouteConfiguration) -> Self {
        Self(config.encode_to_vec())
    }

    /// Adds a virtual host made of its own encoded fields and of encoded routes.
    pub(super) fn host<'a>(&mut self, head: &'a [u8], routes: impl IntoIterator<Item = &'a [u8]>) {
        let parts: Vec<&[u8]> = std::iter::once(head).chain(routes).collect();
        let length: usize = parts.iter().map(|p| p.len()).sum();
        encode_key(VIRTUAL_HOSTS, WireType::LengthDelimited, &mut self.0);
        self.0.reserve(length + encoded_len_varint(length as u64));
        encode_varint(length as u64, &mut self.0);
        for part in parts {
            self.0.extend_from_slice(part);
        }
    }

    /// Adds what is written already.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// Adds a virtual host.
    pub(super) fn message(&mut self, host: &VirtualHost) {
        self.host(&host.encode_to_vec(), []);
    }

    pub(super) fn finish(self) -> Bytes {
        self.0.into()
    }
}
