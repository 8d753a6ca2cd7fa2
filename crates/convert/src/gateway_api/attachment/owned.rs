//! Which namespace owns a host of a Gateway, with `--owned-hosts`.
//!
//! A host of a Gateway belongs to the namespace of the oldest HTTPRoute or GRPCRoute that serves it there, and so does every host
//! below a wildcard that such a route states. A ListenerSet of another namespace than the Gateway's claims what its listeners have
//! for themselves. A route of another namespace serves nothing of it, unless a ReferenceGrant of the owner's namespace lets it
//! refer to what claims the host, or the Gateway says so: a listener for exactly that host shares it with every namespace that may
//! attach. A listener for a wildcard, or without a host, only says who may attach.
//!
//! The Gateway's own namespace decides who attaches at all, and the root namespace is the operator's: both may say anything. A
//! wildcard of the Gateway's own namespace claims nothing below it, since its listener admits others there. `*` has an owner
//! too, who does not own more specific hosts.
//!
//! Claims go by what routes attach to before any of this, so that no owner depends on another.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::host::{canonical, subset_of};
use model::kinds::gateway_api::ListenerSet;
use model::ownership::{Claim, ends_above, oldest};
use model::{Diagnostic, Kind, ObjectKey, ObjectName, Severity};
use store::index::{ObjectIndex, parent_host_value, reference_value};

use super::super::ANY_HOST;
use super::super::listener::{Listener, ListenersOf};
use super::super::route::{CreatedOf, of_requests_by};
use super::{Attachment, AttachmentsOf, BudgetedOf, Refused, RefusedReason};
use crate::outcome::{code, finding};
use crate::reader::{Derive, Reader};
use crate::refer::{Author, grant};
use crate::strata::Routes;

/// A host that a route names and that belongs to another namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NotOwned {
    /// The host as the route names it, `*` where it names none.
    stated: Arc<str>,
    /// Why it is not served, for people.
    pub(crate) why: Arc<str>,
}

/// The attachments of a route, without the hosts of others.
pub(super) fn without_others(
    read: &Reader<'_, '_, Routes>,
    route: &ObjectKey,
    attachments: &Arc<[Attachment]>,
) -> Arc<[Attachment]> {
    let is_asked = matches!(route.kind, Kind::HttpRoute | Kind::GrpcRoute)
        && *route.name.namespace != *read.settings().mesh.root_namespace;
    match is_asked {
        true => {
            let own = attachments.iter().map(|a| own_of(read, route, a));
            own.collect()
        }
        false => attachments.clone(),
    }
}

/// An attachment of a route, without the hosts of others.
fn own_of(read: &Reader<'_, '_, Routes>, route: &ObjectKey, attachment: &Attachment) -> Attachment {
    let Some(listener) = &attachment.listener else {
        return attachment.clone();
    };
    let Some(gateway) = gateway_of(read, &attachment.parent) else {
        return attachment.clone();
    };
    if gateway.namespace == route.name.namespace {
        return attachment.clone();
    }
    let at = At {
        gateway: &gateway,
        parent: &attachment.parent,
        listener,
    };
    let mut own: Vec<Arc<str>> = Vec::new();
    let mut others: Vec<NotOwned> = Vec::new();
    for stated in attachment.hosts.iter() {
        match at.refuses(read, route, stated) {
            None => own.push(stated.clone()),
            Some(why) => others.push(NotOwned {
                stated: stated.clone(),
                why: why.into(),
            }),
        }
    }
    if others.is_empty() {
        return attachment.clone();
    }
    let refused = own.is_empty().then(|| {
        let reasons: Vec<&str> = others.iter().map(|other| &*other.why).collect();
        Refused {
            reason: RefusedReason::HostsOfOthers,
            message: reasons.join("; ").into(),
        }
    });
    Attachment {
        hosts: own.into(),
        refused,
        not_owned: others.into(),
        ..attachment.clone()
    }
}

