//! Whose the hosts of rules for sidecars are, where `--owned-hosts` gives them owners.
//!
//! A rule of the mesh for a host of another namespace applies at proxies of its own namespace alone. A host of the cluster's
//! domain belongs to the namespace in its name; any other host, and what is below its wildcard, to the namespace of the oldest
//! ServiceEntry that has it, or else of the oldest rule, of those that a proxy's namespace may see; what this namespace claims
//! is its own. A wildcard that covers services of others applies in its own namespace alone. Rules of the root namespace apply to all, and
//! those that are made of other objects go by what these say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use model::diagnostic::{Diagnostic, Severity};
use model::host::canonical;
use model::kinds::istio::{ServiceEntry, VirtualService};
use model::kinds::{Kind, Kinded};
use model::names::Namespace;
use model::object::{ObjectKey, ObjectName};
use model::ownership::{Claim, above};
use store::index::ObjectIndex;
use store::{Reads, Snapshot};

use super::{AllHeads, HeadOf, MESH, VirtualServiceHead, VirtualServicesFor};
use crate::finding::{about_named, code};
use crate::hosts::Wildcards;
use crate::root::is_root;
use crate::services::{EntryServices, VisibleTo};

/// The domain of services that clusters share.
const CLUSTERSET: &str = "clusterset.local";

/// The oldest claim to a host that is not of the cluster, or to a wildcard above it, among those that a namespace sees.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OwnerFor {
    viewer: Namespace,
    host: Arc<str>,
}

impl Query<Snapshot> for OwnerFor {
    type Value = Option<Claim>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Claim> {
        let Self { viewer, host } = self;
        let claim = |kind, name: ObjectName, created| Claim {
            object: ObjectKey { kind, name },
            created,
            host: host.clone(),
        };
        let entries = cx.names_by::<ServiceEntry>(ObjectIndex::Host, host);
        let entries = entries.into_iter().filter_map(|name| {
            let services = cx.query(&EntryServices(name.clone()));
            let mut seen = services.iter().filter(|s| s.export_to.allows(viewer));
            Some(claim(ServiceEntry::KIND, name, seen.next()?.created))
        });
        let rules = cx.names_by::<VirtualService>(ObjectIndex::Host, host);
        let rules = rules.into_iter().filter_map(|name| {
            let head = (*cx.query(&HeadOf(name))).clone()?;
            let applies = is_of_mesh(&head) && head.export_to.allows(viewer);
            applies.then(|| claim(VirtualService::KIND, head.name.clone(), head.created))
        });
        let above = above(host).and_then(|wildcard| {
            (*cx.query(&Self {
                viewer: viewer.clone(),
                host: wildcard,
            }))
            .clone()
        });
        let claims = entries.chain(rules).chain(above);
        // What the namespace claims itself is its own, whoever was first elsewhere; and services count before rules.
        let rank = |claim: &Claim| {
            let is_rule = claim.object.kind != ServiceEntry::KIND;
            (claim.namespace() != viewer, is_rule)
        };
        claims.min_by(|a, b| (rank(a), a.age()).cmp(&(rank(b), b.age())))
    }
}

/// Whether somebody wrote a rule for sidecars.
fn is_of_mesh(head: &VirtualServiceHead) -> bool {
    head.made_from.is_none() && head.gateways.iter().any(|gateway| **gateway == *MESH)
}

/// Why a rule of a namespace does not apply elsewhere for a host; `None` where it does.
fn refusal(
    cx: &Cx<'_, Snapshot>,
    viewer: &Namespace,
    namespace: &Namespace,
    host: &str,
) -> Option<String> {
    let host: Arc<str> = canonical(host).into();
    let domain = &*cx.settings().domain;
    for domain in [domain, CLUSTERSET] {
        let services = format!(".svc.{domain}");
        if let Some(below) = host.strip_suffix(&services) {
            let home = below.rsplit('.').next().unwrap_or_default();
            return (*home != **namespace)
                .then(|| format!("the host {host:?} is one of the namespace {home}"));
        }
        let covers = host.strip_prefix('*').filter(|end| services.ends_with(end));
        if covers.is_some() {
            return Some(format!("{host:?} covers services of all namespaces"));
        }
    }
    let owner = cx.query(&OwnerFor {
        viewer: viewer.clone(),
        host: host.clone(),
    });
    let owner = (*owner).as_ref().filter(|o| o.namespace() != namespace)?;
    let Claim { object, .. } = owner;
    let home = owner.namespace();
    Some(format!(
        "the host {host:?} belongs to the namespace {home}, as {object} has it"
    ))
}

/// Rules of the mesh as a namespace sees those of others.
pub(super) struct Foreign<'n> {
    viewer: &'n Namespace,
    /// The wildcards, each with the namespace of the rule, that cover services of others.
    covering: BTreeSet<(Namespace, Arc<str>)>,
}

