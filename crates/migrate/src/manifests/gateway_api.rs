//! Manifests of the Gateway API: one Gateway with a listener for each host that has a certificate, and HTTPRoutes, GRPCRoutes
//! and TLSRoutes in the namespaces of the Ingresses.
//!
//! Rules that would lead elsewhere in the order of the API are brought into theirs ([`arrange`]). A rule that is closed has no
//! backend: the API has it answer 500, upstream's conformance suite tests that, and no implementation has anywhere to send it.

mod arrange;
mod does;
mod grants;
mod grpc;
mod listeners;
mod lost;
mod rewrite;
mod routes;
mod rule;
mod rules;
mod services;

use model::kinds::gateway_api::short_hash;
use model::kinds::kube::ANY_HOST;
use model::{AnyObject, Kind, Object, ObjectKey, ObjectName};
use proto_istio::networking::VirtualService;
use serde_json::{Value, json};

use super::{Kinds, Manifest, Manifests, made_from, of_host};
use crate::World;
use crate::report::service_of;
use grants::Grants;
use listeners::{Listeners, Secure};
use rules::Reading;

pub use listeners::GATEWAY;

/// What is wanted of the manifests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayApi {
    /// The class of the Gateway.
    pub class: String,
    /// Whether rules say how sessions are kept, which not all that serve the API can do.
    pub sessions: bool,
}

impl Default for GatewayApi {
    fn default() -> Self {
        Self {
            class: "pilothouse".to_owned(),
            sessions: false,
        }
    }
}

/// The longest name that has its host in full.
const LONGEST_NAME: usize = 200;

impl Manifests {
    /// As objects of the Gateway API.
    pub fn of_gateway_api(world: &World, wanted: &GatewayApi) -> Self {
        let mut manifests = Self {
            kinds: Kinds::GatewayApi,
            ..Self::default()
        };
        let mut grants = Grants::default();
        let services = world.snapshot.tables.virtual_services.iter();
        let mut hosts: Vec<_> = services.filter(|service| service.meta.is_edge()).collect();
        if hosts.is_empty() {
            return manifests;
        }
        hosts.sort_by(|a, b| a.spec.hosts.cmp(&b.spec.hosts));
        let listeners = Listeners::of(world, &wanted.class, &mut grants, &mut manifests);
        let said = services::of(world, wanted.sessions, &mut manifests);
        let reading = Reading::new(world, &said);
        for service in hosts {
            let mut writing = Writing {
                listeners: &listeners,
                grants: &mut grants,
                manifests: &mut manifests,
            };
            writing.host(&reading, service);
        }
        grants.write(&mut manifests);
        manifests
    }
}

/// The objects of a host being written.
struct Writing<'a> {
    listeners: &'a Listeners,
    grants: &'a mut Grants,
    manifests: &'a mut Manifests,
}

