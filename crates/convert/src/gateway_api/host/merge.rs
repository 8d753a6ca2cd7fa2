//! Rules of several routes becoming one list.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use model::derived::{Derived, GatewayRole};
use model::work::TRIED_INSTRUCTIONS;
use model::{Age, Diagnostic, ObjectKey, ObjectName, Severity};
use proto_istio::networking::{HttpMatchRequest, HttpRoute, VirtualService};

use super::super::attachment::Attachment;
use super::super::basis::BasisOf;
use super::super::limits::instructions;
use super::super::route::CreatedOf;
use super::super::rules::{HttpRules, HttpRulesOf, Ruled, sort};
use super::super::{derived, limits};
use crate::outcome::{Made, Outcome, code, finding, object};
use crate::reader::Reader;
use crate::strata::Routes;

/// A route that has a part in a host.
pub(super) struct Part {
    route: ObjectKey,
    created: Age,
    attachments: Arc<Arc<[Attachment]>>,
    rules: Arc<HttpRules>,
}

impl Part {
    pub(super) fn new(
        read: &Reader<'_, '_, Routes>,
        route: ObjectKey,
        in_mesh: bool,
        attachments: Arc<Arc<[Attachment]>>,
    ) -> Self {
        let rules = HttpRulesOf {
            route: route.clone(),
            in_mesh,
        };
        Self {
            created: *read.derived(CreatedOf(route.clone())),
            rules: read.derived(rules),
            route,
            attachments,
        }
    }

    /// The oldest first; of one age by namespace, and by name as Istio compares them, with a mark that is greater than any
    /// letter at the end.
    ///
    /// Istio: pilot/pkg/config/kube/gateway/conversion.go sortRoutesByCreationTime, 1.32.
    pub(super) fn cmp_age(&self, other: &Self) -> Ordering {
        let (one, two) = (&self.route.name, &other.route.name);
        let name = |name: &ObjectName| format!("{}~", name.name);
        (self.created.cmp(&other.created))
            .then_with(|| one.namespace.cmp(&two.namespace))
            .then_with(|| name(one).cmp(&name(two)))
    }

    /// The Gateways of the listeners where it is accepted.
    pub(super) fn gateways(
        &self,
        is_here: impl Fn(&Attachment) -> bool,
    ) -> impl Iterator<Item = &ObjectName> {
        let listeners = self.attachments.iter().filter(move |a| is_here(a));
        listeners.filter_map(|a| Some(&a.listener.as_ref()?.gateway))
    }

    /// The hosts that it serves.
    pub(super) fn hosts(
        &self,
        is_here: impl Fn(&Attachment) -> bool,
    ) -> impl Iterator<Item = &Arc<str>> {
        let here = self.attachments.iter().filter(move |a| is_here(a));
        here.flat_map(|a| a.hosts.iter())
    }
}

/// VirtualServices of one parent, being made.
pub(super) struct Merging<'r, 'a, 'b> {
    read: &'r Reader<'a, 'b, Routes>,
    parent: &'r ObjectKey,
    made: Vec<Made<Routes>>,
    findings: BTreeSet<Diagnostic>,
}

impl<'r, 'a, 'b> Merging<'r, 'a, 'b> {
    pub(super) fn new(
        read: &'r Reader<'a, 'b, Routes>,
        parent: &'r ObjectKey,
        findings: BTreeSet<Diagnostic>,
    ) -> Self {
        Self {
            read,
            parent,
            made: Vec::new(),
            findings,
        }
    }

    /// Makes the VirtualService of a host by the rules of its routes, the oldest of which comes first.
    pub(super) fn add<'p>(
        &mut self,
        name: String,
        gateway: String,
        host: &str,
        port: Option<u16>,
        parts: impl Iterator<Item = &'p Part>,
    ) {
        let mut room = limits::HOST_BYTES;
        let mut tried = TRIED_INSTRUCTIONS;
        let mut routes: Vec<Ruled> = Vec::new();
        let mut included: Vec<&Part> = Vec::new();
        for part in parts {
            self.findings.extend(part.rules.excess.clone());
            if part.rules.routes.is_empty() {
                continue;
            }
            let Some(left) = room.checked_sub(part.rules.weight()) else {
                let why = format!("weigh more than {} MiB", limits::HOST_BYTES >> 20);
                self.leave_out(&part.route, host, &why);
                continue;
            };
            let own = part
                .rules
                .routes
                .iter()
                .map(|ruled| instructions(&ruled.route));
            let Some(less) = tried.checked_sub(own.fold(0, usize::saturating_add)) else {
                let why = format!(
                    "have regular expressions whose programs have more than {TRIED_INSTRUCTIONS} instructions"
                );
                self.leave_out(&part.route, host, &why);
                continue;
            };
            (room, tried) = (left, less);
            routes.extend(part.rules.routes.iter().map(|ruled| on_port(ruled, port)));
            included.push(part);
        }
        let Some(oldest) = included.first() else {
            return;
        };
        sort(&mut routes);
        let spec = VirtualService {
            hosts: vec![host.to_owned()],
            gateways: vec![gateway],
            http: routes
                .iter()
                .map(|ruled| HttpRoute::clone(&ruled.route))
                .collect(),
            ..VirtualService::default()
        };
        let mut others: BTreeSet<ObjectKey> = BTreeSet::new();
        for part in &included {
            others.extend(part.rules.others.iter().cloned());
        }
        let basis = self.read.derived(BasisOf(self.parent.clone()));
        others.extend(basis.iter().cloned());
        let from = included.iter().map(|part| part.route.clone());
        let sessions = routes.into_iter().enumerate();
        let sessions = sessions.filter_map(|(at, ruled)| Some((at, ruled.session?)));
        let derived = Derived {
            sessions: sessions.collect(),
            ..derived(from.chain(others), GatewayRole::default())
        };
        let name = ObjectName::new(oldest.route.name.namespace.clone(), name);
        let mut service = object(name, derived, spec);
        service.meta.created = oldest.created;
        self.made.push(Made::new(service));
    }

    fn leave_out(&mut self, route: &ObjectKey, host: &str, why: &str) {
        let message = format!(
            "is not served for the host {host:?} of {}: the routes that name it {why}",
            self.parent
        );
        let at = "spec.rules".to_owned();
        let found = finding(route, code::OVER_LIMIT, Severity::Warning, at, message);
        self.findings.insert(found);
    }

    pub(super) fn outcome(self) -> Outcome<Routes> {
        Outcome {
            objects: self.made,
            findings: self.findings.into_iter().collect(),
        }
    }
}

/// The route for requests to a port alone.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go augmentPortMatch, 1.32.
fn on_port(ruled: &Ruled, port: Option<u16>) -> Ruled {
    let mut ruled = ruled.clone();
    let Some(port) = port else {
        return ruled;
    };
    let route = Arc::make_mut(&mut ruled.route);
    if route.r#match.is_empty() {
        route.r#match.push(HttpMatchRequest::default());
    }
    for matched in &mut route.r#match {
        matched.port = port.into();
    }
    ruled
}
