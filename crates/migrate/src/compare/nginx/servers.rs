//! The servers and locations that ingress-nginx makes of Ingresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::kube::{Ingress, IngressBackend, PathType};
use model::{Labels, Object, ObjectName};
use store::Snapshot;

use super::canary::Canary;
use super::location::{Backend, Location, ToHttps};
use super::{DEFAULT, Nginx, Server};
use crate::{PREFIXES, World, ports};

/// What ingress-nginx makes of the Ingresses of a world.
pub(super) fn of(world: &World) -> Nginx {
    let mut ingresses: Vec<&Arc<Object<Ingress>>> = world.ingresses.iter().collect();
    // The oldest goes first.
    ingresses.sort_by(|a, b| {
        let by = |o: &Object<Ingress>| (o.meta.created, o.meta.name.clone());
        by(a).cmp(&by(b))
    });
    let mut making = Making {
        snapshot: &world.snapshot,
        options: &world.defaults.nginx,
        servers: BTreeMap::from([(DEFAULT.to_owned(), Server::default())]),
    };
    let (canaries, others): (Vec<_>, Vec<_>) = ingresses
        .into_iter()
        .partition(|ingress| is_on(annotation(ingress, "canary")));
    for ingress in &others {
        making.add(ingress);
    }
    for ingress in &canaries {
        making.merge(ingress);
    }
    let (aliases, redirects) = making.further_names(&others);
    Nginx {
        servers: making.servers,
        aliases,
        redirects,
    }
}

struct Making<'a> {
    snapshot: &'a Snapshot,
    options: &'a Labels,
    servers: BTreeMap<String, Server>,
}

/// The value of an annotation as ingress-nginx reads it.
fn annotation<'a>(ingress: &'a Object<Ingress>, name: &str) -> Option<&'a str> {
    let key = format!("{}{name}", PREFIXES[0]);
    let value = ingress.meta.annotations.get(&key)?.trim();
    (!value.is_empty()).then_some(value)
}

/// A Service that an Ingress names.
fn named(ingress: &Object<Ingress>, service: &str) -> ObjectName {
    ObjectName::new(ingress.namespace().clone(), service)
}

fn is_on(value: Option<&str>) -> bool {
    matches!(value, Some("true" | "True" | "TRUE" | "t" | "T" | "1"))
}

fn is_off(value: Option<&str>) -> bool {
    matches!(value, Some("false" | "False" | "FALSE" | "f" | "F" | "0"))
}

