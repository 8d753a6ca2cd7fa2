//! Whose the hosts of a gateway proxy are, where `--owned-hosts` gives them owners.
//!
//! A host, and every host below its wildcard, belongs to the namespace of the oldest object that claims it at the proxy: a
//! Gateway that selects the proxy, in its servers, or a VirtualService that names such a Gateway. What another namespace says
//! about it does not apply there: no routes, no redirect to HTTPS, no TLS. It is let in by a ReferenceGrant of the owner's
//! namespace that names the claiming object, and by the Gateway that claims the host: `bank/a.example.com` gives the host to
//! `bank` as well, and `*/a.example.com` leaves it to the first VirtualService that claims it. VirtualServices claim only what
//! Gateways leave open so, and what a server for `*` serves.
//!
//! `*` has an owner too, who does not own more specific hosts. The root namespace is the operator's, and may say anything. What is
//! made from the Gateway API claims hosts but is not asked: its listeners say who may attach, and whose the hosts of its routes are is
//! decided where these are made (`convert::gateway_api::attachment::owned`).

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, KeyedSet, Query};
use model::Namespace;
use model::age::Age;
use model::diagnostic::{Diagnostic, Severity};
use model::host::canonical;
use model::kinds::gateway_api::ReferenceGrant;
use model::kinds::istio::Gateway;
use model::kinds::kube::ANY_HOST;
use model::object::{Object, ObjectKey};
use model::ownership::Claim;
use store::index::{ObjectIndex, grant_value};
use store::{Reads, Snapshot};

use super::author::Author;
use super::held::{ByHost, Held};
use super::{GatewayKey, GatewayServer, MergedGatewayOf, select};
use crate::finding::{about_named, code};
use crate::hosts;
use crate::root::is_root;
use crate::stated_hosts::{For, stated_for};
use crate::virtual_service::{VirtualServiceHead, VirtualServiceOf, VirtualServicesFor};

/// The oldest claims to the hosts of a gateway proxy; `None` where hosts have no owners.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OwnersAt(pub GatewayKey);

impl Query<Snapshot> for OwnersAt {
    type Value = Option<Arc<Owners>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let is_on = cx.settings().features.owned_hosts;
        is_on.then(|| (*cx.query(&ClaimsAt(self.0.clone()))).clone())
    }
}

/// The oldest claims to the hosts of a gateway proxy, whether or not hosts have owners.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ClaimsAt(pub(super) GatewayKey);

impl Query<Snapshot> for ClaimsAt {
    type Value = Arc<Owners>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut owners = Owners::default();
        for selected in select::select(cx, &self.0) {
            owners.take_in(cx, &selected.gateway, &self.0.namespace);
        }
        Arc::new(owners)
    }
}

/// The oldest claims to the hosts of a gateway proxy.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Owners {
    /// Those that count for servers of Gateways.
    servers: ByHost,
    /// Those that count for VirtualServices.
    rules: ByHost,
    /// Those that count for VirtualServices, and for the very host only.
    alone: ByHost,
}

/// The claim that a server of a Gateway makes by stating a host, and the namespaces that the host is for.
pub(super) fn claim_of<'h>(author: &Author, created: Age, host: &'h str) -> (For<'h>, Claim) {
    let (namespaces, host) = stated_for(host);
    let claim = Claim {
        object: author.key.clone(),
        created,
        host: canonical(host).into(),
    };
    (namespaces, claim)
}

/// The namespace that a server names for a host.
pub(super) fn given_to<'h>(namespaces: &For<'h>) -> Option<&'h str> {
    match namespaces {
        For::One(namespace) => Some(*namespace),
        For::Own | For::All => None,
    }
}

impl Owners {
    /// Takes in what is claimed at a Gateway: by itself, and by the VirtualServices that name it, of those that a namespace sees.
    pub(super) fn take_in(
        &mut self,
        cx: &Cx<'_, Snapshot>,
        gateway: &Object<Gateway>,
        viewer: &Namespace,
    ) {
        self.claimed_by(cx, gateway);
        let lists = cx.query(&VirtualServicesFor {
            namespace: viewer.clone(),
            gateway: gateway.meta.name.to_string().into(),
        });
        for head in lists.in_order().into_iter().flatten() {
            self.claimed_for(cx, gateway, head);
        }
    }

