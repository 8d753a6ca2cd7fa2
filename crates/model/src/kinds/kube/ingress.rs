//! `Ingress` and `IngressClass`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::object::Object;

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
    /// Another object. Not served.
    pub resource: Option<ResourceRef>,
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

/// The prefixes of annotations that are read of Ingresses.
const PREFIXES: [&str; 2] = ["nginx.ingress.kubernetes.io/", "higress.io/"];

/// What the names of annotations have in them that say who may send requests.
const PROTECTING: [&str; 6] = [
    "auth-",
    "-source-range",
    "enable-global-auth",
    "modsecurity",
    "satisfy",
    "snippet",
];

/// Whether an annotation says who may send requests to the paths of an Ingress.
pub fn is_protecting_annotation(key: &str) -> bool {
    let name = PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix));
    name.is_some_and(|name| PROTECTING.iter().any(|part| name.contains(part)))
}

/// How many further hosts of an Ingress count.
const ALIASES: usize = 100;

impl Object<Ingress> {
    /// Every host that the Ingress may be about, as it or its annotations name them: those of its rules, aliases, the
    /// same with or without `www.` where they redirect to one another, and `*` where it has a default backend.
    pub fn hosts(&self) -> BTreeSet<Arc<str>> {
        let stated = self.spec.rules.iter().map(|rule| match &*rule.host {
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

impl Ingress {
    /// The Services that its rules and its default backend name.
    pub fn services(&self) -> BTreeSet<&Arc<str>> {
        let paths = self.rules.iter().filter_map(|rule| rule.http.as_ref());
        let backends = paths.flat_map(|http| http.paths.iter().map(|path| &path.backend));
        let backends = backends.chain(&self.default_backend);
        let named = backends.filter_map(|backend| Some(&backend.service.as_ref()?.name));
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
