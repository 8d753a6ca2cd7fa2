//! The VirtualService of a host.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::derived::Semantics;
use model::kinds::knative::Visibility;
use model::{Age, Diagnostic, ObjectName};
use proto_istio::networking::{HttpMatchRequest, HttpRoute, VirtualService};

use super::gateway::{entrance, name_of};
use super::owner::{MembersOf, namespace};
use super::rules::HostRules;
use super::{BYTES, Place, charge, class, derived, key, name, route, told};
use crate::edge;
use crate::outcome::{Made, Outcome, code, object};
use crate::owner::why_first;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The status of a redirect to HTTPS.
const PERMANENT: u16 = 301;

/// The VirtualService of a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoutesOfHost(pub Place);

/// The routes of a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct HttpOf(pub(super) Place);

/// The routes of a host.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Http {
    routes: Vec<HttpRoute>,
    /// The Ingresses that they are of, the oldest first.
    included: Vec<ObjectName>,
    /// The gateways that apply them.
    gateways: Vec<String>,
    pub(super) findings: Vec<Diagnostic>,
}

impl Derive for HttpOf {
    type Stratum = Routes;
    type Value = Arc<Http>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let members = read.derived(MembersOf(self.0.clone()));
        let mut merging = Merging {
            read,
            room: BYTES,
            known: BTreeMap::new(),
            http: Http {
                findings: members.findings.clone(),
                ..Http::default()
            },
        };
        merging.http.gateways = merging.gateways(&self.0, members.all());
        if !merging.http.gateways.is_empty() {
            for (ingress, rules) in members.all() {
                merging.add(ingress, rules);
            }
        }
        Arc::new(merging.http)
    }
}

/// What a rule asks of requests: a path, and headers.
type Asks = (Arc<str>, BTreeMap<String, Arc<str>>);

/// Rules of several Ingresses becoming one.
struct Merging<'r, 'a, 'b> {
    read: &'r Reader<'a, 'b, Routes>,
    /// What routes may weigh still.
    room: usize,
    /// Who has which requests.
    known: BTreeMap<Asks, (ObjectName, Age)>,
    http: Http,
}

impl Merging<'_, '_, '_> {
    /// The gateways that serve a host: `mesh` for the host of a Service, and the proxies that are named for it.
    fn gateways(
        &mut self,
        place: &Place,
        ingresses: &[(ObjectName, Arc<HostRules>)],
    ) -> Vec<String> {
        let settings = self.read.settings();
        let mut gateways = Vec::new();
        let mut fault = None;
        match entrance(&settings.features, place.visibility) {
            Ok(Some(_)) => gateways.push(name_of(&settings.features, place).to_string()),
            Ok(None) => {}
            Err(shared) => fault = Some(shared),
        }
        if place.visibility == Visibility::ClusterLocal {
            let of_mesh = place.host.ends_with(&format!(".svc.{}", settings.domain));
            let is_short = namespace(&place.host, &settings.domain).is_some();
            match (of_mesh, is_short) {
                (true, _) => gateways.push("mesh".to_owned()),
                // Sidecars know Services by their short names as well.
                (false, true) => {}
                (false, false) if gateways.is_empty() => {
                    let message = "is not served: it is not the host of a Service, and no proxies for other cluster-local hosts are named";
                    fault.get_or_insert(message);
                }
                (false, false) => {}
            }
        }
        if let Some(fault) = fault {
            for (ingress, rules) in ingresses {
                let found = told(ingress, code::NOT_SERVED, rules.at.clone(), fault);
                self.http.findings.push(found);
            }
        }
        gateways
    }

    /// Takes in the rules of an Ingress, which is younger than those before.
    fn add(&mut self, ingress: &ObjectName, rules: &HostRules) {
        if charge::is_over(self.read, ingress) {
            return;
        }
        let Some(room) = self.room.checked_sub(rules.weight) else {
            let message = format!(
                "is not served: the routes of the host weigh more than {} MiB",
                BYTES >> 20
            );
            let found = told(ingress, code::OVER_LIMIT, rules.at.clone(), message);
            self.http.findings.push(found);
            return;
        };
        self.room = room;
        let (mut probes, mut routes) = (Vec::new(), Vec::new());
        for path in &rules.paths {
            let asks = (path.path.clone(), path.headers.clone());
            if let Some((known, created)) = self.known.get(&asks) {
                let message = format!(
                    "is not used: {} has these requests, and {}",
                    key(known),
                    why_first((*created, known), (rules.created, ingress))
                );
                let found = told(ingress, code::NOT_USED, path.at.clone(), message);
                self.http.findings.push(found);
                continue;
            }
            self.known.insert(asks, (ingress.clone(), rules.created));
            match route::of_path(self.read, ingress, path) {
                Ok(route) => {
                    probes.extend(route::of_probes(&route, &rules.hash));
                    routes.push(route);
                }
                Err((code, field, fault)) => {
                    let message = format!("{fault}, so requests for it get 503");
                    let found = told(ingress, code, format!("{}{field}", path.at), message);
                    self.http.findings.push(found);
                    let name = name::of_routes(ingress);
                    let reason = "the Ingress cannot be served as it is stated";
                    routes.push(edge::closed(&name, vec![route::matched(path)], reason));
                }
            }
        }
        if routes.is_empty() {
            return;
        }
        self.http.included.push(ingress.clone());
        self.http.routes.extend(probes);
        self.http.routes.extend(routes);
    }
}

impl Derive for RoutesOfHost {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let features = &read.settings().features;
        if !class::is_on(features) {
            return Outcome::default();
        }
        let http = read.derived(HttpOf(self.0.clone()));
        let members = read.derived(MembersOf(self.0.clone()));
        let findings: Arc<[Diagnostic]> = http.findings.clone().into();
        let Some(first) = http.included.first() else {
            return Outcome {
                objects: Vec::new(),
                findings,
            };
        };
        let mut routes = Vec::new();
        if members.deciding().iter().any(|(_, rules)| rules.redirected) {
            let plain = HttpMatchRequest {
                port: features.edge_http_port.get().into(),
                ..HttpMatchRequest::default()
            };
            let name = name::of_routes(first);
            routes.push(edge::secured(&name, plain, PERMANENT, features));
        }
        routes.extend(http.routes.iter().cloned());
        // The scopes of sidecars are about namespaces of hosts.
        let namespace = match self.0.visibility {
            Visibility::ExternalIp => features.edge_namespace.clone(),
            Visibility::ClusterLocal => first.namespace.clone(),
        };
        let service = VirtualService {
            hosts: vec![self.0.host.to_string()],
            gateways: http.gateways.clone(),
            http: routes,
            export_to: vec!["*".to_owned()],
            ..VirtualService::default()
        };
        let grants = members.grants.iter().cloned();
        let derived = derived(&http.included, grants, Semantics::Istio);
        let name = ObjectName::new(namespace, name::of_host(&self.0));
        Outcome {
            objects: vec![Made::new(object(name, derived, service))],
            findings,
        }
    }
}
