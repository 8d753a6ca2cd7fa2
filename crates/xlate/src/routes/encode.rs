//! Messages put together from encoded parts.
//!
//! Protobuf fields may stand in any order and repeated ones concatenate, so a route configuration is its own fields
//! followed by virtual hosts, and a virtual host is its own fields followed by routes, none of them encoded again.
//!
//! Each part is judged when it is encoded: what Envoy would refuse is closed, and found.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use judge::Fault;
use mesh::limits::Budget;
use model::diagnostic::Diagnostic;
use model::kinds::Kind;
use model::names::Namespace;
use model::object::{ObjectKey, ObjectName};
use model::work::TRIED_INSTRUCTIONS;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use proto_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use xds::Resource;

use super::matching::is_catch_all;
use super::{expanded, tried};
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
    /// How many instructions of regular expressions are tried for a request that none of them takes.
    instructions: usize,
}

/// Why a route is closed.
pub(super) enum Closed<'f> {
    /// Envoy would refuse it.
    Refused(&'f Fault),
    /// Its regular expressions, with those of the routes before it, are too many to be tried for one request.
    OverLimit,
    /// What it makes of one request may become too long.
    Expands,
}

impl Closed<'_> {
    /// What is reported: what came of it, and why.
    pub(super) fn finding(&self, object: Option<ObjectKey>, effect: &str) -> Diagnostic {
        match self {
            Self::Refused(fault) => judged::finding(object, effect, fault),
            Self::OverLimit => tried::finding(object, effect),
            Self::Expands => expanded::finding(object, effect),
        }
    }
}

