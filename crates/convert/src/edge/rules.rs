//! The rules of one Ingress, by host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use annotations::Paths;
use model::kinds::kube::{ANY_HOST, Ingress, IngressBackend, IngressPath, PathType, is_host, www};
use model::{Age, Diagnostic, Namespace, Object, ObjectName, Severity};

use super::annotated::{Annotated, AnnotatedBy};
use super::at::At;
use super::policy::PolicyOf;
use super::{expression, key, limits};
use crate::outcome::{code, finding};
use crate::owner::{AboutHost, Claims};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The rules of an Ingress; none where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RulesOf(pub(super) ObjectName);

/// The rules of an Ingress about one host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RulesAbout {
    pub(super) ingress: ObjectName,
    pub(super) host: Arc<str>,
}

/// What an Ingress says.
#[derive(PartialEq, Debug)]
pub(super) struct Rules {
    created: Age,
    /// It is beyond a limit, and nothing of it is served.
    is_refused: bool,
    pub(super) findings: Vec<Diagnostic>,
    by_host: BTreeMap<Arc<str>, Arc<HostRules>>,
}

/// What an Ingress says about one host.
#[derive(PartialEq, Debug)]
pub(super) struct HostRules {
    /// Where it names the host first.
    pub(super) at: String,
    pub(super) created: Age,
    pub(super) namespace: Namespace,
    pub(super) annotated: Arc<Annotated>,
    pub(super) paths: Vec<Path>,
    /// Where requests go that no rule matches, and where the Ingress says so.
    pub(super) default: Option<(String, Backend)>,
    /// The Secret with the certificate of the host, where an entry of `tls` names it.
    pub(super) certificate: Option<(String, Arc<str>)>,
    /// That of the host of which this is another name, for where it is for this one as well.
    pub(super) of_server: Option<(String, Arc<str>)>,
    /// Where an entry of `tls` has the host and names no Secret.
    pub(super) without_secret: Option<String>,
    /// It is another name of a host, by `server-alias`.
    pub(super) is_alias: bool,
    /// Whether the Ingress has any entry of `tls`.
    pub(super) has_tls: bool,
    /// All requests go to that host instead.
    pub(super) moved_to: Option<Arc<str>>,
    /// The Ingress protects something, and nobody knows its paths: it is beyond a limit, or was rejected.
    pub(super) is_refused: bool,
}

/// A path and where it leads.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Path {
    /// Where in the Ingress it stands.
    pub(super) at: At,
    /// It starts with `/`.
    pub(super) path: Arc<str>,
    pub(super) kind: PathKind,
    pub(super) ignore_case: bool,
    pub(super) backend: Backend,
}

/// How a path matches, in the order in which they go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum PathKind {
    /// The whole path.
    Exact,
    /// By elements of the path.
    Prefix,
    /// A regular expression of how paths begin.
    PrefixRegex,
    /// A regular expression of whole paths.
    FullRegex,
}

/// Where a path leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Backend {
    /// To a Service of the Ingress's namespace.
    Service(Arc<str>, BackendPort),
    /// Where the annotation `destination` says.
    Destinations,
    /// To what is not served.
    None,
}

/// The port of a Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BackendPort {
    Number(u16),
    Name(Arc<str>),
}

impl Derive for RulesOf {
    type Stratum = Routes;
    type Value = Option<Arc<Rules>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let annotated = read.derived(AnnotatedBy(self.0.clone())).as_ref().clone()?;
        let ingress = read.get::<Ingress>(&self.0)?;
        let mut reading = Reading {
            ingress: &ingress,
            annotated: &annotated,
            unread: BTreeSet::new(),
            findings: Vec::new(),
        };
        let is_refused = !reading.is_within_limits();
        let by_host = match is_refused {
            false => reading.by_host(),
            true if protects(read, &self.0) => reading.refused(),
            true => BTreeMap::new(),
        };
        Some(Arc::new(Rules {
            created: ingress.meta.created,
            is_refused,
            findings: reading.findings,
            by_host,
        }))
    }
}

/// Whether an Ingress keeps requests back.
fn protects(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> bool {
    let policy = read.derived(PolicyOf(ingress.clone()));
    policy
        .as_ref()
        .as_ref()
        .is_some_and(|policy| policy.protects())
}

impl Rules {
    /// When the Ingress was created.
    pub(super) fn created(&self) -> Age {
        self.created
    }

    /// The hosts that it names, and what it says about each.
    pub(super) fn by_host(&self) -> impl Iterator<Item = (&Arc<str>, &HostRules)> {
        self.by_host.iter().map(|(host, rules)| (host, &**rules))
    }
}

impl Derive for RulesAbout {
    type Stratum = Routes;
    type Value = Option<Arc<HostRules>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let rules = read.derived(RulesOf(self.ingress.clone()));
        rules.as_ref().as_ref()?.by_host.get(&self.host).cloned()
    }
}

