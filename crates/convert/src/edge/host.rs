//! The VirtualService of a host.
//!
//! Higress: pkg/ingress/config/ingress_config.go convertVirtualService, 2.1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use annotations::Dialect;
use model::edge::EdgeRoute;
use model::{Diagnostic, ObjectKey, ObjectName, Severity};
use proto_istio::networking::{
    HttpRoute, RouteDestination, TlsMatchAttributes, TlsRoute, VirtualService,
};

use super::canary::{Applied, Canary, Weights};
use super::class::is_on;
use super::draft::{Asks, Draft, Drafting, PERMANENT};
use super::rules::{HostRules, Path, PathKind, wildcards};
use super::tls::{IngressesOf, Tls, TlsOf};
use super::{derived, expand, key, limits, name, sound};
use crate::outcome::{Made, Outcome, code, finding, object};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The VirtualService of a host, made from the rules of every Ingress with annotations that is served and names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoutesOfEdgeHost(pub Arc<str>);

/// The rules of a host, in order, without those of wildcards.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct DraftsOf(Arc<str>);

/// The rules of a host.
#[derive(PartialEq, Debug, Default)]
struct Drafts {
    drafts: Vec<Draft>,
    /// The Ingresses that they are of, the oldest first.
    included: Vec<ObjectName>,
    /// Whether requests that no rule matches are for those of a wildcard.
    falls_back: bool,
    findings: Vec<Diagnostic>,
}

impl Derive for DraftsOf {
    type Stratum = Routes;
    type Value = Arc<Drafts>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let ingresses = read.derived(IngressesOf(self.0.clone()));
        if ingresses.is_empty() {
            return Arc::default();
        }
        let tls = read.derived(TlsOf(self.0.clone()));
        let mut merging = Merging {
            read,
            host: &self.0,
            tls: &tls,
            room: limits::HOST_BYTES,
            regex: regex_dialect(&ingresses),
            drafts: Vec::new(),
            by_asks: BTreeMap::new(),
            included: Vec::new(),
            findings: Vec::new(),
        };
        merging.merge(&ingresses);
        Arc::new(merging.finish(&ingresses))
    }
}

/// Whether nginx reads all paths of the host as regular expressions: one Ingress of it says so.
fn regex_dialect(ingresses: &[(ObjectName, Arc<HostRules>)]) -> bool {
    ingresses.iter().any(|(_, rules)| {
        let is_regex =
            |path: &Path| matches!(path.kind, PathKind::PrefixRegex | PathKind::FullRegex);
        rules.annotated.dialect == Dialect::Nginx && rules.paths.iter().any(is_regex)
    })
}

/// Rules of several Ingresses becoming one.
struct Merging<'r, 'a, 'b> {
    read: &'r Reader<'a, 'b, Routes>,
    host: &'r str,
    tls: &'r Tls,
    /// What routes may weigh still.
    room: usize,
    /// nginx reads all paths as regular expressions.
    regex: bool,
    drafts: Vec<Draft>,
    /// The places of drafts by what they ask.
    by_asks: BTreeMap<Asks, usize>,
    included: Vec<ObjectName>,
    findings: Vec<Diagnostic>,
}