impl RouteList {
    pub(super) fn new(routes: &[Route], mut tell: impl FnMut(Closed<'_>) -> Diagnostic) -> Self {
        let takes_all = |route: &Route| route.r#match.as_ref().is_some_and(is_catch_all);
        let routes = routes.iter().map(|route| (route, takes_all(route)));
        Self::of(routes, |_, closed| tell(closed))
    }

    /// In place of the routes of a rule whose regular expressions are too many beside those of older rules.
    fn closed_rule(rule: &ObjectName) -> Self {
        let mut bytes = Vec::new();
        append(&judged::closes_all(), &mut bytes);
        let object = ObjectKey {
            kind: Kind::VirtualService,
            name: rule.clone(),
        };
        let effect = "requests for a host get 503 that no older rule takes";
        Self {
            // As if it had a condition: routes for what is left come behind it.
            ends: Box::new([(bytes.len(), false)]),
            bytes: bytes.into(),
            found: vec![tried::finding(Some(object), effect).at("spec.http")],
            instructions: 0,
        }
    }

    /// Of routes and whether they, or others that they belong to, take every request. `tell` says what is reported of a
    /// route, by its place, that is closed: each that Envoy would refuse or that makes too much of a request, and the first whose
    /// expressions are too many.
    pub(super) fn of<'r>(
        routes: impl Iterator<Item = (&'r Route, bool)>,
        mut tell: impl FnMut(usize, Closed<'_>) -> Diagnostic,
    ) -> Self {
        let mut bytes = Vec::new();
        let mut found = Vec::new();
        let mut left = Budget::new(TRIED_INSTRUCTIONS);
        let mut instructions = 0;
        let mut is_over = false;
        let ends = routes
            .enumerate()
            .map(|(at, (route, catch_all))| {
                let start = bytes.len();
                let body = append(route, &mut bytes);
                let refused = judged::closed_route(route, &bytes[body..]);
                // What is closed may still tell its requests by expressions.
                let (served, fault) = match &refused {
                    Some((closed, fault)) => (closed, Some(fault)),
                    None => (route, None),
                };
                found.extend(fault.map(|fault| tell(at, Closed::Refused(fault))));
                let expands = expanded::exceeds(served).then(|| expanded::closed(served));
                found.extend(expands.as_ref().map(|_| tell(at, Closed::Expands)));
                let served = expands.as_ref().unwrap_or(served);
                let tried = tried::instructions(served);
                let is_excess = left.spend(tried).is_err() || tried::allows_too_much(served);
                if is_excess {
                    bytes.truncate(start);
                    append(&tried::closed(served), &mut bytes);
                    if !is_over {
                        found.push(tell(at, Closed::OverLimit));
                    }
                    is_over = true;
                    return (bytes.len(), catch_all);
                }
                instructions += tried;
                if fault.is_some() || expands.is_some() {
                    bytes.truncate(start);
                    append(served, &mut bytes);
                }
                (bytes.len(), catch_all)
            })
            .collect();
        bytes.shrink_to_fit();
        Self {
            bytes: bytes.into(),
            ends,
            found,
            instructions,
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

    /// Adds a virtual host with routes of lists and the rules that these are of: those that take every request stand behind
    /// all that do not. A rule is closed whose regular expressions, with those of the rules of its namespace before it, are too
    /// many.
    pub(super) fn merged_host<'r>(
        &mut self,
        head: &Head,
        lists: impl Iterator<Item = (&'r ObjectName, &'r Arc<RouteList>)>,
    ) {
        let mut left: BTreeMap<&Namespace, Budget> = BTreeMap::new();
        let lists = lists.map(|(rule, list)| {
            let full = || Budget::new(TRIED_INSTRUCTIONS);
            let left = left.entry(&rule.namespace).or_insert_with(full);
            match left.spend(list.instructions) {
                Ok(()) => list.clone(),
                Err(_) => Arc::new(RouteList::closed_rule(rule)),
            }
        });
        let lists: Vec<Arc<RouteList>> = lists.collect();
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

#[cfg(test)]
mod tests {
    use proto_envoy::envoy::config::route::v3::RouteMatch;
    use proto_envoy::envoy::config::route::v3::route::Action;
    use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
    use proto_envoy::envoy::r#type::matcher::v3::RegexMatcher;

    use super::*;

    /// Some 30,000 instructions.
    const SLOW: &str = "/slow(?:abcdefghij){1000}(?:abcdefghij){1000}(?:abcdefghij){900}";

    fn route(regex: &str) -> Route {
        let path = RegexMatcher {
            regex: regex.to_owned(),
            ..RegexMatcher::default()
        };
        Route {
            r#match: Some(RouteMatch {
                path_specifier: Some(PathSpecifier::SafeRegex(path)),
                ..RouteMatch::default()
            }),
            action: Some(Action::NonForwardingAction(Default::default())),
            ..Route::default()
        }
    }

    fn list(expressions: &[&str]) -> Arc<RouteList> {
        let routes: Vec<Route> = expressions.iter().map(|regex| route(regex)).collect();
        let tell = |closed: Closed<'_>| closed.finding(None, "closed");
        Arc::new(RouteList::new(&routes, tell))
    }

    /// The paths of routes, and whether each is closed.
    fn paths(routes: Vec<Route>) -> Vec<(String, bool)> {
        let of = |route: Route| {
            let path = match route.r#match.unwrap().path_specifier {
                Some(PathSpecifier::SafeRegex(regex)) => regex.regex,
                Some(PathSpecifier::Prefix(prefix)) => prefix,
                other => panic!("{other:?}"),
            };
            let is_closed = matches!(route.action, Some(Action::DirectResponse(_)));
            (path, is_closed)
        };
        routes.into_iter().map(of).collect()
    }

    fn decoded(list: &RouteList) -> Vec<Route> {
        VirtualHost::decode(list.bytes().clone()).unwrap().routes
    }

    #[test]
    fn routes_beyond_the_expressions_of_a_request_are_closed() {
        let made = list(&["/a.", SLOW, SLOW, "/b(c", SLOW, SLOW, "/d."]);
        let kept = |path: &str| (path.to_owned(), false);
        let closed = |path: &str| (path.to_owned(), true);
        assert_eq!(
            paths(decoded(&made)),
            [
                kept("/a."),
                kept(SLOW),
                kept(SLOW),
                closed("/b"),
                closed("/"),
                closed("/"),
                kept("/d."),
            ]
        );
        let codes: Vec<&str> = made.found.iter().map(|found| found.code).collect();
        assert_eq!(codes, ["PIL0602", "PIL0601"]);
        assert!(list(&["/a."; 500]).found.is_empty());
        let no_action = |regex: &str| Route {
            action: None,
            ..route(regex)
        };
        let refused: Vec<Route> = [SLOW; 3].map(no_action).into();
        let made = RouteList::new(&refused, |closed| closed.finding(None, "closed"));
        assert_eq!(
            paths(decoded(&made)),
            [closed(SLOW), closed(SLOW), closed("/")]
        );
    }

    #[test]
    fn rules_of_a_namespace_beyond_the_expressions_of_a_request_are_closed() {
        let head = Head::of(VirtualHost {
            name: "a".to_owned(),
            domains: vec!["a".to_owned()],
            ..VirtualHost::default()
        })
        .unwrap();
        let rules = ["evil/a", "evil/b", "evil/c", "bank/d"].map(|name| {
            let (namespace, name) = name.split_once('/').unwrap();
            (ObjectName::new(namespace, name), list(&[SLOW]))
        });
        let mut bytes = ConfigBytes::default();
        bytes.merged_host(&head, rules.iter().map(|(rule, list)| (rule, list)));
        let written = bytes.finish();
        let config = RouteConfiguration::decode(written.bytes).unwrap();
        let routes = config.virtual_hosts.into_iter().flat_map(|h| h.routes);
        let kept = || (SLOW.to_owned(), false);
        assert_eq!(
            paths(routes.collect()),
            [kept(), kept(), ("/".to_owned(), true), kept()]
        );
        assert_eq!(written.found.len(), 1);
        let object = written.found[0].object.as_ref().unwrap();
        assert_eq!(object.to_string(), "VirtualService evil/c");
    }
}