    /// Takes in what the servers of a Gateway claim.
    fn claimed_by(&mut self, cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>) {
        let author = Author::of_gateway(gateway);
        let created = author.created(cx, gateway.meta.created);
        for host in gateway.spec.servers.iter().flat_map(|s| &s.hosts) {
            let (namespaces, claim) = claim_of(&author, created, host);
            let given = given_to(&namespaces);
            self.servers.hold(&claim, given);
            if !matches!(namespaces, For::All) {
                self.rules.hold(&claim, given);
            }
        }
    }

    /// Takes in what a VirtualService claims of the hosts that a Gateway leaves open: `*`, and those for all namespaces. What
    /// else a Gateway states is its own to give, however old the rule is that names it.
    fn claimed_for(
        &mut self,
        cx: &Cx<'_, Snapshot>,
        gateway: &Object<Gateway>,
        head: &VirtualServiceHead,
    ) {
        let stated = gateway.spec.servers.iter().flat_map(|s| &s.hosts);
        let stated = stated.map(|host| stated_for(host));
        let is_for = |namespaces: &For<'_>| match namespaces {
            For::Own | For::All => true,
            For::One(namespace) => **namespace == **head.namespace(),
        };
        let mut open = Vec::new();
        // Whether the Gateway has `*` for itself.
        let mut has_any = false;
        for (namespaces, host) in stated.filter(|(namespaces, _)| is_for(namespaces)) {
            let is_any = host == ANY_HOST;
            let is_free = matches!(namespaces, For::All);
            has_any |= is_any && !is_free;
            if is_any || is_free {
                open.push(host);
            }
        }
        let wanted: Vec<&str> = head.hosts.iter().map(|host| &**host).collect();
        let common = hosts::common(&open, &wanted);
        if common.is_empty() {
            return;
        }
        let author = Author::of_rule(head);
        let created = author.created(cx, head.created);
        let written: KeyedSet<&str> = wanted.into_iter().collect();
        let open: KeyedSet<&str> = open.into_iter().collect();
        for host in common {
            if host == ANY_HOST && has_any {
                continue;
            }
            let claim = Claim {
                object: author.key.clone(),
                created,
                host: canonical(host).into(),
            };
            if !written.contains(host) {
                // A wider wildcard claims no more than there is of it here.
                self.alone.hold(&claim, None);
                continue;
            }
            self.rules.hold(&claim, None);
            if !open.contains(host) {
                self.servers.hold(&claim, None);
            }
        }
    }

    /// Why a server of a Gateway may not have a host as it states it; `None` where it may.
    pub(super) fn refuses_server(
        &self,
        cx: &Cx<'_, Snapshot>,
        gateway: &Object<Gateway>,
        host: &str,
    ) -> Option<String> {
        let (_, host) = stated_for(host);
        let host = canonical(host);
        let claims = self.servers.within(&host);
        let author = Author::of_gateway(gateway);
        refusal(
            cx,
            claims,
            (&author, gateway.meta.created),
            (OF_SERVERS, &host),
        )
    }

    /// The finding that a server may not send plain requests for a host to HTTPS, as somebody else's older object is for that very
    /// host: a redirect takes all of its requests, whoever serves them. `None` where it may.
    pub(super) fn refuses_redirect(
        &self,
        cx: &Cx<'_, Snapshot>,
        server: &GatewayServer,
        host: &str,
    ) -> Option<Diagnostic> {
        let gateway = cx.get::<Gateway>(&server.gateway)?;
        let (_, host) = stated_for(host);
        let author = Author::of_gateway(&gateway);
        let host = canonical(host);
        let claim = self.servers.get(&host).into_iter();
        let why = refusal(
            cx,
            claim,
            (&author, gateway.meta.created),
            (OF_SERVERS, &host),
        )?;
        Some(not_redirected(&author, &why))
    }

    /// Why a VirtualService may not route a host; `None` where it may.
    fn refuses_rule(
        &self,
        cx: &Cx<'_, Snapshot>,
        head: &VirtualServiceHead,
        host: &str,
    ) -> Option<String> {
        let host = canonical(host);
        let claims = self.rules.within(&host).chain(self.alone.get(&host));
        let author = Author::of_rule(head);
        refusal(cx, claims, (&author, head.created), (OF_RULES, &host))
    }

    /// Whether a VirtualService may route a host.
    pub fn lets(&self, cx: &Cx<'_, Snapshot>, head: &VirtualServiceHead, host: &str) -> bool {
        self.refuses_rule(cx, head, host).is_none()
    }

    /// The findings about a rule that takes connections for names of others.
    fn names_refused(&self, cx: &Cx<'_, Snapshot>, head: &VirtualServiceHead) -> Vec<Diagnostic> {
        let refused = self.names_of_others(cx, head).into_iter();
        let refused =
            refused.map(|(at, _, why)| finding(head, &why).at(format!("spec.tls[{at}].match")));
        refused.collect()
    }

    /// The names of others for which a rule takes connections: the place of the route, the name, and why it is others'.
    fn names_of_others(
        &self,
        cx: &Cx<'_, Snapshot>,
        head: &VirtualServiceHead,
    ) -> Vec<(usize, Arc<str>, String)> {
        let rule = cx.query(&VirtualServiceOf(head.name.clone()));
        let routes = rule
            .iter()
            .flat_map(|rule| rule.spec.tls.iter().enumerate());
        let names = routes.flat_map(|(at, route)| {
            let names = route.r#match.iter().flat_map(|stated| &stated.sni_hosts);
            names.map(move |name| (at, name))
        });
        let refused = names.filter_map(|(at, name)| {
            let why = self.refuses_rule(cx, head, name)?;
            Some((at, name.as_str().into(), why))
        });
        refused.collect()
    }

    /// What of a rule is about hosts of others at a Gateway: the hosts that it states, and names of connections.
    pub(super) fn refused(
        &self,
        cx: &Cx<'_, Snapshot>,
        gateway: &Object<Gateway>,
        head: &VirtualServiceHead,
    ) -> BTreeSet<Arc<str>> {
        let mut refused = BTreeSet::new();
        for server in &gateway.spec.servers {
            for common in in_common(&server.hosts, head) {
                if !self.lets(cx, head, common) {
                    let stated = head.hosts.iter();
                    let covering = stated.filter(|host| model::host::subset_of(common, host));
                    refused.extend(covering.cloned());
                }
            }
        }
        if head.layer4 {
            let names = self.names_of_others(cx, head).into_iter();
            refused.extend(names.map(|(_, name, _)| name));
        }
        refused
    }
}

