//! `Ingress` and `IngressClass`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::object::Object;
use crate::parse::distance;

/// Where requests from outside go, by host and path: served as Istio does, see docs/ingress.md.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ingress {
    /// The class, unless the annotation `kubernetes.io/ingress.class` names one.
    pub ingress_class_name: Option<Arc<str>>,
    /// Where requests go that no rule matches. Not served.
    pub default_backend: Option<IngressBackend>,
    /// Certificates by host.
    pub tls: Vec<IngressTls>,
    /// Rules by host.
    pub rules: Vec<IngressRule>,
}

/// Where requests go: a Service or another object.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressBackend {
    /// A Service of the Ingress's namespace.
    pub service: Option<IngressServiceBackend>,
    /// Another object. Not served. Hardly any path has it, and there may be very many paths.
    pub resource: Option<Box<ResourceRef>>,
}

/// A Service and one of its ports.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressServiceBackend {
    /// Its name.
    pub name: Arc<str>,
    /// The port.
    pub port: IngressPort,
}

/// A port by name or by number.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressPort {
    /// Name; empty where the number says it.
    pub name: Arc<str>,
    /// Number; 0 where the name says it.
    pub number: i32,
}

/// An object of the same namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRef {
    /// Group; empty for the core group.
    pub api_group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Namespace, where another one may be named.
    pub namespace: Arc<str>,
    /// `Cluster` or `Namespace`, where both may be named.
    pub scope: Arc<str>,
}

/// A certificate for hosts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressTls {
    /// Hosts.
    pub hosts: Vec<Arc<str>>,
    /// The Secret that holds the certificate, in the namespace of the proxies. Without one, no HTTPS is served.
    pub secret_name: Arc<str>,
}

/// Paths of a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressRule {
    /// Host; empty is every host.
    pub host: Arc<str>,
    /// Paths. A rule without them is not served.
    pub http: Option<IngressPaths>,
}

/// The paths of a rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressPaths {
    /// Paths, in the order written.
    pub paths: Vec<IngressPath>,
}

/// A path and where it leads.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressPath {
    /// The path; empty is every path.
    pub path: Arc<str>,
    /// How it matches.
    pub path_type: Option<PathType>,
    /// Where it leads.
    pub backend: IngressBackend,
}

/// How a path matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Deserialize, Serialize)]
pub enum PathType {
    /// The whole path.
    Exact,
    /// By elements of the path.
    Prefix,
    /// A whole path, or one that begins so where it ends with `/*` or `.*`.
    ImplementationSpecific,
}

/// Who serves the Ingresses that name it: those of the controller `istio.io/ingress-controller` are served here.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressClass {
    /// Who implements it.
    pub controller: Arc<str>,
    /// More settings.
    pub parameters: Option<ResourceRef>,
}

/// The host of rules that name none.
pub const ANY_HOST: &str = "*";

/// Whether a host may stand in an Ingress: a DNS name in lower case, or one below which all are meant.
///
/// Kubernetes: pkg/apis/networking/validation/validation.go.
pub fn is_host(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host == ANY_HOST || (name.len() <= 253 && name.split('.').all(label))
}

/// The prefixes of annotations that are read of Ingresses.
pub(crate) const PREFIXES: [&str; 2] = ["nginx.ingress.kubernetes.io/", "higress.io/"];

/// What the names of annotations have in them that say who may send requests.
const PROTECTING: [&str; 6] = [
    "auth-",
    "-source-range",
    "enable-global-auth",
    "modsecurity",
    "satisfy",
    "snippet",
];

/// The most letters that are wrong in what counts as a misspelt prefix.
const MOST_WRONG: usize = 2;

/// What the prefix of ingress-nginx begins with, and no other.
const OF_NGINX: &str = "nginx.ingress.";

/// Whether an annotation says who may send requests to the paths of an Ingress, or is by all appearances one that is misspelt.
pub fn is_protecting_annotation(key: &str) -> bool {
    let known = || PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix));
    let misspelt = || misspelt_prefix(key).map(|(_, name)| name);
    known().or_else(misspelt).is_some_and(|name| {
        PROTECTING.iter().any(|part| name.contains(part)) || is_nearly_protecting(name)
    })
}

/// The prefix that somebody most likely meant who wrote an annotation with one that is not read but looks like it, and the
/// annotation's name.
pub fn misspelt_prefix(key: &str) -> Option<(&'static str, &str)> {
    if PREFIXES.iter().any(|known| key.starts_with(known)) {
        return None;
    }
    let found = PREFIXES
        .into_iter()
        .find_map(|known| Some((known, after_nearly(key, known)?)));
    found.filter(|(_, name)| !name.is_empty())
}

/// What follows in a key that begins nearly with a prefix.
fn after_nearly<'k>(key: &'k str, known: &str) -> Option<&'k str> {
    let is_end = |c: char| !c.is_ascii_alphanumeric();
    if let Some((prefix, name)) = key.split_once('/') {
        let known = known.trim_end_matches('/');
        let is_near = prefix.len().abs_diff(known.len()) <= MOST_WRONG
            && distance(prefix, known) <= MOST_WRONG;
        let is_nginx = known.starts_with(OF_NGINX) && prefix.starts_with(OF_NGINX);
        return (is_near || is_nginx).then(|| name.trim_start_matches(is_end));
    }
    // Another character may stand in place of the slash, or none.
    let cuts = known.len() - MOST_WRONG..=known.len() + MOST_WRONG;
    let cuts = cuts.filter_map(|at| key.split_at_checked(at));
    let wrong = cuts.map(|(prefix, name)| (distance(prefix, known), name));
    let (wrong, name) = wrong.min_by_key(|(wrong, _)| *wrong)?;
    (wrong <= MOST_WRONG).then(|| name.trim_start_matches(is_end))
}