/// The findings about a host that a route names at a parent, where it belongs to others.
pub(crate) fn of_others(
    read: &Reader<'_, '_, Routes>,
    route: &ObjectKey,
    parent: &ObjectKey,
    host: &str,
) -> Vec<Diagnostic> {
    let attachments = read.derived(AttachmentsOf(route.clone()));
    // The listeners where it is not served, by the reason.
    let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for attachment in attachments.iter().filter(|a| a.parent == *parent) {
        let Some(listener) = &attachment.listener else {
            continue;
        };
        let others = attachment.not_owned.iter();
        for NotOwned { why, .. } in others.filter(|other| *other.stated == *host) {
            places.entry(why).or_default().insert(&listener.section);
        }
    }
    let at = match host == ANY_HOST {
        true => "spec.parentRefs",
        false => "spec.hostnames",
    };
    let found = places.into_iter().map(|(why, sections)| {
        let sections: Vec<&str> = sections.into_iter().collect();
        let sections = sections.join(", ");
        let message = format!("its routes do not apply at {parent} (listener {sections}): {why}");
        let (code, severity) = (code::HOST_OF_OTHERS, Severity::Warning);
        finding(route, code, severity, at.to_owned(), message)
    });
    found.collect()
}

/// A listener of a Gateway, or of a ListenerSet that adds to it.
struct At<'r> {
    gateway: &'r ObjectName,
    /// The object that the listener is in.
    parent: &'r ObjectKey,
    listener: &'r Listener,
}

impl At<'_> {
    /// Whether it is for exactly one host.
    fn is_exact(&self) -> bool {
        let host = &self.listener.hostname;
        !host.is_empty() && !host.starts_with('*')
    }

    /// Whether the Gateway's author shares the listener's host with every namespace that may attach.
    fn is_shared(&self) -> bool {
        self.is_exact() && self.parent.name.namespace == self.gateway.namespace
    }

    /// The host that a route with a host serves here: the narrower one of its own and the listener's.
    fn served<'h>(&'h self, stated: &'h str) -> Option<Cow<'h, str>> {
        let listener = &*self.listener.hostname;
        let narrower = if listener.is_empty() || subset_of(stated, listener) {
            stated
        } else if subset_of(listener, stated) {
            listener
        } else {
            return None;
        };
        Some(canonical(narrower))
    }

    /// Why a route may not serve a host here; `None` where it may.
    fn refuses(
        &self,
        read: &Reader<'_, '_, Routes>,
        route: &ObjectKey,
        stated: &str,
    ) -> Option<String> {
        if self.is_shared() {
            return None;
        }
        let host = self.served(stated)?;
        let owner = owner(read, self.gateway, &host)?;
        let namespace = &route.name.namespace;
        let is_owner = owner.namespace() == namespace;
        // The owner shares what it has a listener of its own for.
        let is_shared = self.is_exact() && self.parent.name.namespace == *owner.namespace();
        let by = Author::new(route.kind, &route.name);
        if is_owner || is_shared || grant(read, by, &owner.object).is_some() {
            return None;
        }
        let created = *read.derived(CreatedOf(route.clone()));
        let home = owner.owner(&host, (created, &route.name));
        let kind = route.kind.name();
        Some(format!(
            "the host {host:?} belongs to {home}. A ReferenceGrant there can let {kind}s of {namespace} refer to it"
        ))
    }
}

/// The Gateway that an object is, or adds listeners to.
fn gateway_of(read: &Reader<'_, '_, Routes>, parent: &ObjectKey) -> Option<ObjectName> {
    match parent.kind {
        Kind::KubeGateway => Some(parent.name.clone()),
        Kind::ListenerSet => {
            let set = read.get::<ListenerSet>(&parent.name)?;
            let gateway = set.spec.parent_ref.key(set.namespace())?;
            Some(gateway.name)
        }
        _ => None,
    }
}

/// The oldest claim to a host of a Gateway, or to a wildcard above it.
fn owner(read: &Reader<'_, '_, Routes>, gateway: &ObjectName, host: &str) -> Option<Claim> {
    let at = |host: Arc<str>| {
        let gateway = gateway.clone();
        read.derived(ClaimsAt { gateway, host })
    };
    let own = at(host.into()).very.clone();
    let above = ends_above(host).filter_map(|end| at(format!("*.{end}").into()).below.clone());
    oldest(own.into_iter().chain(above))
}

/// The oldest claims to a host.
#[derive(Clone, PartialEq, Debug)]
struct Claims {
    /// To this very host.
    very: Option<Claim>,
    /// Of those, to what is below it as well.
    below: Option<Claim>,
}

/// The oldest claims to a host of a Gateway, or to one of its wildcards.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ClaimsAt {
    gateway: ObjectName,
    /// In the form in which hosts are compared.
    host: Arc<str>,
}

