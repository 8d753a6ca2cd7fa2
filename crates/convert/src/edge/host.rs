//! The VirtualService of a host.
//!
//! Higress: pkg/ingress/config/ingress_config.go convertVirtualService, 2.1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use annotations::{Dialect, Paths};
use model::edge::EdgeRoute;
use model::kinds::kube::{ANY_HOST, Ingress};
use model::{Diagnostic, Namespace, ObjectKey, ObjectName, Severity};
use proto_istio::networking::{HttpRoute, VirtualService};
use store::index::ObjectIndex;

use super::auth::SettledOf;
use super::canary::{Applied, Canary, Weights};
use super::charge::Left;
use super::class::is_on;
use super::closing::Closing;
use super::draft::{Asks, Draft, Drafting, PERMANENT, ToHttps};
use super::rules::{HostRules, Path, PathKind, ends};
use super::tls::{IngressesOf, Tls, TlsOf};
use super::{charge, derived, expand, key, limits, name, passing, slashes, sound};
use crate::outcome::{Made, Outcome, code, finding, object};
use crate::owner::{Members, why_ingress_first};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The VirtualService of a host, made from the rules of every Ingress with annotations that is served and names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoutesOfEdgeHost(pub Arc<str>);

/// The rules of a host, in order, without those of wildcards. Which services decide about requests is said by [`SettledOf`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct DraftsOf(pub(super) Arc<str>);

/// The rules of a host.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Drafts {
    pub(super) drafts: Vec<Draft>,
    /// The Ingresses that they are of, the oldest first.
    included: Vec<ObjectName>,
    /// The namespace that decides about the host as a whole.
    pub(super) home: Option<Namespace>,
    /// The ReferenceGrants by which Ingresses of others are among them.
    grants: Vec<ObjectKey>,
    /// Whether requests that no rule matches are for those of a wildcard.
    falls_back: bool,
    pub(super) findings: Vec<Diagnostic>,
}

impl Derive for DraftsOf {
    type Stratum = Routes;
    type Value = Arc<Drafts>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let ingresses = read.derived(IngressesOf(self.0.clone()));
        if ingresses.all().is_empty() {
            return Arc::new(Drafts {
                findings: ingresses.findings.clone(),
                ..Drafts::default()
            });
        }
        let tls = read.derived(TlsOf(self.0.clone()));
        let mut merging = Merging {
            read,
            host: &self.0,
            tls: &tls,
            room: limits::HOST_BYTES,
            canaries: limits::CANARY_BYTES,
            regex: regex_dialect(ingresses.all()),
            drafts: Vec::new(),
            by_asks: BTreeMap::new(),
            included: Vec::new(),
            findings: ingresses.findings.clone(),
            closing: Closing::default(),
        };
        merging.merge(&ingresses);
        Arc::new(merging.finish(&ingresses))
    }
}

/// The namespaces of whose Ingresses nginx reads all paths as regular expressions: one Ingress of the namespace says so, for
/// any path.
fn regex_dialect(ingresses: &[(ObjectName, Arc<HostRules>)]) -> BTreeSet<Namespace> {
    let is_regex = |path: &Path| matches!(path.kind, PathKind::PrefixRegex | PathKind::FullRegex);
    let said = ingresses.iter().filter(|(_, rules)| {
        let is_said = rules.annotated.annotations.rewrite.paths != Paths::Plain;
        let is_nginx = rules.annotated.dialect == Dialect::Nginx;
        is_nginx && (is_said && !rules.paths.is_empty() || rules.paths.iter().any(is_regex))
    });
    said.map(|(name, _)| name.namespace.clone()).collect()
}

/// Rules of several Ingresses becoming one.
pub(super) struct Merging<'r, 'a, 'b> {
    pub(super) read: &'r Reader<'a, 'b, Routes>,
    pub(super) host: &'r str,
    tls: &'r Tls,
    /// What routes may weigh still.
    room: usize,
    /// What routes of canaries may weigh still, beside those.
    canaries: usize,
    /// The namespaces all of whose paths nginx reads as regular expressions.
    regex: BTreeSet<Namespace>,
    pub(super) drafts: Vec<Draft>,
    /// The places of drafts by what they ask.
    pub(super) by_asks: BTreeMap<Asks, usize>,
    pub(super) included: Vec<ObjectName>,
    pub(super) findings: Vec<Diagnostic>,
    /// What is closed of Ingresses that are not served.
    pub(super) closing: Closing,
}

