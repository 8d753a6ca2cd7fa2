//! Manifests of Istio's kinds in the place of Ingresses.
//!
//! They are what is derived from the Ingresses. What a route asks for that Istio's kinds have no field for
//! ([`EdgeRoute`](model::edge::EdgeRoute)) is named in comments; a route that would be open without it is written closed.

mod credential;
mod lost;

use std::collections::{BTreeMap, BTreeSet};

use model::{AnyObject, Kind, Object, ObjectKey};
use proto_istio::networking::headers::HeaderOperations;
use proto_istio::networking::{Headers, HttpDirectResponse, HttpRoute, VirtualService};
use serde_json::{Value, json};

use crate::World;
use crate::report::path;

/// The header that says why a route is closed.
const REASON: &str = "x-pilothouse-closed";

/// The file of objects that are about no host.
const SERVICES: &str = "_services.yaml";

/// The longest name of a file, without its ending.
const LONGEST: usize = 200;

/// An object.
#[derive(Clone, PartialEq, Debug)]
pub struct Manifest {
    /// What there is to say about it, a line each, without control characters.
    pub comments: Vec<String>,
    /// The object itself.
    pub object: Value,
}

/// A route that asks for what could not be carried.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NotCarried {
    /// The host, the route's name and its path.
    pub route: String,
    /// What it asks for.
    pub what: Vec<&'static str>,
    /// Whether it answers 503, since it would be open.
    pub closed: bool,
}

/// What takes the place of all Ingresses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Manifests {
    /// The objects by the name of their file: one for each host, and one for what is about Services.
    pub files: BTreeMap<String, Vec<Manifest>>,
    /// What could not be carried.
    pub not_carried: BTreeSet<NotCarried>,
    /// The Secrets that have to be copied, `from to to`.
    pub copies: BTreeSet<String>,
}

impl Manifests {
    /// As objects of Istio's kinds.
    pub fn of_istio(world: &World) -> Self {
        let kinds = [Kind::Gateway, Kind::VirtualService, Kind::DestinationRule];
        let mut all: Vec<AnyObject> = kinds
            .iter()
            .flat_map(|kind| world.snapshot.tables.iter_any(*kind))
            .filter(|object| object.meta().is_edge())
            .collect();
        all.sort_by_cached_key(|object| {
            let kind = kinds.iter().position(|kind| *kind == object.kind());
            (kind, object.key().name)
        });
        let mut manifests = Self::default();
        for object in &all {
            manifests.add(object);
        }
        manifests
    }

    fn add(&mut self, object: &AnyObject) {
        let mut comments = vec![made_from(object)];
        let (file, mut spec) = match object {
            AnyObject::Gateway(gateway) => {
                let hosts = gateway.spec.servers.iter().flat_map(|s| &s.hosts);
                (of_host(hosts.clone().next()), object.spec_json())
            }
            AnyObject::VirtualService(service) => {
                let spec = self.routes(service, &mut comments);
                let spec = serde_json::to_value(spec).unwrap_or_default();
                (of_host(service.spec.hosts.first()), spec)
            }
            _ => (SERVICES.to_owned(), object.spec_json()),
        };
        let key = object.key();
        for copy in credential::rename(&mut spec, &key.name.namespace) {
            comments.push(format!("Needs a copy of the Secret {copy}."));
            self.copies.insert(copy);
        }
        let object = json!({
            "apiVersion": key.kind.api_version(),
            "kind": key.kind.name(),
            "metadata": { "name": &*key.name.name, "namespace": &*key.name.namespace },
            "spec": spec,
        });
        let comments = comments.iter().map(|text| one_line(text)).collect();
        let manifest = Manifest { comments, object };
        self.files.entry(file).or_default().push(manifest);
    }