impl Derive for ClaimsAt {
    type Stratum = Routes;
    type Value = Claims;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Claims {
        // Each with whether it is to what is below the host as well.
        let mut claims: Vec<(Claim, bool)> = Vec::new();
        for parent in self.parents(read) {
            let listeners = read.derived(ListenersOf(parent.clone()));
            let listeners = listeners
                .iter()
                .filter(|listener| canonical(&listener.hostname) == *self.host);
            let listeners: Vec<&Arc<Listener>> = listeners.collect();
            let set = self.claimed_by_set(read, &parent, &listeners);
            claims.extend(set.map(|claim| (claim, true)));
            for stated in self.stated(!listeners.is_empty()) {
                let value = parent_host_value(&parent, &stated);
                let routes = of_requests_by(read, ObjectIndex::ParentHost, &value);
                let of_routes = routes.filter_map(|route| self.claimed_by(read, &parent, route));
                claims.extend(of_routes);
            }
        }
        let below = claims.iter().filter(|(_, is_below)| *is_below);
        let below = oldest(below.map(|(claim, _)| claim.clone()));
        Claims {
            below,
            very: oldest(claims.into_iter().map(|(claim, _)| claim)),
        }
    }
}

impl ClaimsAt {
    /// The Gateway, and the ListenerSets that add to it. Listeners of those that it does not let in take no route.
    fn parents(&self, read: &Reader<'_, '_, Routes>) -> Vec<ObjectKey> {
        let gateway = ObjectKey {
            kind: Kind::KubeGateway,
            name: self.gateway.clone(),
        };
        let sets = read.names_by::<ListenerSet>(ObjectIndex::Parent, &reference_value(&gateway));
        let sets = sets.into_iter().filter(|name| name.cluster.is_none());
        let sets = sets.map(|name| ObjectKey {
            kind: Kind::ListenerSet,
            name,
        });
        std::iter::once(gateway).chain(sets).collect()
    }

    /// The hosts with which routes serve this one: itself and, where a listener has it, the wider ones.
    fn stated(&self, has_listener: bool) -> impl Iterator<Item = String> {
        let wildcards = ends_above(&self.host).map(|end| format!("*.{end}"));
        let wider = wildcards.chain([ANY_HOST.to_owned()]);
        let wider = wider.filter(move |_| has_listener);
        std::iter::once(self.host.to_string()).chain(wider)
    }

    /// The claim of a route at a parent, if it claims the host there, and whether it is to what is below it as well.
    fn claimed_by(
        &self,
        read: &Reader<'_, '_, Routes>,
        parent: &ObjectKey,
        route: ObjectKey,
    ) -> Option<(Claim, bool)> {
        let attachments = read.derived(BudgetedOf(route.clone()));
        let here = attachments.iter().filter(|a| a.parent == *parent);
        // Whether the route states the host; a wider one claims no more than there is of it at a listener.
        let mut is_stated: Option<bool> = None;
        for attachment in here {
            let Some(listener) = &attachment.listener else {
                continue;
            };
            let at = At {
                gateway: &self.gateway,
                parent,
                listener,
            };
            for stated in attachment.hosts.iter() {
                let states = canonical(stated) == *self.host;
                // A route at a listener that is shared claims nothing.
                if at.served(stated).as_deref() == Some(&*self.host) && (states || !at.is_shared())
                {
                    is_stated = Some(states || is_stated == Some(true));
                }
            }
        }
        let is_stated = is_stated?;
        let is_below = is_stated && route.name.namespace != self.gateway.namespace;
        let claim = Claim {
            created: *read.derived(CreatedOf(route.clone())),
            object: route,
            host: self.host.clone(),
        };
        Some((claim, is_below))
    }

    /// The claim that a ListenerSet of another namespace makes by listeners for the host: one for exactly this host, or for its
    /// own namespace alone.
    fn claimed_by_set(
        &self,
        read: &Reader<'_, '_, Routes>,
        parent: &ObjectKey,
        listeners: &[&Arc<Listener>],
    ) -> Option<Claim> {
        let home = &parent.name.namespace;
        if *home == self.gateway.namespace {
            return None;
        }
        let is_own = |host: &Arc<str>| host.split_once('/').is_some_and(|(of, _)| *of == **home);
        let mut served = listeners.iter().filter(|l| l.refused.is_none());
        let claims =
            served.any(|listener| !self.host.starts_with('*') || listener.hosts.iter().all(is_own));
        let set = claims.then(|| read.get::<ListenerSet>(&parent.name))??;
        Some(Claim {
            object: parent.clone(),
            created: set.meta.created,
            host: self.host.clone(),
        })
    }
}