/// What a server of a Gateway configures for a host.
const OF_SERVERS: &str = "TLS settings and listeners";
/// What a VirtualService configures for a host.
const OF_RULES: &str = "routes";

/// Why an author may say nothing of that sort about a host to which there are these claims, and which grant would let it. The age is
/// that of the author's own object. One host may have two owners: of its routes, and of what servers say of it.
fn refusal<'o>(
    cx: &Cx<'_, Snapshot>,
    claims: impl Iterator<Item = &'o Held>,
    (author, created): (&Author, Age),
    (what, host): (&str, &str),
) -> Option<String> {
    let held = claims.min_by(|a, b| a.claim.age().cmp(&b.claim.age()))?;
    if !keeps_out(cx, held, author) {
        return None;
    }
    let home = held
        .claim
        .owner(host, (author.created(cx, created), &author.key.name));
    let (from, to) = (author.key.kind, &held.claim.object);
    let from = format!("{}/{}/{}", from.group(), from.name(), author.namespace());
    let to = format!("{}/{}/{}", to.kind.group(), to.kind.name(), to.name.name);
    Some(format!(
        "{what} of {host:?} belong to {home}. A ReferenceGrant there lets it in (from: {from}, to: {to})"
    ))
}

/// Whether an author may say nothing about a host to which there is that claim.
pub(super) fn keeps_out(cx: &Cx<'_, Snapshot>, held: &Held, author: &Author) -> bool {
    let Held { claim, given } = held;
    let namespace = author.namespace();
    let is_let_in = || {
        claim.namespace() == namespace || given.contains(namespace) || granted(cx, author, claim)
    };
    author.asked && !is_root(cx, namespace) && !is_let_in()
}

/// The finding that a server does not send plain requests for a host to HTTPS, although it says so.
pub(super) fn not_redirected(author: &Author, why: &str) -> Diagnostic {
    let ObjectKey { kind, name } = &author.key;
    let why = format!("a server does not send requests for a host to HTTPS: {why}");
    let found = about_named(*kind, name, code::NOT_OWNED, Severity::Warning, why);
    found.at("spec.servers".to_owned())
}

/// Whether a ReferenceGrant lets the author refer to the object that claims a host.
fn granted(cx: &Cx<'_, Snapshot>, author: &Author, claim: &Claim) -> bool {
    let to = &claim.object;
    let from = author.namespace();
    let value = grant_value(author.key.kind, from, to.kind, &to.name.namespace);
    let grants = cx.list_by::<ReferenceGrant>(ObjectIndex::Grant, &value);
    grants.iter().any(|grant| grant.spec.covers(to))
}