impl AboutHost for HostRules {
    fn created(&self) -> Age {
        self.created
    }

    fn at(&self) -> &str {
        &self.at
    }
}

/// The hosts that an Ingress claims; none where it is not served. One beyond a limit claims all that it names: nobody else gets
/// them because of that.
pub(crate) fn claims(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> Option<Claims> {
    let rules = read.derived(RulesOf(ingress.clone()));
    let rules = rules.as_ref().as_ref()?;
    let hosts = match rules.is_refused {
        true => read.get::<Ingress>(ingress)?.hosts(),
        false => rules.by_host.keys().cloned().collect(),
    };
    Some(Claims {
        created: rules.created,
        hosts,
    })
}

/// An Ingress being read.
struct Reading<'a> {
    ingress: &'a Object<Ingress>,
    annotated: &'a Arc<Annotated>,
    /// In what takes the place of an Ingress, the hosts of which some paths are not known.
    unread: BTreeSet<Arc<str>>,
    findings: Vec<Diagnostic>,
}

impl Reading<'_> {
    fn is_within_limits(&mut self) -> bool {
        let spec = &self.ingress.spec;
        let paths = spec.rules.iter().filter_map(|rule| rule.http.as_ref());
        let paths: usize = paths.map(|http| http.paths.len()).sum();
        let hosts: usize = spec.tls.iter().map(|tls| tls.hosts.len().max(1)).sum();
        let stated = [
            ("spec.rules", paths, limits::PATHS, "paths"),
            ("spec.rules", spec.rules.len(), limits::HOSTS, "rules"),
            ("spec.tls", hosts, limits::HOSTS, "hosts"),
        ];
        for (field, stated, limit, what) in stated {
            if stated > limit {
                let message = format!("has more than {limit} {what}, so nothing of it is served");
                self.tell(code::OVER_LIMIT, Severity::Error, field.to_owned(), message);
            }
        }
        self.findings.is_empty()
    }

    /// The paths of each host, with the place that names the host.
    fn paths_by_host(&mut self) -> BTreeMap<Arc<str>, (String, Vec<Path>)> {
        let spec = &self.ingress.spec;
        let is_closed = self.ingress.meta.closed.is_some();
        let mut paths: BTreeMap<Arc<str>, (String, Vec<Path>)> = BTreeMap::new();
        for (index, rule) in spec.rules.iter().enumerate() {
            if is_closed && rule.is_unread() {
                continue;
            }
            let at = format!("spec.rules[{index}]");
            let host = match &*rule.host {
                "" => ANY_HOST.into(),
                _ => rule.host.clone(),
            };
            if !is_host(&host) {
                self.leave_out(
                    format!("{at}.host"),
                    "is not a host name, so the rule is not served",
                );
                continue;
            }
            let stated = rule.http.iter().flat_map(|http| &http.paths).enumerate();
            let read: Vec<Path> = stated
                .filter_map(|(n, path)| self.path(path, At::path(index, n)))
                .collect();
            if is_closed
                && rule
                    .http
                    .as_ref()
                    .is_none_or(|http| read.len() < http.paths.len())
            {
                self.unread.insert(host.clone());
            } else if rule.http.is_none() && spec.default_backend.is_none() {
                let message = "states no paths, so the rule is not served";
                self.leave_out(format!("{at}.http"), message);
                continue;
            }
            let (_, all) = paths
                .entry(host)
                .or_insert_with(|| (format!("{at}.host"), Vec::new()));
            all.extend(read);
        }
        paths
    }

    fn by_host(&mut self) -> BTreeMap<Arc<str>, Arc<HostRules>> {
        let spec = &self.ingress.spec;
        let paths = self.paths_by_host();
        let at = "spec.defaultBackend";
        let default = spec.default_backend.as_ref();
        let default = default.map(|stated| (at.to_owned(), self.backend(stated, at)));
        let is_closed = self.ingress.meta.closed.is_some();
        let default = default.filter(|(_, backend)| is_closed || *backend != Backend::None);
        let certificates = self.certificates();
        let unread = &self.unread;
        let rules = |host: &Arc<str>, at, paths, default, moved_to| HostRules {
            at,
            created: self.ingress.meta.created,
            namespace: self.ingress.namespace().clone(),
            annotated: self.annotated.clone(),
            paths,
            default,
            certificate: certificates.get(host).cloned(),
            of_server: None,
            without_secret: self.without_secret(host),
            is_alias: false,
            has_tls: !spec.tls.is_empty(),
            moved_to,
            is_refused: unread.contains(host),
        };
        let mut all = BTreeMap::new();
        for (alias, of) in self.aliases(&paths) {
            let (_, like) = paths.get(&of).cloned().unwrap_or_default();
            let at = self.annotated.path("server-alias");
            let like = rules(&alias, at, like, default.clone(), None);
            let alias_rules = HostRules {
                of_server: certificates.get(&of).cloned(),
                is_alias: true,
                is_refused: unread.contains(&of),
                ..like
            };
            all.insert(alias, Arc::new(alias_rules));
        }
        if self.annotated.annotations.redirect.www {
            for host in paths.keys() {
                if let Some(other) = www(host).filter(|other| is_host(other)) {
                    let at = self.annotated.path("from-to-www-redirect");
                    let moved = rules(&other, at, Vec::new(), None, Some(host.clone()));
                    all.insert(other, Arc::new(moved));
                }
            }
        }
        for (host, (at, paths)) in paths {
            let rules = rules(&host, at, paths, default.clone(), None);
            all.insert(host, Arc::new(rules));
        }
        if default.is_some() && !all.contains_key(ANY_HOST) {
            let host = ANY_HOST.into();
            let rules = rules(&host, at.to_owned(), Vec::new(), default.clone(), None);
            all.insert(host, Arc::new(rules));
        }
        all
    }

    /// The hosts of an Ingress of which nothing is served.
    fn refused(&self) -> BTreeMap<Arc<str>, Arc<HostRules>> {
        let hosts = self.ingress.hosts().into_iter();
        let hosts = hosts.filter(|host| is_host(host)).take(limits::HOSTS);
        let rules = HostRules {
            at: "spec.rules".to_owned(),
            created: self.ingress.meta.created,
            namespace: self.ingress.namespace().clone(),
            annotated: self.annotated.clone(),
            paths: Vec::new(),
            default: None,
            certificate: None,
            of_server: None,
            without_secret: None,
            is_alias: false,
            has_tls: false,
            moved_to: None,
            is_refused: true,
        };
        let rules = Arc::new(rules);
        hosts.map(|host| (host, rules.clone())).collect()
    }

    /// Further hosts of the Ingress, each with the one that it is another name of.
    fn aliases(
        &self,
        paths: &BTreeMap<Arc<str>, (String, Vec<Path>)>,
    ) -> Vec<(Arc<str>, Arc<str>)> {
        let first = self.ingress.spec.rules.first();
        let first = first.map(|rule| rule.host.clone());
        let Some(first) = first.filter(|host| paths.contains_key(host)) else {
            return Vec::new();
        };
        let aliases = self.annotated.annotations.tls.aliases.iter();
        let aliases = aliases.filter(|alias| is_host(alias));
        aliases
            .map(|alias| (alias.clone(), first.clone()))
            .collect()
    }

    /// The Secrets with certificates by host, each with where the Ingress names it; the first of a host counts.
    fn certificates(&self) -> BTreeMap<Arc<str>, (String, Arc<str>)> {
        let mut certificates = BTreeMap::new();
        for (index, tls) in self.ingress.spec.tls.iter().enumerate() {
            if tls.secret_name.is_empty() {
                continue;
            }
            let every = [Arc::from(ANY_HOST)];
            let hosts = if tls.hosts.is_empty() {
                &every[..]
            } else {
                &tls.hosts
            };
            for host in hosts {
                let at = format!("spec.tls[{index}].secretName");
                let entry = certificates.entry(host.clone());
                entry.or_insert_with(|| (at, tls.secret_name.clone()));
            }
        }
        certificates
    }

    /// Where an entry of `tls` has a host and names no Secret.
    fn without_secret(&self, host: &str) -> Option<String> {
        let mut entries = self.ingress.spec.tls.iter();
        let has =
            |hosts: &[Arc<str>]| hosts.is_empty() || hosts.iter().any(|named| **named == *host);
        let at = entries.position(|tls| tls.secret_name.is_empty() && has(&tls.hosts))?;
        Some(format!("spec.tls[{at}]"))
    }

    fn path(&mut self, stated: &IngressPath, at: At) -> Option<Path> {
        let rewrite = &self.annotated.annotations.rewrite;
        let path = stated.path.trim();
        let is_exact = stated.path_type == Some(PathType::Exact);
        let kind = match rewrite.paths {
            _ if is_exact => PathKind::Exact,
            Paths::FullRegex => PathKind::FullRegex,
            Paths::Regex => PathKind::PrefixRegex,
            Paths::Plain if is_pattern(path, rewrite.target.as_deref()) => PathKind::PrefixRegex,
            // ingress-nginx takes `ImplementationSpecific` for `Prefix` as well.
            Paths::Plain => PathKind::Prefix,
        };
        let path = match (kind, stated.path_type) {
            (PathKind::Prefix, None) => {
                let open = expression::without_rest(path);
                let open = Some(open).filter(|open| open.len() < path.len());
                open.or_else(|| path.strip_suffix("/*")).unwrap_or(path)
            }
            _ => path,
        };
        let path = if path.is_empty() { "/" } else { path };
        let is_plain = matches!(kind, PathKind::Exact | PathKind::Prefix);
        let is_path = path.starts_with('/') && !path.contains(char::is_control);
        let forbidden: &[char] = if is_plain { &['?', '#'] } else { &[] };
        if !is_path || path.contains(forbidden) {
            let message = "is not a path that proxies can match, so it is not served";
            self.leave_out(format!("{at}.path"), message);
            return None;
        }
        let backend = self.backend(&stated.backend, &format!("{at}.backend"));
        let path = match *path == *stated.path {
            true => stated.path.clone(),
            false => path.into(),
        };
        Some(Path {
            path,
            kind,
            ignore_case: self.annotated.annotations.matching.ignore_case,
            backend,
            at,
        })
    }

    fn backend(&mut self, stated: &IngressBackend, at: &str) -> Backend {
        if self.ingress.meta.closed.is_some() {
            return Backend::None;
        }
        if let Some(resource) = &stated.resource {
            let is_bridge = (&*resource.api_group, &*resource.kind, &*resource.name)
                == ("networking.higress.io", "McpBridge", "default");
            if is_bridge && !self.annotated.annotations.backend.destinations.is_empty() {
                return Backend::Destinations;
            }
            let message = match is_bridge {
                true => "needs the annotation destination, so requests for it get 503",
                false => "is no backend that is known, so requests for it get 503",
            };
            self.leave_out(format!("{at}.resource"), message);
            return Backend::None;
        }
        let service = stated.service.as_ref().filter(|s| !s.name.is_empty());
        let Some(service) = service else {
            self.leave_out(
                at.to_owned(),
                "names no Service, so requests for it get 503",
            );
            return Backend::None;
        };
        let port = match u16::try_from(service.port.number) {
            Ok(number) if number > 0 => BackendPort::Number(number),
            _ if service.port.number == 0 && !service.port.name.is_empty() => {
                BackendPort::Name(service.port.name.clone())
            }
            _ => {
                // As that of a Service which has not the port: nobody has it.
                if self.ingress.meta.closed.is_none() {
                    let at = format!("{at}.service.port");
                    let message = "is not a port, so requests for it get 503";
                    self.tell(code::NO_BACKEND, Severity::Warning, at, message);
                }
                return Backend::None;
            }
        };
        Backend::Service(service.name.clone(), port)
    }

    fn leave_out(&mut self, path: String, message: &str) {
        // What is wrong with an Ingress that was rejected is reported already.
        if self.ingress.meta.closed.is_some() {
            return;
        }
        self.tell(code::NOT_SERVED, Severity::Warning, path, message);
    }

    fn tell(
        &mut self,
        code: &'static str,
        severity: Severity,
        path: String,
        message: impl Into<Arc<str>>,
    ) {
        let found = finding(&key(&self.ingress.meta.name), code, severity, path, message);
        self.findings.push(found);
    }
}

/// Whether a path that is rewritten is a regular expression though nothing says so: nginx reads it as one.
///
/// Higress: pkg/ingress/kube/annotations/annotations.go NeedRegexMatch, 2.1.
pub(super) fn is_pattern(path: &str, target: Option<&str>) -> bool {
    target.is_some_and(|target| {
        target.contains(['$', '\\'])
            || path.contains(['*', '(', ')', '[', '^', '$', '|', '+', '?', '\\'])
    })
}

/// What follows the `*.` of the wildcards of which a host is one, the longest first. A host is one of `*` as well.
pub(super) fn ends(host: &str) -> impl Iterator<Item = &str> {
    let name = host.strip_prefix("*.").unwrap_or(host);
    std::iter::successors(Some(name), |name| Some(name.split_once('.')?.1)).skip(1)
}