impl Merging<'_, '_, '_> {
    fn merge(&mut self, members: &Members<HostRules>) {
        let ingresses = members.all();
        let canary = |rules: &HostRules| rules.annotated.annotations.canary.is_some();
        let mut roots: Option<Draft> = None;
        for (name, rules) in ingresses.iter().filter(|(_, rules)| !canary(rules)) {
            let Some(drafting) = Drafting::new(self.read, name, rules, self.tls) else {
                continue;
            };
            let left = charge::left(self.read, name);
            let left = left.or(rules.is_refused.then_some(Left::Hosts));
            if let Some(left) = left {
                self.close(&drafting, left);
                continue;
            }
            if !self.add(&drafting) {
                self.close(&drafting, Left::Paths);
                continue;
            }
            let Some(root) = drafting.app_root(self.host) else {
                continue;
            };
            if members.home() == Some(&name.namespace) {
                roots = Some(root);
            } else {
                let message = "is not used: the root of a host is for Ingresses of the namespace to say that the host belongs to";
                let found = warn(name, code::NOT_OWNED, root.at, message);
                self.findings.push(found);
            }
        }
        let mut weights: Vec<Weights> = self.drafts.iter().map(|_| Weights::default()).collect();
        let served = ingresses
            .iter()
            .filter(|(name, _)| !charge::is_over(self.read, name));
        let canaries: Vec<_> = served.filter(|(_, rules)| canary(rules)).collect();
        for (name, rules) in canaries {
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
        self.defaults(members.deciding());
        self.close_namespaces();
        self.close_unread();
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
                let message = format!("{}, so requests for it get 503", fault.sentence);
                let at = format!("{}.backend", path.at);
                findings.push(warn(ingress, fault.code, at, message));
            }
            let asks = draft.asks.same();
            let first = self.by_asks.get(&asks).copied();
            if let Some(at) = first.filter(|at| self.lets_more_through(*at, drafting)) {
                self.drafts[at].closed = Some(Arc::from("another Ingress protects the path"));
                let message = format!(
                    "protects requests that {} has, which {} and lets them through, so they get 503",
                    key(&self.drafts[at].ingress),
                    self.why_first(&self.drafts[at].ingress, drafting)
                );
                findings.push(warn(ingress, code::CLOSED, path.at.to_string(), message));
                continue;
            }
            let winner = first.map(|at| &self.drafts[at].ingress);
            if let Some(winner) = winner.or(own.contains(&asks).then_some(ingress)) {
                let message = format!(
                    "is not used for the host {:?}: {} says the same, and {}",
                    self.host,
                    key(winner),
                    self.why_first(winner, drafting)
                );
                findings.push(warn(ingress, code::NOT_USED, path.at.to_string(), message));
                continue;
            }
            if let Some(fault) = sound::check(&mut draft) {
                findings.push(warn(ingress, code::CLOSED, path.at.to_string(), fault));
            }
            if draft.excludes_queries {
                let at = drafting.rules.annotated.path("rewrite-target");
                let message = "has a query, so requests that bring one of their own get 503: the two are not joined";
                let found = warn(ingress, code::CLOSED, at, message);
                if !findings.contains(&found) {
                    findings.push(found);
                }
            }
            own.insert(asks.clone());
            added.push((asks, draft));
        }
        let weight: usize = added.iter().map(|(_, draft)| draft.weight()).sum();
        let Some(room) = self.room.checked_sub(weight) else {
            let message = format!(
                "nothing of it is served at the host {:?}: the Ingresses that name the host weigh more than {} MiB",
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

    /// Whether a rule lets requests through that a younger Ingress of its namespace would keep back.
    pub(super) fn lets_more_through(&self, at: usize, younger: &Drafting<'_, '_, '_>) -> bool {
        let draft = &self.drafts[at];
        draft.ingress.namespace == younger.ingress.namespace
            && draft.closed.is_none()
            && younger.policy.protects_more(&draft.policy)
    }

    /// What puts an Ingress before the one that is taken in, as findings word it.
    pub(super) fn why_first(
        &self,
        first: &ObjectName,
        later: &Drafting<'_, '_, '_>,
    ) -> &'static str {
        if first == later.ingress {
            return "says it first";
        }
        why_ingress_first(self.read, first, later.ingress)
    }

    /// A path as nginx reads it beside regular expressions.
    pub(super) fn read_as(&self, path: &Path, rules: &HostRules) -> Path {
        let mut path = path.clone();
        if !self.regex.contains(&rules.namespace)
            || rules.annotated.dialect != Dialect::Nginx
            || &*path.path == "/"
        {
            return path;
        }
        path.ignore_case = true;
        if matches!(path.kind, PathKind::Exact | PathKind::Prefix) {
            path.kind = PathKind::PrefixRegex;
        }
        path
    }

    fn canary(&mut self, drafting: &Drafting<'_, '_, '_>, weights: &mut [Weights]) {
        let ingress = drafting.ingress;
        let Some(stated) = &drafting.rules.annotated.annotations.canary else {
            return;
        };
        let over_limit = |at: String| {
            let message = format!(
                "is not used for the host {:?}, nor is what follows: the canaries of the host weigh more than {} MiB",
                self.host,
                limits::CANARY_BYTES >> 20
            );
            warn(ingress, code::OVER_LIMIT, at, message)
        };
        if self.canaries == 0 {
            let found = over_limit("spec.rules".to_owned());
            self.findings.push(found);
            return;
        }
        for path in &drafting.rules.paths {
            let path = self.read_as(path, drafting.rules);
            let canary = Canary {
                drafting,
                stated,
                path: &path,
            };
            let applied =
                canary.apply(&mut self.drafts, &self.by_asks, weights, &mut self.canaries);
            let message = match applied {
                Applied::Yes => continue,
                Applied::NoBase => {
                    "is a canary of nothing: no rule with the same host and path sends requests \
                                    to a backend"
                        .to_owned()
                }
                Applied::NotUsable(why) => format!("{why}, so the canary takes no requests"),
                Applied::OverLimit => {
                    let found = over_limit(path.at.to_string());
                    self.findings.push(found);
                    self.canaries = 0;
                    return;
                }
                Applied::NotOwned(base) => {
                    let message = format!(
                        "is a canary of a rule of another namespace, {}, so it takes no requests",
                        key(&base)
                    );
                    let found = warn(ingress, code::NOT_OWNED, path.at.to_string(), message);
                    self.findings.push(found);
                    continue;
                }
            };
            let found = warn(ingress, code::NOT_USED, path.at.to_string(), message);
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
                at: at.clone().into(),
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
                below: None,
            };
            draft.route.name.push_str("-default");
            if let Some(fault) = fault {
                let message = format!("{}, so requests for it get 503", fault.sentence);
                self.findings
                    .push(warn(name, fault.code, at.clone(), message));
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

    fn finish(mut self, members: &Members<HostRules>) -> Drafts {
        for draft in &mut self.drafts {
            if let Some(closed) = &self.tls.closed {
                draft.closed = Some(closed.clone());
            }
            // In plain text nobody can show a certificate.
            if self.tls.is_mutual {
                draft.https.get_or_insert(ToHttps {
                    status: PERMANENT,
                    by_forwarded: false,
                });
            }
        }
        let higress = |rules: &HostRules| rules.annotated.dialect == Dialect::Higress;
        let falls_back = members.all().iter().all(|(_, rules)| higress(rules))
            && !self.tls.is_mutual
            && !self.tls.passthrough
            && !self.drafts.iter().any(|draft| draft.asks.is_catch_all());
        Drafts {
            drafts: self.drafts,
            included: self.included,
            home: members.home().cloned(),
            grants: members.grants.clone(),
            falls_back,
            findings: self.findings,
        }
    }
}

pub(super) fn warn(
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
        let own = read.derived(SettledOf(self.0.clone()));
        let mut findings = own.findings.clone();
        let Some(first) = own.included.first() else {
            return Outcome {
                objects: Vec::new(),
                findings: findings.into(),
            };
        };
        let features = &read.settings().features;
        let followed = match own.falls_back {
            true => following(read, &self.0, own.home.as_ref()),
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
        let all: Vec<&Draft> = all.collect();
        http.extend(slashes::guards(&all));
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
        others.extend(own.grants.iter().cloned());
        let tls = read.derived(TlsOf(self.0.clone()));
        let (passed, closed) = passing::routes(read, &self.0, &own.drafts, &tls);
        findings.extend(closed);
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
            findings: findings.into(),
        }
    }
}

/// The rules of the wildcards of which a host is one: unmatched requests for it follow them. Those of another namespace get no
/// requests of the host, unless it is that of the gateway.
fn following(
    read: &Reader<'_, '_, Routes>,
    host: &str,
    home: Option<&Namespace>,
) -> Vec<Arc<Arc<Drafts>>> {
    let features = &read.settings().features;
    let mut all = Vec::new();
    let wildcards = ends(host).map(|end| Arc::<str>::from(format!("*.{end}")));
    let any = (host != ANY_HOST).then(|| Arc::<str>::from(ANY_HOST));
    for wildcard in wildcards.chain(any) {
        // A host has many wildcards above it that nobody states: for these nothing is derived that would be kept.
        if read
            .names_by::<Ingress>(ObjectIndex::Host, &wildcard)
            .is_empty()
        {
            continue;
        }
        let drafts = read.derived(SettledOf(Arc::clone(&wildcard)));
        let is_let_in = drafts.home.as_ref() == home
            || drafts.home.as_ref() == Some(&features.edge_namespace)
            || features.edge_shared_hosts;
        if drafts.included.is_empty() || !is_let_in {
            continue;
        }
        // What needs a certificate of its client is not served to connections of other hosts.
        let tls = read.derived(TlsOf(wildcard));
        if tls.is_mutual || tls.passthrough {
            break;
        }
        let is_last = !drafts.falls_back;
        all.push(drafts);
        if is_last {
            break;
        }
    }
    all
}
