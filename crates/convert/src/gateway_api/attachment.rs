//! What a route attaches to.

mod owned;
mod refusal;
mod service;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::kinds::gateway_api::{GrpcRoute, HttpRoute, ParentRef, TcpRoute, TlsRoute, UdpRoute};
use model::{Diagnostic, Kind, Namespace, ObjectKey, ObjectName, Severity, host};

use super::listener::{Listener, ListenersOf};
use super::route::{CreatedOf, WrittenRoute, with_route_type};
use super::rules::HttpRulesOf;
use super::rules::stream::StreamRulesOf;
use super::{ANY_HOST, limits};
use crate::budget::{self, Charge};
use crate::outcome::{code, finding};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

pub(crate) use owned::{NotOwned, of_others};
pub(crate) use refusal::{Refused, RefusedReason};
pub(crate) use service::NoWaypoint;

/// A route at one listener of a parent, or at a service of the mesh.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go routeParentReference, 1.32.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Attachment {
    /// The parent as the route names it.
    pub reference: ParentRef,
    /// The parent.
    pub parent: ObjectKey,
    /// The listener; `None` for a service.
    pub listener: Option<Arc<Listener>>,
    /// The hosts that the route serves there: not those that a more specific listener takes, and none where it is refused.
    pub hosts: Arc<[Arc<str>]>,
    /// Hosts that it would serve there, and that belong to other namespaces.
    pub not_owned: Arc<[NotOwned]>,
    /// Why it is refused, if it is.
    pub refused: Option<Refused>,
    /// Why no waypoint would route by it, for a service in the ambient mode.
    pub no_waypoint: Option<NoWaypoint>,
}

/// The attachments of a route of any kind, in the order of its references as text; those of one reference in the order of
/// the listeners.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AttachmentsOf(pub ObjectKey);

impl Derive for AttachmentsOf {
    type Stratum = Routes;
    type Value = Arc<[Attachment]>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        if !read.settings().features.owned_hosts {
            return within_budget(read, &self.0);
        }
        let attachments = read.derived(BudgetedOf(self.0.clone()));
        owned::without_others(read, &self.0, &attachments)
    }
}

/// The attachments of a route before owners of hosts are considered. Derived only with `--owned-hosts`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct BudgetedOf(ObjectKey);

impl Derive for BudgetedOf {
    type Stratum = Routes;
    type Value = Arc<[Attachment]>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        within_budget(read, &self.0)
    }
}

/// The attachments of a route, refused where it is over the budget of its namespace.
fn within_budget(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Arc<[Attachment]> {
    if !read.settings().features.gateway_api {
        return Arc::from([]);
    }
    let alone = read.derived(AloneOf(key.clone()));
    if alone.iter().all(|a| a.refused.is_some()) {
        return alone.as_ref().clone();
    }
    // Who pays nothing does not depend on what others pay.
    let pays = read.derived(RouteCharge(key.clone())).bytes > 0;
    let over = RoutesOver {
        kind: key.kind,
        namespace: key.name.namespace.clone(),
    };
    if !pays || !read.derived(over).contains(&key.name) {
        return alone.as_ref().clone();
    }
    let refused = refusal::over_budget(key);
    let refuse = |attachment: &Attachment| match attachment.refused {
        Some(_) => attachment.clone(),
        None => Attachment {
            refused: Some(refused.clone()),
            hosts: Arc::from([]),
            ..attachment.clone()
        },
    };
    alone.iter().map(refuse).collect()
}

/// The attachments of a route, whatever the others of its namespace make.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AloneOf(ObjectKey);

impl Derive for AloneOf {
    type Stratum = Routes;
    type Value = Arc<[Attachment]>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        with_route_type!(self.0.kind, attachments(read, &self.0), Arc::from([]))
    }
}

/// The routes of a kind that are over the budget of their namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RoutesOver {
    kind: Kind,
    namespace: Namespace,
}

impl Derive for RoutesOver {
    type Stratum = Routes;
    type Value = BTreeSet<ObjectName>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        fn names<T: WrittenRoute>(
            read: &Reader<'_, '_, Routes>,
            namespace: &Namespace,
        ) -> Vec<ObjectName> {
            read.names_in::<T>(namespace)
        }
        let names = with_route_type!(self.kind, names(read, &self.namespace), Vec::new());
        let own = names.into_iter().filter(|name| name.cluster.is_none());
        let charges = own.map(|name| {
            let key = ObjectKey {
                kind: self.kind,
                name: name.clone(),
            };
            (name, *read.derived(RouteCharge(key)))
        });
        budget::outside(read, charges)
    }
}