impl Merging<'_, '_, '_> {
    fn merge(&mut self, ingresses: &[(ObjectName, Arc<HostRules>)]) {
        let canary = |rules: &HostRules| rules.annotated.annotations.canary.is_some();
        let mut roots: Option<Draft> = None;
        for (name, rules) in ingresses.iter().filter(|(_, rules)| !canary(rules)) {
            let Some(drafting) = Drafting::new(self.read, name, rules, self.tls) else {
                continue;
            };
            if self.add(&drafting) {
                roots = drafting.app_root(self.host).or(roots);
            }
        }
        let mut weights: Vec<Weights> = self.drafts.iter().map(|_| Weights::default()).collect();
        for (name, rules) in ingresses.iter().filter(|(_, rules)| canary(rules)) {
            let Some(drafting) = Drafting::new(self.read, name, rules, self.tls) else {
                continue;
            };
            self.canary(&drafting, &mut weights);
        }
        for (draft, weights) in self.drafts.iter_mut().zip(weights) {
            weights.settle(draft);
        }
        if let Some(root) = roots {
            self.drafts.retain(|draft| draft.asks != root.asks);
            self.drafts.push(root);
        }
        self.defaults(ingresses);
        self.drafts.sort_by_cached_key(Draft::order);
    }

    /// Takes in the rules of an Ingress, which is younger than those before; returns whether there was room.
    fn add(&mut self, drafting: &Drafting<'_, '_, '_>) -> bool {
        let (mut added, mut own) = (Vec::new(), BTreeSet::new());
        let mut findings = Vec::new();
        let ingress = drafting.ingress;
        for path in &drafting.rules.paths {
            let path = self.read_as(path, drafting.rules);
            let (mut draft, fault) = drafting.draft(&path);
            if let Some(fault) = fault {
                let message = format!("{fault}, so requests for it get 503");
                let at = format!("{}.backend", path.at);
                findings.push(warn(ingress, code::NO_BACKEND, at, message));
            }
            let asks = draft.asks.same();
            let winner = self.by_asks.get(&asks).map(|at| &self.drafts[*at].ingress);
            if let Some(winner) = winner.or(own.contains(&asks).then_some(ingress)) {
                let message = format!(
                    "is not used for the host {:?}: {} says the same, and is older or comes first",
                    self.host,
                    key(winner)
                );
                findings.push(warn(ingress, code::NOT_USED, path.at.clone(), message));
                continue;
            }
            if let Some(fault) = sound::check(&mut draft) {
                findings.push(warn(ingress, code::CLOSED, path.at.clone(), fault));
            }
            own.insert(asks.clone());
            added.push((asks, draft));
        }
        let weight: usize = added.iter().map(|(_, draft)| draft.weight()).sum();
        let Some(room) = self.room.checked_sub(weight) else {
            let message = format!(
                "is not served for the host {:?}: the Ingresses that name it weigh more than {} MiB",
                self.host,
                limits::HOST_BYTES >> 20
            );
            let at = "spec.rules".to_owned();
            self.findings
                .push(warn(ingress, code::OVER_LIMIT, at, message));
            return false;
        };
        self.room = room;
        self.findings.extend(findings);
        if !added.is_empty() {
            self.included.push(ingress.clone());
        }
        for (asks, draft) in added {
            self.by_asks.insert(asks, self.drafts.len());
            self.drafts.push(draft);
        }
        true
    }

    /// A path as nginx reads it beside regular expressions.
    fn read_as(&self, path: &Path, rules: &HostRules) -> Path {
        let mut path = path.clone();
        if !self.regex || rules.annotated.dialect != Dialect::Nginx || path.kind == PathKind::Exact
        {
            return path;
        }
        if &*path.path != "/" {
            path.ignore_case = true;
            if matches!(path.kind, PathKind::Prefix | PathKind::Text) {
                path.kind = PathKind::PrefixRegex;
            }
        }
        path
    }

    fn canary(&mut self, drafting: &Drafting<'_, '_, '_>, weights: &mut [Weights]) {
        let ingress = drafting.ingress;
        let Some(stated) = &drafting.rules.annotated.annotations.canary else {
            return;
        };
        for path in &drafting.rules.paths {
            let path = self.read_as(path, drafting.rules);
            let canary = Canary {
                drafting,
                stated,
                path: &path,
            };
            let message = match canary.apply(&mut self.drafts, &self.by_asks, weights) {
                Applied::Yes => continue,
                Applied::NoBase => {
                    "is a canary of nothing: no rule with the same host and path sends requests \
                                    to a backend"
                        .to_owned()
                }
                Applied::NotUsable(why) => format!("{why}, so the canary takes no requests"),
            };
            let found = warn(ingress, code::NOT_USED, path.at.clone(), message);
            self.findings.push(found);
        }
    }

    /// What remains where no rule matches: the backend that the oldest Ingress names for it, or another host.
    fn defaults(&mut self, ingresses: &[(ObjectName, Arc<HostRules>)]) {
        if self.drafts.iter().any(|draft| draft.asks.is_catch_all()) {
            return;
        }
        for (name, rules) in ingresses {
            let Some((at, backend)) = &rules.default else {
                continue;
            };
            if rules.annotated.annotations.canary.is_some() {
                continue;
            }
            let Some(drafting) = Drafting::new(self.read, name, rules, self.tls) else {
                continue;
            };
            let path = Path {
                at: at.clone(),
                path: "/".into(),
                kind: PathKind::Prefix,
                ignore_case: false,
                backend: backend.clone(),
            };
            let (mut draft, fault) = drafting.draft(&path);
            draft.is_default = true;
            draft.asks = Asks {
                path: path.path.clone(),
                kind: path.kind,
                ignore_case: false,
                methods: Vec::new(),
                headers: BTreeMap::new(),
                query: BTreeMap::new(),
            };
            draft.route.name.push_str("-default");
            if let Some(fault) = fault {
                let message = format!("{fault}, so requests for it get 503");
                self.findings
                    .push(warn(name, code::NO_BACKEND, at.clone(), message));
            }
            if let Some(fault) = sound::check(&mut draft) {
                self.findings
                    .push(warn(name, code::CLOSED, at.clone(), fault));
            }
            if !self.included.contains(name) {
                self.included.push(name.clone());
            }
            self.drafts.push(draft);
            return;
        }
        if !self.drafts.is_empty() {
            return;
        }
        let moved = ingresses.iter().find_map(|(name, rules)| {
            let drafting = Drafting::new(self.read, name, rules, self.tls)?;
            Some((name, drafting.moved(rules.moved_to.as_ref()?)))
        });
        if let Some((name, draft)) = moved {
            self.included.push(name.clone());
            self.drafts.push(draft);
        }
    }

    fn finish(mut self, ingresses: &[(ObjectName, Arc<HostRules>)]) -> Drafts {
        for draft in &mut self.drafts {
            if let Some(closed) = &self.tls.closed {
                draft.closed = Some(closed.clone());
            }
            // In plain text nobody can show a certificate.
            if self.tls.is_mutual {
                draft.https.get_or_insert(PERMANENT);
            }
        }
        let higress = |rules: &HostRules| rules.annotated.dialect == Dialect::Higress;
        let falls_back = ingresses.iter().all(|(_, rules)| higress(rules))
            && !self.tls.is_mutual
            && !self.tls.passthrough
            && !self.drafts.iter().any(|draft| draft.asks.is_catch_all());
        Drafts {
            drafts: self.drafts,
            included: self.included,
            falls_back,
            findings: self.findings,
        }
    }
}

