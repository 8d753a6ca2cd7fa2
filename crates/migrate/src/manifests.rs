//! Manifests in the place of Ingresses: of Istio's kinds, or of the Gateway API.
//!
//! They are made of what is derived from the Ingresses. What a route asks for that the kinds have no field for is named in
//! comments; a route that would be open, or lead elsewhere, without it is written closed.

mod credential;
mod gateway_api;
mod istio;
mod lost;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::{AnyObject, Kind, ObjectKey};
use proto_istio::networking::HttpRoute;
use serde_json::{Value, json};

use crate::report::path;
use lost::Lost;

pub use gateway_api::{GATEWAY, GatewayApi};

/// The longest name of a file, without its ending.
const LONGEST: usize = 200;

/// The kinds that manifests are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kinds {
    /// Gateways, VirtualServices, DestinationRules and ServiceEntries.
    #[default]
    Istio,
    /// Gateways, HTTPRoutes and what belongs to them.
    GatewayApi,
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Istio => "Istio's kinds",
            Self::GatewayApi => "the Gateway API",
        })
    }
}

/// An object.
#[derive(Clone, PartialEq, Debug)]
pub struct Manifest {
    /// What there is to say about it, a line each, without control characters.
    pub comments: Vec<String>,
    /// The object itself.
    pub object: Value,
}

impl Manifest {
    /// An object of a kind, with its spec.
    fn new(key: &ObjectKey, spec: Value, comments: &[String]) -> Self {
        let object = json!({
            "apiVersion": key.kind.api_version(),
            "kind": key.kind.name(),
            "metadata": { "name": &*key.name.name, "namespace": &*key.name.namespace },
            "spec": spec,
        });
        Self {
            comments: comments.iter().map(|text| one_line(text)).collect(),
            object,
        }
    }
}

/// A route that asks for what could not be carried.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NotCarried {
    /// The host, the route's name and its path.
    pub route: String,
    /// What it asks for.
    pub what: Vec<&'static str>,
    /// Whether it serves no request, since it would be open or lead elsewhere.
    pub closed: bool,
}

/// What takes the place of all Ingresses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Manifests {
    /// What they are of.
    pub kinds: Kinds,
    /// The objects by the name of their file: one for each host, and those that are about no host.
    pub files: BTreeMap<String, Vec<Manifest>>,
    /// What could not be carried.
    pub not_carried: BTreeSet<NotCarried>,
    /// What has to be copied, `Secret from to to`.
    pub copies: BTreeSet<String>,
}

impl Manifests {
    /// Puts an object into a file.
    fn put(&mut self, file: &str, manifest: Manifest) {
        match self.files.get_mut(file) {
            Some(known) => known.push(manifest),
            None => {
                self.files.insert(file.to_owned(), vec![manifest]);
            }
        }
    }

    /// Notes what a route of a host loses, and says it in comments.
    fn lose(&mut self, host: &str, name: &str, lost: &[Lost], comments: &mut Vec<String>) {
        let closed = lost.iter().any(|lost| lost.closes);
        let what: Vec<&str> = lost.iter().map(|lost| lost.what).collect();
        let end = match (closed, self.kinds) {
            (false, _) => "",
            (true, Kinds::Istio) => ", so it answers 503",
            (true, Kinds::GatewayApi) => ", so it has no backend and answers 500",
        };
        comments.push(format!("Not carried of {name}: {}{end}.", what.join(", ")));
        let instead: BTreeSet<&str> = lost.iter().map(|lost| lost.instead).collect();
        let instead: Vec<&str> = instead.into_iter().collect();
        comments.push(format!("  Instead: {}.", instead.join("; ")));
        self.not_carried.insert(NotCarried {
            route: one_line(&format!("{host} {name}")),
            what,
            closed,
        });
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