/// What a route is charged: its rules, once for each host of each listener.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RouteCharge(ObjectKey);

impl Derive for RouteCharge {
    type Stratum = Routes;
    type Value = Charge;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Charge {
        let alone = read.derived(AloneOf(self.0.clone()));
        let made = [false, true].into_iter().map(|in_mesh| {
            let copies = copies(alone.iter(), in_mesh);
            match copies {
                0 => 0,
                _ => held(read, &self.0, in_mesh).saturating_mul(copies),
            }
        });
        Charge {
            created: *read.derived(CreatedOf(self.0.clone())),
            bytes: model::budget::charge(made.fold(0, usize::saturating_add), || {
                let namespace = &self.0.name.namespace;
                with_route_type!(self.0.kind, is_crowded(read, namespace), false)
            }),
        }
    }
}

fn is_crowded<T: WrittenRoute>(read: &Reader<'_, '_, Routes>, namespace: &Namespace) -> bool {
    read.is_crowded::<T>(namespace)
}

/// At how many hosts of listeners, or of services, a route is served.
fn copies<'a>(all: impl Iterator<Item = &'a Attachment>, in_mesh: bool) -> usize {
    let there = all.filter(|a| a.listener.is_none() == in_mesh && a.refused.is_none());
    there.map(|attachment| attachment.hosts.len()).sum()
}

/// What is held for one copy of the rules of a route.
fn held(read: &Reader<'_, '_, Routes>, route: &ObjectKey, in_mesh: bool) -> usize {
    let (weight, count) = match route.kind {
        Kind::HttpRoute | Kind::GrpcRoute => {
            let route = route.clone();
            let rules = read.derived(HttpRulesOf { route, in_mesh });
            (rules.weight(), rules.routes.len())
        }
        _ => {
            let route = route.clone();
            let rules = read.derived(StreamRulesOf { route, in_mesh });
            (rules.weight(), rules.rules.len())
        }
    };
    let besides = count.saturating_mul(model::budget::ROUTE_BYTES);
    weight.saturating_add(besides)
}

/// That a route is served nowhere as it would make too much, if that is so.
pub(super) fn excess(route: &ObjectKey, attachments: &[Attachment]) -> Option<Diagnostic> {
    let reasons = || attachments.iter().filter_map(|a| a.refused.as_ref());
    if reasons().any(|refused| refused.reason == RefusedReason::OverBudget) {
        return Some(budget::finding_of(route, "spec.parentRefs"));
    }
    let mut refused = reasons().filter(|refused| refused.reason == RefusedReason::UnsupportedValue);
    let message = format!("is not served: {}", refused.next()?.message);
    let (severity, at) = (Severity::Error, "spec.parentRefs".to_owned());
    Some(finding(route, code::OVER_LIMIT, severity, at, message))
}

/// A reference as text, by which references are ordered.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go parentRefString, 1.32.
pub(super) fn reference_text(reference: &ParentRef, namespace: &Namespace) -> String {
    format!(
        "{}/{}/{}/{}/{}.{}",
        reference.group,
        reference.kind,
        reference.name,
        reference.section_name.as_deref().unwrap_or_default(),
        reference.port.unwrap_or_default(),
        reference.namespace.as_deref().unwrap_or(namespace),
    )
}

/// Istio: pilot/pkg/config/kube/gateway/conversion.go extractParentReferenceInfo, 1.32.
fn attachments<T: WrittenRoute>(
    read: &Reader<'_, '_, Routes>,
    key: &ObjectKey,
) -> Arc<[Attachment]> {
    let Some(route) = read.get::<T>(&key.name) else {
        return Arc::from([]);
    };
    let stated = route.spec.hostnames();
    let any = [ANY_HOST.into()];
    let attaching = Attaching {
        read,
        route: key,
        hostnames: if stated.is_empty() { &any } else { stated },
    };
    let mut references: Vec<&ParentRef> = route.spec.parent_refs().iter().collect();
    references.sort_by_cached_key(|reference| reference_text(reference, &key.name.namespace));
    let mut all: Vec<Attachment> = Vec::new();
    for reference in references {
        let Some(parent) = reference.key(&key.name.namespace) else {
            continue;
        };
        match parent.kind {
            Kind::Service | Kind::ServiceEntry => {
                all.extend(attaching.at_service(reference, parent));
            }
            _ => attaching.at_listeners(reference, &parent, &mut all),
        }
    }
    attaching.bound(&mut all);
    all.into()
}