impl<'n> Foreign<'n> {
    /// How `asked` sees rules; `None` where hosts have no owners, or none here.
    pub(super) fn among(
        cx: &Cx<'_, Snapshot>,
        asked: &'n VirtualServicesFor,
        heads: &[Arc<VirtualServiceHead>],
    ) -> Option<Self> {
        let is_owned = *asked.gateway == *MESH && cx.settings().features.owned_hosts;
        is_owned.then(|| Self::of(cx, &asked.namespace, heads))
    }

    fn of(cx: &Cx<'_, Snapshot>, viewer: &'n Namespace, heads: &[Arc<VirtualServiceHead>]) -> Self {
        let foreign = |head: &&Arc<VirtualServiceHead>| {
            head.namespace() != viewer && is_of_mesh(head) && !is_root(cx, head.namespace())
        };
        let mut all: BTreeMap<&Arc<str>, BTreeSet<&Namespace>> = BTreeMap::new();
        for head in heads.iter().filter(foreign) {
            for host in head.hosts.iter().filter(|host| host.starts_with('*')) {
                all.entry(host).or_default().insert(head.namespace());
            }
        }
        let mut covering = BTreeSet::new();
        if all.is_empty() {
            return Self { viewer, covering };
        }
        let wildcards = Wildcards::new(all.iter().map(|(host, of)| (&***host, (*host, of))));
        for service in cx.query(&VisibleTo(viewer.clone())).iter() {
            for (wildcard, namespaces) in wildcards.covering(&service.host) {
                for namespace in namespaces.iter().copied() {
                    let of = (namespace.clone(), Arc::clone(wildcard));
                    if !covering.contains(&of)
                        && refusal(cx, viewer, namespace, &service.host).is_some()
                    {
                        covering.insert(of);
                    }
                }
            }
        }
        Self { viewer, covering }
    }

    fn refusal(
        &self,
        cx: &Cx<'_, Snapshot>,
        head: &VirtualServiceHead,
        host: &Arc<str>,
    ) -> Option<String> {
        let namespace = head.namespace();
        if namespace == self.viewer || !is_of_mesh(head) || is_root(cx, namespace) {
            return None;
        }
        if self.covering.contains(&(namespace.clone(), host.clone())) {
            return Some(format!("{host:?} covers services of other namespaces"));
        }
        refusal(cx, self.viewer, namespace, host)
    }

    /// A rule with the hosts for which it applies; `None` where there is none.
    pub(super) fn kept(
        &self,
        cx: &Cx<'_, Snapshot>,
        head: &Arc<VirtualServiceHead>,
    ) -> Option<Arc<VirtualServiceHead>> {
        let applies = |host: &&Arc<str>| self.refusal(cx, head, host).is_none();
        let hosts: Box<[Arc<str>]> = head.hosts.iter().filter(applies).cloned().collect();
        if hosts.len() == head.hosts.len() {
            return Some(head.clone());
        }
        (!hosts.is_empty()).then(|| {
            Arc::new(VirtualServiceHead {
                hosts,
                ..VirtualServiceHead::clone(head)
            })
        })
    }
}

/// The hosts of others that rules of the mesh name, as the root namespace sees them: by rule, their places and why they are others'.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ForeignInMesh;

impl Query<Snapshot> for ForeignInMesh {
    type Value = Arc<BTreeMap<ObjectName, Vec<(usize, String)>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut found = BTreeMap::new();
        if !cx.settings().features.owned_hosts {
            return Arc::new(found);
        }
        let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
        let heads = cx.query(&AllHeads);
        let foreign = Foreign::of(cx, &root, &heads);
        for head in heads.iter() {
            let hosts = head.hosts.iter().enumerate();
            let refused =
                hosts.filter_map(|(at, host)| Some((at, foreign.refusal(cx, head, host)?)));
            let refused: Vec<(usize, String)> = refused.collect();
            if !refused.is_empty() {
                found.insert(head.name.clone(), refused);
            }
        }
        Arc::new(found)
    }
}

/// The rules of the mesh that name hosts of others, as the root namespace sees them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NotOwnedInMesh;

impl Query<Snapshot> for NotOwnedInMesh {
    type Value = Arc<[Diagnostic]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let foreign = cx.query(&ForeignInMesh);
        let mut found = Vec::new();
        for (name, refused) in foreign.iter() {
            for (at, why) in refused {
                let home = &name.namespace;
                let why = format!("it applies to sidecars of {home} alone: {why}");
                let (kind, code) = (Kind::VirtualService, code::NOT_OWNED);
                let finding = about_named(kind, name, code, Severity::Warning, why);
                found.push(finding.at(format!("spec.hosts[{at}]")));
            }
        }
        found.into()
    }
}