/// The hosts that a server and a rule have in common: of two that overlap, the one that is covered.
///
/// Istio: pkg/config/host/names.go NamesForNamespace and Intersection, 1.32.
fn in_common<'a>(server: &'a [String], head: &'a VirtualServiceHead) -> Vec<&'a str> {
    let open = server.iter().filter_map(|host| match host.split_once('/') {
        None => Some(host.as_str()),
        Some((namespace, host)) => {
            (namespace == "*" || *head.namespace() == *namespace).then_some(host)
        }
    });
    let open: Vec<&str> = open.collect();
    let wanted: Vec<&str> = head.hosts.iter().map(|h| &**h).collect();
    hosts::common(&open, &wanted)
}

/// The hosts of a server that a rule routes: those that both have, but for those that belong to others.
pub fn routed<'a>(
    cx: &Cx<'_, Snapshot>,
    owners: Option<&Owners>,
    server: &'a [String],
    head: &'a VirtualServiceHead,
) -> Vec<&'a str> {
    let mut found = in_common(server, head);
    if let Some(owners) = owners {
        found.retain(|host| owners.lets(cx, head, host));
    }
    found
}

/// The VirtualServices that name hosts of others at a gateway proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NotOwnedAt(pub GatewayKey);

impl Query<Snapshot> for NotOwnedAt {
    type Value = Arc<[Diagnostic]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let owners = cx.query(&OwnersAt(self.0.clone()));
        let merged = cx.query(&MergedGatewayOf(self.0.clone()));
        let (Some(owners), Some(merged)) = (owners.as_ref(), merged.as_ref()) else {
            return Arc::default();
        };
        let mut found = Vec::new();
        for server in &merged.servers {
            let lists = cx.query(&VirtualServicesFor {
                namespace: self.0.namespace.clone(),
                gateway: server.gateway_name.clone(),
            });
            for head in lists.in_order().into_iter().flatten() {
                let common = in_common(&server.server.hosts, head);
                let refused = common
                    .into_iter()
                    .filter_map(|host| Some((host, owners.refuses_rule(cx, head, host)?)));
                found.extend(refused.map(|(host, why)| not_routed(head, host, &why)));
                if head.layer4 {
                    found.extend(owners.names_refused(cx, head));
                }
            }
        }
        found.sort();
        found.dedup();
        found.into()
    }
}

fn not_routed(head: &VirtualServiceHead, host: &str, why: &str) -> Diagnostic {
    let found = finding(head, why);
    let covers = |stated: &Arc<str>| model::host::subset_of(host, stated);
    match head.hosts.iter().position(covers) {
        Some(at) if head.made_from.is_none() => found.at(format!("spec.hosts[{at}]")),
        _ => found,
    }
}

fn finding(head: &VirtualServiceHead, why: &str) -> Diagnostic {
    let ObjectKey { kind, name } = Author::of_rule(head).key;
    let why = format!("its routes do not apply at gateways: {why}");
    about_named(kind, &name, code::NOT_OWNED, Severity::Warning, why)
}

#[cfg(test)]
mod tests {
    use super::in_common;
    use crate::virtual_service::VirtualServiceHead;
    use model::service::Visibility;

    fn common(server: &[&str], hosts: &[&str]) -> Vec<String> {
        let head = VirtualServiceHead {
            name: model::ObjectName::new("shop", "rule"),
            made_from: None,
            created: Default::default(),
            export_to: Visibility::Public,
            semantics: Default::default(),
            hosts: hosts.iter().map(|h| (*h).into()).collect(),
            gateways: Box::new([]),
            layer4: false,
            class: 0,
            excess: None,
        };
        let server: Vec<String> = server.iter().map(|h| (*h).to_owned()).collect();
        let found = in_common(&server, &head);
        found.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn hosts_in_common_are_the_narrower_ones() {
        assert_eq!(common(&["*.com"], &["a.com", "b.org"]), ["a.com"]);
        assert_eq!(common(&["a.com", "b.com"], &["*"]), ["a.com", "b.com"]);
    }

    #[test]
    fn a_server_takes_rules_of_the_namespaces_that_it_names() {
        assert_eq!(common(&["shop/a.com", "edge/b.com"], &["*"]), ["a.com"]);
    }
}