fn warn(
    ingress: &ObjectName,
    code: &'static str,
    at: String,
    message: impl Into<Arc<str>>,
) -> Diagnostic {
    let severity = match code {
        code::CLOSED => Severity::Error,
        _ => Severity::Warning,
    };
    finding(&key(ingress), code, severity, at, message)
}

impl Derive for RoutesOfEdgeHost {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        if !is_on(read) {
            return Outcome::default();
        }
        let own = read.derived(DraftsOf(self.0.clone()));
        let findings = own.findings.clone().into();
        let Some(first) = own.included.first() else {
            return Outcome {
                objects: Vec::new(),
                findings,
            };
        };
        let features = &read.settings().features;
        let followed = match own.falls_back {
            true => following(read, &self.0),
            false => Vec::new(),
        };
        let followed: Vec<&Draft> = followed.iter().flat_map(|drafts| &drafts.drafts).collect();
        let all = own
            .drafts
            .iter()
            .chain(followed.into_iter().take(limits::FOLLOWING));
        let (mut http, mut edge): (Vec<HttpRoute>, BTreeMap<usize, Arc<EdgeRoute>>) =
            Default::default();
        let (mut from, mut others) = (own.included.clone(), BTreeSet::<ObjectKey>::new());
        for draft in all {
            if !from.contains(&draft.ingress) {
                from.push(draft.ingress.clone());
            }
            others.extend(draft.others.iter().chain(&draft.policy.others).cloned());
            for (route, asked) in expand::routes(draft, features) {
                if let Some(asked) = asked {
                    edge.insert(http.len(), asked);
                }
                http.push(route);
            }
        }
        let tls = read.derived(TlsOf(self.0.clone()));
        let passed = match tls.passthrough {
            true => passthrough(&self.0, &own.drafts, features.edge_https_port.get()),
            false => Vec::new(),
        };
        let system = &features.edge_namespace;
        let service = VirtualService {
            hosts: vec![self.0.to_string()],
            gateways: vec![format!("{system}/{}", name::gateway(&self.0))],
            http,
            tls: passed,
            ..VirtualService::default()
        };
        let name = ObjectName::new(system.clone(), name::virtual_service(first, &self.0));
        others.retain(|other| !from.iter().any(|name| *other == key(name)));
        let mut derived = derived(from, others);
        derived.edge = edge;
        Outcome {
            objects: vec![Made::new(object(name, derived, service))],
            findings,
        }
    }
}

/// The rules of the wildcards of which a host is one: unmatched requests for it follow them.
fn following(read: &Reader<'_, '_, Routes>, host: &str) -> Vec<Arc<Arc<Drafts>>> {
    let mut all = Vec::new();
    for wildcard in wildcards(host) {
        let drafts = read.derived(DraftsOf(wildcard.clone()));
        if drafts.included.is_empty() {
            continue;
        }
        // What needs a certificate of its client is not served to connections of other hosts.
        let tls = read.derived(TlsOf(wildcard));
        if tls.is_mutual || tls.passthrough {
            break;
        }
        let ends = !drafts.falls_back;
        all.push(drafts);
        if ends {
            break;
        }
    }
    all
}

/// Connections as they are to the backend of the host's root, or of its first rule.
fn passthrough(host: &str, drafts: &[Draft], port: u16) -> Vec<TlsRoute> {
    let root = drafts.iter().find(|draft| draft.asks.is_catch_all());
    let Some(draft) = root
        .or(drafts.first())
        .filter(|draft| draft.closed.is_none())
    else {
        return Vec::new();
    };
    let route: Vec<RouteDestination> = draft
        .route
        .route
        .iter()
        .map(|to| RouteDestination {
            destination: to.destination.clone(),
            weight: to.weight,
        })
        .collect();
    if route.is_empty() {
        return Vec::new();
    }
    vec![TlsRoute {
        r#match: vec![TlsMatchAttributes {
            sni_hosts: vec![host.to_owned()],
            port: port.into(),
            ..TlsMatchAttributes::default()
        }],
        route,
    }]
}