/// A route being attached.
struct Attaching<'r, 'a, 'b> {
    read: &'r Reader<'a, 'b, Routes>,
    route: &'r ObjectKey,
    /// Its hosts; any where it states none.
    hostnames: &'r [Arc<str>],
}

impl Attaching<'_, '_, '_> {
    fn at_listeners(&self, reference: &ParentRef, parent: &ObjectKey, all: &mut Vec<Attachment>) {
        let listeners = self.read.derived(ListenersOf(parent.clone()));
        all.extend(listeners.iter().map(|listener| {
            let refused = refusal::at_listener(self.route, self.hostnames, reference, listener);
            let hosts = match refused {
                None => self.hosts(listener, &listeners),
                Some(_) => Arc::from([]),
            };
            Attachment {
                reference: reference.clone(),
                parent: parent.clone(),
                listener: Some(listener.clone()),
                hosts,
                not_owned: Arc::from([]),
                refused,
                no_waypoint: None,
            }
        }));
    }

    /// The hosts that the route serves at a listener.
    fn hosts(&self, listener: &Listener, all: &[Arc<Listener>]) -> Arc<[Arc<str>]> {
        match self.route.kind {
            Kind::TlsRoute if !listener.hostname.is_empty() => {
                let hosts: Vec<&str> = self.hostnames.iter().map(|host| &**host).collect();
                let both = host::intersection(&hosts, &[&listener.hostname]);
                both.into_iter().map(Arc::from).collect()
            }
            Kind::HttpRoute | Kind::GrpcRoute => {
                let alike = all.iter().filter(|other| {
                    other.port == listener.port
                        && other.protocol == listener.protocol
                        && other.refused.is_none()
                });
                let mut taken: Vec<&str> = alike.map(|other| &*other.hostname).collect();
                taken.retain(|host| *host != &*listener.hostname);
                let own = self.hostnames.iter();
                own.filter(|host| is_served(host, &listener.hostname, &taken))
                    .cloned()
                    .collect()
            }
            _ => self.hostnames.into(),
        }
    }

    /// Refuses the route where the copies of its rules would weigh too much.
    fn bound(&self, all: &mut [Attachment]) {
        for in_mesh in [false, true] {
            let there = all.iter_mut().filter(|a| a.listener.is_none() == in_mesh);
            let mut accepted: Vec<&mut Attachment> =
                there.filter(|a| a.refused.is_none()).collect();
            let copies: usize = accepted.iter().map(|a| a.hosts.len()).sum();
            if copies <= limits::FEW_COPIES {
                continue;
            }
            let weight = self.weight(in_mesh);
            if weight.saturating_mul(copies) <= limits::COPIED_BYTES {
                continue;
            }
            let refused = refusal::too_much(copies, weight);
            for attachment in &mut accepted {
                attachment.refused = Some(refused.clone());
                attachment.hosts = Arc::from([]);
            }
        }
    }

    fn weight(&self, in_mesh: bool) -> usize {
        let route = self.route.clone();
        match self.route.kind {
            Kind::HttpRoute | Kind::GrpcRoute => {
                let rules = HttpRulesOf { route, in_mesh };
                self.read.derived(rules).weight()
            }
            _ => self.read.derived(StreamRulesOf { route, in_mesh }).weight(),
        }
    }
}

/// Whether a listener serves a host of a route; `taken` are the hosts of the other listeners of its port and protocol.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go hostnameAllowedByIsolation, 1.32.
fn is_served(route_host: &str, listener: &str, taken: &[&str]) -> bool {
    if !listener.is_empty() && !listener.starts_with('*') {
        return true;
    }
    if !listener.is_empty() && !host::matches(route_host, listener) {
        return false;
    }
    let mut better = taken.iter().filter(|other| listener.len() <= other.len());
    !better.any(|other| host::subset_of(route_host, other))
}

#[cfg(test)]
mod tests {
    use super::is_served;

    #[test]
    fn a_more_specific_listener_takes_its_hosts() {
        let taken = ["*.example.com", "*.foo.example.com", "abc.foo.example.com"];
        let any = |host| is_served(host, "", &taken);
        assert!(any("bar.com") && any("*"));
        assert!(!any("*.example.com") && !any("a.example.com") && !any("abc.foo.example.com"));
        let wide = |host| is_served(host, "*.example.com", &["", "*.foo.example.com"]);
        assert!(wide("*.example.com") && wide("a.example.com") && wide("*"));
        assert!(!wide("x.foo.example.com") && !wide("bar.com"));
        // A listener of one host serves nothing else, whatever the route states.
        assert!(is_served("bar.com", "foo.com", &["bar.com"]));
    }
}
