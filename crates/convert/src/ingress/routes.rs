//! The VirtualService of a host.
//!
//! Istio: pilot/pkg/config/kube/ingress/virtualservices.go, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::kinds::kube::{Ingress, Service};
use model::{Diagnostic, Kind, ObjectKey, ObjectName, Severity};
use prost::Message;
use proto_istio::networking::{
    HttpMatchRequest, HttpRoute, HttpRouteDestination, StringMatch, VirtualService,
};
use store::index::ObjectIndex;

use super::path::order_of;
use super::rules::{BackendPort, HostRules, Path, RulesAbout};
use super::{INFIX, charge, derived, gateway_name, key, limits};
use crate::outcome::{Made, Outcome, code, finding, object};
use crate::owner::{Members, OwnerOf};
use crate::reader::{Derive, Reader};
use crate::refer::{Author, Named, may_name};
use crate::strata::Routes;

/// The VirtualService of a host, made from the rules of every Ingress that is served and names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoutesOfHost(pub Arc<str>);

/// The number of a port of a Service that is named; none where there is no such port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct NumberOf {
    service: ObjectName,
    port: Arc<str>,
}

impl Derive for NumberOf {
    type Stratum = Routes;
    type Value = Option<u16>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<u16> {
        let service = read.get::<Service>(&self.service)?;
        let mut ports = service.spec.ports.iter();
        let port = ports.find(|port| port.name == self.port)?;
        u16::try_from(port.port).ok()
    }
}

impl Derive for RoutesOfHost {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let names = read.names_by::<Ingress>(ObjectIndex::Host, &self.0);
        let rules = names.into_iter().filter_map(|ingress| {
            let rules = read.derived(RulesAbout {
                ingress: ingress.clone(),
                host: self.0.clone(),
            });
            Some((ingress, rules.as_ref().clone()?))
        });
        let rules: Vec<(ObjectName, Arc<HostRules>)> = rules.collect();
        if rules.is_empty() {
            return Outcome::default();
        }
        let owner = read.derived(OwnerOf(self.0.clone()));
        let about = (Kind::Ingress, &self.0);
        let members = Members::of(read, owner.as_ref().as_ref(), about, rules);
        let mut merging = Merging {
            read,
            host: &self.0,
            room: limits::HOST_BYTES,
            routes: Vec::new(),
            included: Vec::new(),
            others: members.grants.iter().cloned().collect(),
            findings: members.findings.clone(),
        };
        let members = members.all().iter();
        for (ingress, rules) in members.filter(|(name, _)| !charge::is_over(read, name)) {
            merging.add(ingress, rules);
        }
        merging.outcome()
    }
}

/// Rules of several Ingresses becoming one.
struct Merging<'r, 'a, 'b> {
    read: &'r Reader<'a, 'b, Routes>,
    host: &'r str,
    /// What routes may weigh still.
    room: usize,
    routes: Vec<HttpRoute>,
    included: Vec<(&'r ObjectName, &'r HostRules)>,
    /// The objects that decide how the Ingresses are read.
    others: BTreeSet<ObjectKey>,
    findings: Vec<Diagnostic>,
}

impl<'r> Merging<'r, '_, '_> {
    /// Takes in the rules of an Ingress, which is younger than those before.
    fn add(&mut self, ingress: &'r ObjectName, rules: &'r HostRules) {
        let mut services = BTreeSet::new();
        let paths = rules.paths.iter();
        let routes = paths.filter_map(|path| self.route(ingress, path, &mut services));
        let routes: Vec<HttpRoute> = routes.collect();
        let weight = |route: &HttpRoute| route.encoded_len() + limits::ROUTE_BYTES;
        let weight: usize = routes.iter().map(weight).sum();
        let Some(room) = self.room.checked_sub(weight) else {
            let message = format!(
                "nothing of it is served at the host {:?}: the Ingresses that name the host weigh more than {} MiB",
                self.host,
                limits::HOST_BYTES >> 20
            );
            self.tell(ingress, code::OVER_LIMIT, "spec.rules".to_owned(), message);
            return;
        };
        self.room = room;
        self.routes.extend(routes);
        self.others.extend(rules.class.clone());
        self.others.extend(services);
        self.included.push((ingress, rules));
    }

    fn route(
        &mut self,
        ingress: &ObjectName,
        path: &Path,
        services: &mut BTreeSet<ObjectKey>,
    ) -> Option<HttpRoute> {
        let number = match &path.port {
            BackendPort::Number(number) => *number,
            BackendPort::Name(port) => {
                let service = ObjectName::new(ingress.namespace.clone(), &*path.service);
                let number = NumberOf {
                    service: service.clone(),
                    port: port.clone(),
                };
                let Some(number) = *self.read.derived(number) else {
                    let at = format!("{}.backend.service.port.name", path.at);
                    let message = format!(
                        "there is no Service {service} with a port named {port:?}, so the path is not served"
                    );
                    self.tell(ingress, code::NO_BACKEND, at, message);
                    return None;
                };
                services.insert(ObjectKey {
                    kind: Kind::Service,
                    name: service,
                });
                number
            }
        };
        let service = ObjectKey {
            kind: Kind::Service,
            name: ObjectName::new(ingress.namespace.clone(), &*path.service),
        };
        let by = Author::new(Kind::Ingress, ingress);
        let target = match may_name(self.read, by, Named::Object(service)) {
            Ok(target) => target,
            Err(refusal) => {
                let at = format!("{}.backend.service.name", path.at);
                let message = format!("{}, so the path is not served", refusal.sentence());
                self.tell(ingress, code::NOT_PERMITTED, at, message);
                return None;
            }
        };
        self.others.extend(target.grants().iter().cloned());
        let matched = path.matched.clone().map(|matched| HttpMatchRequest {
            uri: Some(StringMatch {
                match_type: Some(matched),
            }),
            ..HttpMatchRequest::default()
        });
        Some(HttpRoute {
            r#match: matched.into_iter().collect(),
            route: vec![HttpRouteDestination {
                destination: Some(target.destination(number, None)),
                weight: 100,
                ..HttpRouteDestination::default()
            }],
            ..HttpRoute::default()
        })
    }

    fn tell(
        &mut self,
        ingress: &ObjectName,
        code: &'static str,
        at: String,
        message: impl Into<Arc<str>>,
    ) {
        let found = finding(&key(ingress), code, Severity::Warning, at, message);
        self.findings.push(found);
    }

    fn outcome(self) -> Outcome<Routes> {
        let findings = self.findings.into();
        let Some((oldest, rules)) = self.included.first() else {
            return Outcome {
                objects: Vec::new(),
                findings,
            };
        };
        let mut routes = self.routes;
        routes.sort_by_cached_key(order_of);
        let settings = self.read.settings();
        let gateways = &settings.features.ingress_namespace;
        let service = VirtualService {
            hosts: vec![self.host.to_owned()],
            gateways: vec![format!("{gateways}/{}", gateway_name(oldest))],
            http: routes,
            ..VirtualService::default()
        };
        let mut name = format!("{}-{}-{INFIX}", self.host.replace('.', "-"), oldest.name);
        // istiod gives hosts that differ in dots and dashes one name, and serves one of them.
        if rules.alike > 0 {
            name = format!("{name}-{}", rules.alike + 1);
        }
        let name = ObjectName::new(oldest.namespace.clone(), name);
        let from = self.included.iter().map(|(ingress, _)| (*ingress).clone());
        let derived = derived(from, self.others);
        Outcome {
            objects: vec![Made::new(object(name, derived, service))],
            findings,
        }
    }
}