    /// The routes of a host, closed where they would be open.
    fn routes(
        &mut self,
        service: &Object<VirtualService>,
        comments: &mut Vec<String>,
    ) -> VirtualService {
        let mut spec = service.spec.clone();
        let derived = service.meta.derived.as_ref();
        for (at, http) in spec.http.iter_mut().enumerate() {
            let edge = derived.and_then(|derived| derived.edge.get(&at));
            let mut lost = edge.map(|edge| lost::of(edge)).unwrap_or_default();
            if derived.is_some_and(|derived| derived.sessions.contains_key(&at)) {
                lost.push(lost::SESSION);
            }
            if lost.is_empty() {
                continue;
            }
            let closed = lost.iter().any(|lost| lost.protects);
            let what: Vec<&str> = lost.iter().map(|lost| lost.what).collect();
            let name = format!("{}, {}", http.name, matched(http));
            let end = if closed { ", so it answers 503" } else { "" };
            comments.push(format!("Not carried of {name}: {}{end}.", what.join(", ")));
            let instead: BTreeSet<&str> = lost.iter().map(|lost| lost.instead).collect();
            let instead: Vec<&str> = instead.into_iter().collect();
            comments.push(format!("  Instead: {}.", instead.join("; ")));
            if closed {
                *http = self::closed(http, &what);
            }
            self.not_carried.insert(NotCarried {
                route: one_line(&format!("{} {name}", spec.hosts.join(","))),
                what,
                closed,
            });
        }
        spec
    }
}

/// The route that answers 503 and says why.
fn closed(http: &HttpRoute, what: &[&str]) -> HttpRoute {
    let reason = format!("not carried: {}", what.join(", "));
    HttpRoute {
        name: http.name.clone(),
        r#match: http.r#match.clone(),
        direct_response: Some(HttpDirectResponse {
            status: 503,
            body: None,
        }),
        headers: Some(Headers {
            request: None,
            response: Some(HeaderOperations {
                set: BTreeMap::from([(REASON.to_owned(), reason)]),
                ..HeaderOperations::default()
            }),
        }),
        ..HttpRoute::default()
    }
}

fn matched(http: &HttpRoute) -> String {
    let paths: Vec<String> = http.r#match.iter().map(path).collect();
    match paths.is_empty() {
        true => "any path".to_owned(),
        false => paths.join(" or "),
    }
}

fn made_from(object: &AnyObject) -> String {
    let derived = object.meta().derived.as_ref();
    let from = derived.into_iter().flat_map(|derived| derived.from.iter());
    let from = from.filter(|key| key.kind == Kind::Ingress);
    let names: Vec<String> = from.map(ObjectKey::to_string).collect();
    format!("From {}.", names.join(", "))
}

/// The file of a host. Ingresses may hold any text as a host; this is always a name within the folder.
fn of_host(host: Option<&String>) -> String {
    let host = host.map(String::as_str).unwrap_or_default();
    if matches!(host, "" | "*") {
        return "_any-host.yaml".to_owned();
    }
    let host = match host.strip_prefix("*.") {
        Some(rest) => format!("_wildcard.{rest}"),
        None => host.to_owned(),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name = host.chars().take(LONGEST);
    let name: String = name.map(|c| if plain(c) { c } else { '_' }).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}.yaml"),
        None => format!("{name}.yaml"),
    }
}

/// A text without what would end a comment.
fn one_line(text: &str) -> String {
    let ends = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    text.chars()
        .map(|c| if ends(c) { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_names_a_file_within_the_folder() {
        let file = |host: &str| of_host(Some(&host.to_owned()));
        assert_eq!(file("*"), "_any-host.yaml");
        assert_eq!(file("*.shop.com"), "_wildcard.shop.com.yaml");
        assert_eq!(file("shop.com"), "shop.com.yaml");
        assert_eq!(file("../../etc/passwd"), "_._.._etc_passwd.yaml");
        assert!(file(&"a".repeat(500)).len() < 255);
    }

    #[test]
    fn a_comment_is_one_line() {
        assert_eq!(one_line("a\nkind: Secret\u{85}b"), "a kind: Secret b");
    }
}
