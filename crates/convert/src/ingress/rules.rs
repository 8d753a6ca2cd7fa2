//! The rules of one Ingress, by host, with what is wrong with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::kube::{Ingress, IngressBackend, IngressPath, IngressRule, is_host};
use model::{Age, Diagnostic, Object, ObjectKey, ObjectName, Severity};
use proto_istio::networking::string_match::MatchType;

use super::class::{Served, ServedBy};
use super::gateway::has_too_many_hosts;
use super::path::{is_usable, match_of};
use super::{host, key, limits};
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
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Rules {
    pub(super) created: Age,
    /// How many entries of `tls` it has.
    pub(super) servers: usize,
    /// The IngressClass without which it would not be served.
    pub(super) class: Option<ObjectKey>,
    /// It is beyond a limit, and nothing of it is served.
    pub(super) is_refused: bool,
    pub(super) findings: Vec<Diagnostic>,
    by_host: BTreeMap<Arc<str>, Arc<HostRules>>,
}

impl Rules {
    /// How many paths its hosts have.
    pub(super) fn paths(&self) -> usize {
        self.by_host.values().map(|rules| rules.paths.len()).sum()
    }
}

/// What an Ingress says about one host.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct HostRules {
    /// Where it names the host first.
    pub(super) at: String,
    pub(super) created: Age,
    pub(super) class: Option<ObjectKey>,
    /// How many smaller hosts of the Ingress look the same once their dots are dashes.
    pub(super) alike: usize,
    pub(super) paths: Vec<Path>,
}

/// A path and the Service that it leads to.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Path {
    /// Where in the Ingress it stands.
    pub(super) at: String,
    /// `None` is every path.
    pub(super) matched: Option<MatchType>,
    /// A Service of the Ingress's namespace.
    pub(super) service: Arc<str>,
    pub(super) port: BackendPort,
}

/// The port of a Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BackendPort {
    Number(u16),
    Name(Arc<str>),
}

impl Derive for RulesOf {
    type Stratum = Routes;
    type Value = Option<Rules>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<Rules> {
        let class = match read.derived(ServedBy(self.0.clone())).as_ref().clone()? {
            Served::Itself => None,
            Served::Class(class) => Some(class),
        };
        let ingress = read.get::<Ingress>(&self.0)?;
        Some(Reading::new(&ingress, class).rules())
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
    key: ObjectKey,
    class: Option<ObjectKey>,
    findings: Vec<Diagnostic>,
}

impl<'a> Reading<'a> {
    fn new(ingress: &'a Object<Ingress>, class: Option<ObjectKey>) -> Self {
        Self {
            ingress,
            key: key(&ingress.meta.name),
            class,
            findings: Vec::new(),
        }
    }

    fn rules(mut self) -> Rules {
        let spec = &self.ingress.spec;
        let paths = spec.rules.iter().filter_map(|rule| rule.http.as_ref());
        let paths: usize = paths.map(|http| http.paths.len()).sum();
        let mut refused = |field: &str, limit: usize, what: &str| {
            let message = format!("has more than {limit} {what}, so nothing of it is served");
            let severity = Severity::Error;
            let field = format!("spec.{field}");
            let finding = finding(&self.key, code::OVER_LIMIT, severity, field, message);
            self.findings.push(finding);
        };
        if paths > limits::PATHS {
            refused("rules", limits::PATHS, "paths");
        }
        if has_too_many_hosts(spec) {
            refused("tls", limits::TLS_HOSTS, "hosts");
        }
        let is_refused = !self.findings.is_empty();
        let by_host = if is_refused {
            BTreeMap::new()
        } else {
            self.by_host()
        };
        Rules {
            created: self.ingress.meta.created,
            servers: spec.tls.len(),
            class: self.class,
            is_refused,
            findings: self.findings,
            by_host,
        }
    }

    fn by_host(&mut self) -> BTreeMap<Arc<str>, Arc<HostRules>> {
        if self.ingress.spec.default_backend.is_some() {
            self.tell(
                "spec.defaultBackend",
                "is not served; a VirtualService for every host can do it",
            );
        }
        let mut paths: BTreeMap<Arc<str>, (String, Vec<Path>)> = BTreeMap::new();
        for (index, rule) in self.ingress.spec.rules.iter().enumerate() {
            let at = format!("spec.rules[{index}]");
            if let Some(read) = self.rule(rule, &at) {
                let (_, all) = paths
                    .entry(host(&rule.host))
                    .or_insert_with(|| (format!("{at}.host"), Vec::new()));
                all.extend(read);
            }
        }
        let mut alike: BTreeMap<String, usize> = BTreeMap::new();
        let rules = paths.into_iter().map(|(host, (at, paths))| {
            let alike = alike.entry(host.replace('.', "-")).or_default();
            *alike += 1;
            let rules = HostRules {
                at,
                created: self.ingress.meta.created,
                class: self.class.clone(),
                alike: *alike - 1,
                paths,
            };
            (host, Arc::new(rules))
        });
        rules.collect()
    }

    /// The paths of a rule; `None` where it does not count as one.
    fn rule(&mut self, rule: &IngressRule, at: &str) -> Option<Vec<Path>> {
        if !is_host(&host(&rule.host)) {
            self.tell(
                &format!("{at}.host"),
                "is not a host name, so the rule is not served",
            );
            return None;
        }
        let Some(http) = &rule.http else {
            self.tell(
                &format!("{at}.http"),
                "states no paths, so the rule is not served",
            );
            return None;
        };
        let paths = http.paths.iter().enumerate();
        let read =
            paths.filter_map(|(index, path)| self.path(path, format!("{at}.http.paths[{index}]")));
        Some(read.collect())
    }

    fn path(&mut self, path: &IngressPath, at: String) -> Option<Path> {
        let matched = match_of(&path.path, path.path_type);
        if matched.as_ref().is_some_and(|matched| !is_usable(matched)) {
            self.tell(
                &format!("{at}.path"),
                "is not a path that proxies can match, so it is not served",
            );
            return None;
        }
        let (service, port) = self.backend(&path.backend, &format!("{at}.backend"))?;
        Some(Path {
            at,
            matched,
            service,
            port,
        })
    }

    fn backend(&mut self, backend: &IngressBackend, at: &str) -> Option<(Arc<str>, BackendPort)> {
        let service = backend.service.as_ref().filter(|s| !s.name.is_empty());
        let Some(service) = service else {
            self.tell(at, "names no Service, so the path is not served");
            return None;
        };
        let port = match u16::try_from(service.port.number) {
            Ok(number) if number > 0 => BackendPort::Number(number),
            _ if service.port.number > 0 => {
                self.tell(
                    &format!("{at}.service.port.number"),
                    "is not a port, so the path is not served",
                );
                return None;
            }
            _ => BackendPort::Name(service.port.name.clone()),
        };
        Some((service.name.clone(), port))
    }

    fn tell(&mut self, path: &str, message: &str) {
        let found = finding(
            &self.key,
            code::NOT_SERVED,
            Severity::Warning,
            path.to_owned(),
            message,
        );
        self.findings.push(found);
    }
}