impl Writing<'_> {
    fn host(&mut self, reading: &Reading<'_>, service: &std::sync::Arc<Object<VirtualService>>) {
        let Some(host) = service.spec.hosts.first() else {
            return;
        };
        let file = of_host(Some(host));
        let mut comments = vec![made_from(&AnyObject::VirtualService(service.clone()))];
        if host != ANY_HOST && !is_host(host) {
            self.manifests
                .lose(host, "all of it", &[lost::HOST], &mut comments);
            return;
        }
        let lost = self.listeners.lost.get(host);
        let lost = lost.map(Vec::as_slice).unwrap_or_default();
        if !lost.is_empty() {
            let name = "over TLS, any path";
            self.manifests.lose(host, name, lost, &mut comments);
        }
        let (plain, secure) = reading.ports();
        let mut of_plain = reading.rules(service, plain);
        let secured = self.listeners.secure(host);
        let ends = secured.filter(|(secure, _)| *secure == Secure::Ends);
        let host = routes::Host {
            name: host,
            file: &file,
            from: &comments,
        };
        let plainly = vec![self.listeners.plain().clone()];
        let Some((_, listener)) = ends else {
            self.routes(&host, "route", plainly, of_plain);
            if let Some((Secure::Passes, listener)) = secured {
                self.passed(reading, service, &host, listener.clone());
            }
            return;
        };
        let mut of_secure = reading.rules(service, secure);
        if lost.iter().any(|lost| lost.closes) {
            of_secure.close(lost);
        }
        if of_plain == of_secure {
            let both = vec![self.listeners.plain().clone(), listener.clone()];
            self.routes(&host, "route", both, of_plain);
            return;
        }
        of_plain.compress();
        self.routes(&host, "http", plainly, of_plain);
        self.routes(&host, "https", vec![listener.clone()], of_secure);
    }

    /// The TLSRoute of a host whose connections are passed on.
    fn passed(
        &mut self,
        reading: &Reading<'_>,
        service: &Object<VirtualService>,
        host: &routes::Host<'_>,
        parent: Value,
    ) {
        let Some((namespace, backends)) = reading.passed(service) else {
            return;
        };
        if host.name == ANY_HOST {
            let mut comments = Vec::new();
            self.manifests
                .lose(host.name, "over TLS", &[lost::HOST], &mut comments);
            return;
        }
        let key = ObjectKey {
            kind: Kind::TlsRoute,
            name: ObjectName::new(namespace, named("tls", host.name)),
        };
        self.permit(&key, &backends);
        let spec = json!({
            "parentRefs": [parent],
            "hostnames": [host.name],
            "rules": [{ "backendRefs": backends }],
        });
        self.manifests
            .put(host.file, Manifest::new(&key, spec, host.from));
    }

    /// Lets a route name Services of other namespaces.
    fn permit(&mut self, route: &ObjectKey, backends: &[Value]) {
        for to in backends {
            let text = |field: &str| to[field].as_str();
            if let (Some(namespace), Some(name)) = (text("namespace"), text("name")) {
                let service = ObjectKey {
                    kind: Kind::Service,
                    name: ObjectName::new(namespace, name),
                };
                self.grants
                    .permit(route.kind, &route.name.namespace, &service);
            }
        }
    }
}

/// The Service that a host of the mesh stands for.
fn path_of_service(world: &World, host: &str) -> Option<ObjectName> {
    let domain = &*world.snapshot.settings.domain;
    let is_elsewhere = |rest: &str| rest.ends_with(convert::edge::ELSEWHERE);
    // Few gateways take a Service of the type ExternalName as a backend.
    if host.strip_suffix(domain).is_some_and(is_elsewhere) {
        return None;
    }
    let path = service_of(host, domain);
    let (namespace, name) = path.split_once('/')?;
    (!name.contains('.')).then(|| ObjectName::new(namespace, name))
}

/// Whether the API takes a host.
fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty()
            && label.bytes().all(good)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let text = text.strip_prefix("*.").unwrap_or(text);
    text.len() <= 253 && text.split('.').all(label)
}

/// The name of something that is about a host. No two hosts have one name.
fn named(of: &str, host: &str) -> String {
    let name = match host.strip_prefix("*.") {
        _ if host == ANY_HOST => format!("any-{of}"),
        Some(rest) => format!("wildcard-{of}-{rest}"),
        None => format!("{of}-{host}"),
    };
    match name.len() <= LONGEST_NAME {
        true => name,
        false => {
            let hash = short_hash(&name);
            let cut = name.get(..LONGEST_NAME).unwrap_or(&name);
            format!("{}-{hash}", cut.trim_end_matches(['-', '.']))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names_of_their_own() {
        let hosts = ["*", "*.a.com", "wildcard-https-a.com", "a.com", "any"];
        let names: std::collections::BTreeSet<String> =
            hosts.iter().map(|host| named("https", host)).collect();
        assert_eq!(names.len(), hosts.len());
        let long = format!("{}.com", "a".repeat(240));
        assert!(named("https", &long).len() < 253);
    }
}