/// Whether an annotation says whether an Ingress is a canary.
pub(crate) fn is_canary_annotation(key: &str) -> bool {
    let mut names = PREFIXES
        .iter()
        .filter_map(|prefix| key.strip_prefix(prefix));
    names.any(|name| name == "canary")
}

/// Whether the value of an annotation is one of those that Go takes for true.
pub(crate) fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Whether a name begins or ends nearly as those of most annotations that say who may send requests.
fn is_nearly_protecting(name: &str) -> bool {
    const START: &str = "auth-";
    const END: &str = "-source-range";
    let starts = name.get(..START.len());
    let ends = name
        .len()
        .checked_sub(END.len())
        .and_then(|at| name.get(at..));
    starts.is_some_and(|starts| distance(starts, START) <= 1)
        || ends.is_some_and(|ends| distance(ends, END) <= 2)
}

/// How many further hosts of an Ingress count.
const ALIASES: usize = 100;

impl Object<Ingress> {
    /// Every host that the Ingress may be about, as it or its annotations name them: those of its rules, aliases, the
    /// same with or without `www.` where they redirect to one another, and `*` where it has a default backend.
    pub fn hosts(&self) -> BTreeSet<Arc<str>> {
        let is_closed = self.meta.closed.is_some();
        let rules = self.spec.rules.iter();
        let rules = rules.filter(|rule| !is_closed || !rule.is_unread());
        let stated = rules.map(|rule| match &*rule.host {
            "" => ANY_HOST.into(),
            _ => rule.host.clone(),
        });
        let mut hosts: BTreeSet<Arc<str>> = stated.collect();
        if self.spec.default_backend.is_some() {
            hosts.insert(ANY_HOST.into());
        }
        let stated = |name: &'static str| {
            let keys = PREFIXES.iter().map(move |prefix| format!("{prefix}{name}"));
            keys.filter_map(|key| self.meta.annotations.get(&key))
        };
        if stated("from-to-www-redirect").next().is_some() {
            let others: Vec<_> = hosts.iter().filter_map(|host| www(host)).collect();
            hosts.extend(others);
        }
        for aliases in stated("server-alias") {
            let aliases = aliases.split([',', ' ']).filter(|alias| !alias.is_empty());
            hosts.extend(aliases.take(ALIASES).map(Arc::from));
        }
        hosts
    }
}

impl IngressRule {
    /// Whether, in what takes the place of an Ingress ([`crate::closed`]), it stands for a rule whose host cannot be read.
    pub fn is_unread(&self) -> bool {
        self.host.is_empty() && self.http.is_none()
    }
}

impl Ingress {
    /// The backends of its rules, and its default backend.
    pub fn backends(&self) -> impl Iterator<Item = &IngressBackend> {
        let paths = self.rules.iter().filter_map(|rule| rule.http.as_ref());
        let backends = paths.flat_map(|http| http.paths.iter().map(|path| &path.backend));
        backends.chain(&self.default_backend)
    }

    /// The Services that its rules and its default backend name.
    pub fn services(&self) -> BTreeSet<&Arc<str>> {
        let named = self
            .backends()
            .filter_map(|backend| Some(&backend.service.as_ref()?.name));
        named.filter(|name| !name.is_empty()).collect()
    }
}

/// The same host with `www.`, or without it if it has it; none for wildcards.
pub fn www(host: &str) -> Option<Arc<str>> {
    match host.strip_prefix("www.") {
        Some(bare) => Some(bare.into()),
        None if host.starts_with('*') => None,
        None => Some(format!("www.{host}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_prefix_protects_as_the_one_that_was_meant() {
        for key in [
            "nginx.ingress.kubernetes.io/auth-url",
            "ngnix.ingress.kubernetes.io/auth-url",
            "nginx.ingres.kubernetes.io/auth-url",
            "nginx.ingress.kubernetes.io.auth-url",
            "nginx.ingress.kubernetes.io-auth-url",
            "nginx.ingress.kubernetes.ioauth-url",
            "nginx.ingress.kubernetes.io//auth-url",
            "nginx.ingress.k8s.io/whitelist-source-range",
            "nginx.ingress.kubernetes/auth-url",
            "Nginx.Ingress.Kubernetes.io/auth-url",
            "higres.io/auth-secret",
            "higress.io.auth-secret",
        ] {
            assert!(is_protecting_annotation(key), "{key}");
        }
        for key in [
            "ngnix.ingress.kubernetes.io/rewrite-target",
            "ingress.kubernetes.io/auth-type",
            "alb.ingress.kubernetes.io/auth-type",
            "nginx.org/auth-url",
            "kubernetes.io/ingress.class",
            "auth-url",
            "nginx.ingress.kubernetes.io",
        ] {
            assert!(!is_protecting_annotation(key), "{key}");
        }
        let meant = ("nginx.ingress.kubernetes.io/", "auth-url");
        for key in [
            "ngnix.ingress.kubernetes.io/auth-url",
            "nginx.ingress.kubernetes.io.auth-url",
        ] {
            assert_eq!(misspelt_prefix(key), Some(meant), "{key}");
        }
        assert_eq!(misspelt_prefix("nginx.ingress.kubernetes.io/a"), None);
    }
}