impl Making<'_> {
    /// Adds the servers and locations of an Ingress.
    fn add(&mut self, ingress: &Object<Ingress>) {
        let default = ingress.spec.default_backend.as_ref();
        let default = default.and_then(|backend| self.backend(ingress, backend));
        if let (Some(backend), true) = (&default, ingress.spec.rules.is_empty()) {
            let mut location = self.location(ingress, "/", PathType::Prefix);
            location.backend = Some(backend.clone());
            self.put(DEFAULT, location);
        }
        for rule in &ingress.spec.rules {
            let host = host_of(&rule.host);
            if !self.servers.contains_key(&host) || host == DEFAULT {
                let mut location = self.location(ingress, "/", PathType::Prefix);
                location.backend = default.clone();
                location.is_default = true;
                self.put(&host, location);
            }
            let server = self.server(&host);
            // Whatever `tls` says of the host: where no certificate can be used the default one is.
            server.has_certificate |= !ingress.spec.tls.is_empty() && host != DEFAULT;
            server.passes |= is_on(annotation(ingress, "ssl-passthrough"));
            for path in rule.http.iter().flat_map(|http| &http.paths) {
                let Some(backend) = self.backend(ingress, &path.backend) else {
                    continue;
                };
                let text = if path.path.is_empty() {
                    "/"
                } else {
                    &path.path
                };
                let path_type = type_of(path.path_type);
                let mut location = self.location(ingress, text, path_type);
                location.backend = Some(backend);
                self.put(&host, location);
            }
        }
    }

    /// Adds a location, unless an older Ingress has it.
    fn put(&mut self, host: &str, location: Location) {
        let server = self.server(host);
        let same = |l: &&mut Location| {
            // `/` has no form but one.
            l.path == location.path && (l.path_type == location.path_type || l.path == "/")
        };
        match server.locations.iter_mut().find(same) {
            Some(known) if known.is_default && !location.is_default => *known = location,
            Some(_) => {}
            None => server.locations.push(location),
        }
    }

    fn server(&mut self, host: &str) -> &mut Server {
        self.servers.entry(host.to_owned()).or_default()
    }

    /// Puts a canary to the locations that it is one of.
    fn merge(&mut self, ingress: &Object<Ingress>) {
        let number = |name| annotation(ingress, name).and_then(|text| text.parse().ok());
        for rule in &ingress.spec.rules {
            let host = host_of(&rule.host);
            for path in rule.http.iter().flat_map(|http| &http.paths) {
                let backend = self.backend(ingress, &path.backend);
                let Some(Backend::Service(backend)) = backend else {
                    continue;
                };
                let text = if path.path.is_empty() {
                    "/"
                } else {
                    &path.path
                };
                let path_type = type_of(path.path_type);
                let Some(server) = self.servers.get_mut(&host) else {
                    continue;
                };
                let base = server.locations.iter_mut().find(|location| {
                    location.path == text && location.path_type == path_type && !location.is_default
                });
                let itself = Some(Backend::Service(backend.clone()));
                let Some(base) = base.filter(|base| base.backend != itself) else {
                    continue;
                };
                let text = |name| annotation(ingress, name).map(str::to_owned);
                base.canaries.push(Canary {
                    backend,
                    header: text("canary-by-header"),
                    value: text("canary-by-header-value"),
                    pattern: text("canary-by-header-pattern"),
                    cookie: text("canary-by-cookie"),
                    weight: number("canary-weight").unwrap_or(0),
                    total: number("canary-weight-total").unwrap_or(100),
                });
            }
        }
    }

    /// A location with what the annotations say, and no backend yet.
    fn location(&self, ingress: &Object<Ingress>, path: &str, path_type: PathType) -> Location {
        let target = annotation(ingress, "rewrite-target");
        let rewrites = target.is_some_and(|target| target != path);
        let code = |name, usual| {
            let stated = annotation(ingress, name).and_then(|text| text.parse().ok());
            stated.unwrap_or(usual)
        };
        let temporal = annotation(ingress, "temporal-redirect")
            .map(|to| (code("temporal-redirect-code", 302), to.to_owned()));
        let permanent = annotation(ingress, "permanent-redirect")
            .map(|to| (code("permanent-redirect-code", 301), to.to_owned()));
        let forced = annotation(ingress, "force-ssl-redirect");
        let forced = forced.or_else(|| self.options.get("force-ssl-redirect"));
        let stated = annotation(ingress, "ssl-redirect");
        let stated = stated.or_else(|| self.options.get("ssl-redirect"));
        Location {
            path: path.to_owned(),
            path_type,
            ingress: ingress.meta.name.to_string(),
            backend: None,
            is_default: false,
            is_regex: rewrites || is_on(annotation(ingress, "use-regex")),
            redirect: temporal.or(permanent),
            app_root: annotation(ingress, "app-root").map(str::to_owned),
            to_https: match (is_on(forced), is_off(stated)) {
                (true, _) => ToHttps::Always,
                (false, true) => ToHttps::Never,
                (false, false) => ToHttps::WithCertificate,
            },
            canaries: Vec::new(),
        }
    }

    /// What stands behind a backend; none where it names no Service, which nginx passes over.
    fn backend(&self, ingress: &Object<Ingress>, backend: &IngressBackend) -> Option<Backend> {
        let stated = backend.service.as_ref()?;
        let (name, port) = (named(ingress, &stated.name), &stated.port);
        let service = self.snapshot.tables.kube_services.get(&name);
        let found = service.and_then(|service| ports::number_of(&service.spec, port));
        if let Some(number) = found {
            return Some(Backend::Service(format!("{name}:{number}")));
        }
        if let Some(instead) = self.instead(ingress) {
            return Some(Backend::Service(instead));
        }
        Some(Backend::Absent(match service {
            None => format!("there is no Service {name}"),
            Some(_) => format!(
                "the Service {name} has not the port {}",
                ports::text_of(port)
            ),
        }))
    }

    /// The Service of the annotation `default-backend`, by its first port.
    fn instead(&self, ingress: &Object<Ingress>) -> Option<String> {
        let name = named(ingress, annotation(ingress, "default-backend")?);
        let service = self.snapshot.tables.kube_services.get(&name)?;
        let first = service.spec.ports.first()?;
        Some(format!("{name}:{}", first.port))
    }

    /// Aliases of servers, and the hosts that are sent to another.
    fn further_names(
        &self,
        ingresses: &[&Arc<Object<Ingress>>],
    ) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let (mut aliases, mut redirects) = (BTreeMap::new(), BTreeMap::new());
        for ingress in ingresses {
            let hosts = ingress.spec.rules.iter().map(|rule| host_of(&rule.host));
            for host in hosts.filter(|host| host != DEFAULT) {
                let named = annotation(ingress, "server-alias").unwrap_or_default();
                for alias in named.split(',').map(str::trim).filter(|a| !a.is_empty()) {
                    if !self.servers.contains_key(alias) {
                        aliases
                            .entry(alias.to_owned())
                            .or_insert_with(|| host.clone());
                    }
                }
                if is_on(annotation(ingress, "from-to-www-redirect")) {
                    let other = match host.strip_prefix("www.") {
                        Some(rest) => rest.to_owned(),
                        None => format!("www.{host}"),
                    };
                    redirects.entry(other).or_insert(host);
                }
            }
        }
        (aliases, redirects)
    }
}

/// The type of a path: whatever is not exact is a prefix.
///
/// ingress-nginx: internal/k8s/main.go SetDefaultNGINXPathType, 1.12.
fn type_of(stated: Option<PathType>) -> PathType {
    match stated {
        Some(PathType::Exact) => PathType::Exact,
        Some(PathType::Prefix | PathType::ImplementationSpecific) | None => PathType::Prefix,
    }
}

fn host_of(host: &str) -> String {
    match host.is_empty() {
        true => DEFAULT.to_owned(),
        false => host.to_ascii_lowercase(),
    }
}
