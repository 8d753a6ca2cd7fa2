//! Messages put together from encoded parts.
//!
//! Protobuf fields may stand in any order and repeated ones concatenate, so a route configuration is its own fields
//! followed by virtual hosts, and a virtual host is its own fields followed by routes, none of them encoded again.
//!
//! Each part is judged when it is encoded: what Envoy would refuse is closed, and found.

use std::sync::Arc;

use bytes::Bytes;
use judge::Fault;
use model::diagnostic::Diagnostic;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use proto_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use xds::Resource;

use super::matching::is_catch_all;
use crate::judged;

const VIRTUAL_HOSTS: u32 = 2;
const ROUTES: u32 = 3;

/// Encoded routes, as fields of a virtual host.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct RouteList {
    bytes: Bytes,
    /// Where each route ends, and whether it takes every request.
    ends: Box<[(usize, bool)]>,
    /// What was closed.
    found: Vec<Diagnostic>,
}

impl RouteList {
    pub(super) fn new(routes: &[Route], mut tell: impl FnMut(&Fault) -> Diagnostic) -> Self {
        let takes_all = |route: &Route| route.r#match.as_ref().is_some_and(is_catch_all);
        let routes = routes.iter().map(|route| (route, takes_all(route)));
        Self::of(routes, |_, fault| tell(fault))
    }

    /// Of routes and whether they, or others that they belong to, take every request. `tell` says what is reported of a
    /// route, by its place, that Envoy would refuse.
    pub(super) fn of<'r>(
        routes: impl Iterator<Item = (&'r Route, bool)>,
        mut tell: impl FnMut(usize, &Fault) -> Diagnostic,
    ) -> Self {
        let mut bytes = Vec::new();
        let mut found = Vec::new();
        let ends = routes
            .enumerate()
            .map(|(at, (route, catch_all))| {
                let start = bytes.len();
                let body = append(route, &mut bytes);
                if let Some((closed, fault)) = judged::closed_route(route, &bytes[body..]) {
                    bytes.truncate(start);
                    append(&closed, &mut bytes);
                    found.push(tell(at, &fault));
                }
                (bytes.len(), catch_all)
            })
            .collect();
        bytes.shrink_to_fit();
        Self {
            bytes: bytes.into(),
            ends,
            found,
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

/// Appends a route as a field of a virtual host; says where its own bytes begin.
fn append(route: &Route, bytes: &mut Vec<u8>) -> usize {
    encode_key(ROUTES, WireType::LengthDelimited, bytes);
    encode_varint(route.encoded_len() as u64, bytes);
    let body = bytes.len();
    route.encode(bytes).expect("a Vec grows as needed");
    body
}

/// The own fields of a virtual host, encoded.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Head {
    bytes: Bytes,
    /// Why it is closed.
    found: Option<Diagnostic>,
}

impl Head {
    /// Closed where Envoy would refuse it; `None` where it has no domain that is one.
    pub(super) fn of(host: VirtualHost) -> Option<Self> {
        let name = host.name.clone();
        let (bytes, fault) = judged::head(host)?;
        let effect = || format!("virtual host {name}: requests for it get 503");
        Some(Self {
            bytes: bytes.into(),
            found: fault.map(|fault| judged::finding(None, &effect(), &fault)),
        })
    }
}

/// A route configuration under construction.
#[derive(Default)]
pub(super) struct ConfigBytes {
    bytes: Vec<u8>,
    found: Vec<Diagnostic>,
}

/// An encoded part of a route configuration, with what was closed of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Written {
    pub(super) bytes: Bytes,
    pub(super) found: Vec<Diagnostic>,
}

impl Written {
    /// The configuration as a resource.
    pub(super) fn resource(mut self, name: impl Into<Arc<str>>) -> Resource {
        self.found.sort();
        self.found.dedup();
        Resource::from_bytes(name, self.bytes).finding(self.found)
    }
}

impl ConfigBytes {
    /// Starts with everything but virtual hosts.
    pub(super) fn new(config: &RouteConfiguration) -> Self {
        Self {
            bytes: config.encode_to_vec(),
            found: Vec::new(),
        }
    }

    /// Adds a virtual host with the routes of a list.
    pub(super) fn host(&mut self, head: &Head, routes: &RouteList) {
        let found = head.found.iter().chain(&routes.found);
        self.found.extend(found.cloned());
        self.write_host(&head.bytes, [&**routes.bytes()]);
    }

    /// Adds a virtual host with routes of lists: those that take every request stand behind all that do not.
    pub(super) fn merged_host(&mut self, head: &Head, lists: &[Arc<RouteList>]) {
        let found = lists.iter().flat_map(|list| &list.found);
        self.found.extend(head.found.iter().chain(found).cloned());
        let of = |catch_all| lists.iter().flat_map(move |list| list.parts(catch_all));
        self.write_host(&head.bytes, of(false).chain(of(true)));
    }

    fn write_host<'a>(&mut self, head: &'a [u8], routes: impl IntoIterator<Item = &'a [u8]>) {
        let parts: Vec<&[u8]> = std::iter::once(head).chain(routes).collect();
        let length: usize = parts.iter().map(|p| p.len()).sum();
        encode_key(VIRTUAL_HOSTS, WireType::LengthDelimited, &mut self.bytes);
        self.bytes
            .reserve(length + encoded_len_varint(length as u64));
        encode_varint(length as u64, &mut self.bytes);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Adds what was left out elsewhere.
    pub(super) fn found(&mut self, found: &[Diagnostic]) {
        self.found.extend_from_slice(found);
    }

    /// Adds what is written already.
    pub(super) fn append(&mut self, written: &Written) {
        self.bytes.extend_from_slice(&written.bytes);
        self.found.extend_from_slice(&written.found);
    }

    /// Adds a virtual host with its routes.
    pub(super) fn message(&mut self, host: VirtualHost) {
        if let Some(head) = Head::of(host) {
            self.write_host(&head.bytes, []);
            self.found.extend(head.found);
        }
    }

    pub(super) fn finish(self) -> Written {
        Written {
            bytes: self.bytes.into(),
            found: self.found,
        }
    }
}
