//! What the hosts of an egress listener import.
//!
//! Istio: pilot/pkg/model/sidecar.go convertIstioListenerToWrapper and selectServices, virtualservice.go
//! SelectVirtualServices, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, KeyedMap, KeyedSet};
use model::host::Hostname;
use model::names::Namespace;
use model::service::{Port, Registry, Service, ServiceAlias, Visibility};
use proto_istio::networking::IstioEgressListener;
use store::Snapshot;

use super::any_suspect;
use super::{EgressScope, port_to_match};
use crate::hosts::{Ends, Wildcards};
use crate::services::{InNamespace, OfHost, VisibleTo};
use crate::virtual_service::{
    MESH, Semantics, VirtualServiceHead, VirtualServiceLists, VirtualServicesFor,
};

/// The hosts imported from one namespace, or from every one.
#[derive(Debug, Default)]
struct Hosts {
    exact: BTreeSet<Hostname>,
    wildcard: Vec<Hostname>,
    excluded: Vec<Hostname>,
    found: Option<Found>,
}

/// The hosts again, as they are looked for.
#[derive(Debug)]
struct Found {
    wildcards: Wildcards<'static, ()>,
    excluded: Wildcards<'static, ()>,
    excluded_exact: BTreeSet<Hostname>,
    /// The exact ones and the wildcards, by their ends.
    ends: Ends<()>,
}

impl Hosts {
    fn index(&mut self) {
        let wildcards =
            |hosts: &[Hostname]| Wildcards::owned(hosts.iter().map(|h| (h.clone(), ())));
        let exact = self.excluded.iter().filter(|h| !h.is_wildcard());
        let all = self.exact.iter().chain(&self.wildcard);
        self.found = Some(Found {
            wildcards: wildcards(&self.wildcard),
            excluded: wildcards(&self.excluded),
            excluded_exact: exact.cloned().collect(),
            ends: Ends::new(all.map(|h| (&**h, ()))),
        });
    }

    fn excludes(&self, host: &str) -> bool {
        let found = self.found.as_ref();
        found.is_some_and(|f| f.excluded.cover(host) || f.excluded_exact.contains(host))
    }

    /// Whether a service's host is imported.
    fn import(&self, host: &str) -> bool {
        let covered = || self.found.as_ref().is_some_and(|f| f.wildcards.cover(host));
        self.exact.contains(host) || covered()
    }

    /// Whether a rule's host is imported. A rule written by a user is also taken where it covers what is imported.
    fn import_rule(&self, host: &str, semantics: Semantics) -> bool {
        if self.import(host) {
            return true;
        }
        let covers = || {
            self.found
                .as_ref()
                .is_some_and(|f| f.ends.covered(host).next().is_some())
        };
        semantics != Semantics::Gateway && host.starts_with('*') && covers()
    }
}

/// The hosts of an egress listener by the namespace they are imported from.
#[derive(Debug, Default)]
struct Imports {
    by_namespace: BTreeMap<Namespace, Hosts>,
    anywhere: Option<Hosts>,
}

impl Imports {
    fn parse(hosts: &[String], namespace: &Namespace) -> Self {
        let mut imports = Self::default();
        for text in hosts {
            let Some((from, host)) = text.split_once('/').filter(|(_, h)| !h.contains('/')) else {
                continue;
            };
            let (from, excluded) = match from.strip_prefix('~') {
                Some("") => ("*", true),
                Some(from) => (from, true),
                None => (from, false),
            };
            let entry = match from {
                "*" => imports.anywhere.get_or_insert_default(),
                "." => imports.by_namespace.entry(namespace.clone()).or_default(),
                from => imports.by_namespace.entry(from.into()).or_default(),
            };
            let host = Hostname::from(host);
            if excluded {
                entry.excluded.push(host);
            } else if host.is_wildcard() {
                entry.wildcard.push(host);
            } else {
                entry.exact.insert(host);
            }
        }
        let all = imports.by_namespace.values_mut();
        all.chain(&mut imports.anywhere).for_each(Hosts::index);
        imports
    }

    fn from(&self, namespace: &str) -> impl Iterator<Item = &Hosts> {
        self.by_namespace
            .get(namespace)
            .into_iter()
            .chain(&self.anywhere)
    }

    /// The services to choose from, as few as the hosts allow.
    fn candidates(&self, cx: &Cx<'_, Snapshot>, viewer: &Namespace) -> Vec<Arc<Service>> {
        let open = |hosts: &Hosts| !hosts.exact.is_empty() || !hosts.wildcard.is_empty();
        if self.anywhere.as_ref().is_some_and(open) {
            return visible(cx, viewer);
        }
        let mut found = Vec::new();
        for (owner, hosts) in &self.by_namespace {
            if hosts.wildcard.is_empty() {
                for host in &hosts.exact {
                    let services = cx.query(&OfHost(host.clone()));
                    let service = services.iter().find(|s| s.namespace == *owner);
                    found.extend(service.filter(|s| s.export_to.allows(viewer)).cloned());
                }
            } else {
                // What happens in other namespaces does not reach this scope.
                let services = cx.query(&InNamespace(owner.clone()));
                let visible = services.iter().filter(|s| s.export_to.allows(viewer));
                found.extend(visible.cloned());
            }
        }
        sort(&mut found);
        found
    }
}

/// Every service that a namespace may see: those exported to it by name before those for everybody.
pub(super) fn visible(cx: &Cx<'_, Snapshot>, viewer: &Namespace) -> Vec<Arc<Service>> {
    let services = cx.query(&VisibleTo(viewer.clone()));
    let (mut list, public): (Vec<_>, Vec<_>) = services
        .iter()
        .cloned()
        .partition(|s| s.export_to != Visibility::Public);
    list.extend(public);
    list
}

/// The order of [`visible`].
fn sort(services: &mut [Arc<Service>]) {
    services.sort_by(|a, b| {
        (
            a.export_to == Visibility::Public,
            a.created,
            &a.name,
            &a.namespace,
        )
            .cmp(&(
                b.export_to == Visibility::Public,
                b.created,
                &b.name,
                &b.namespace,
            ))
    });
}

/// What an egress listener of a Sidecar in force in `namespace` imports.
pub(super) fn import(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    listener: IstioEgressListener,
) -> EgressScope {
    let imports = Imports::parse(&listener.hosts, namespace);
    let lists = cx.query(&VirtualServicesFor {
        namespace: namespace.clone(),
        gateway: MESH.into(),
    });
    let rules = select_rules(&imports, &lists, namespace);
    let candidates = imports.candidates(cx, namespace);
    let services = select_services(&imports, candidates, namespace, port_to_match(&listener));
    EgressScope {
        suspect: any_suspect(&services, &rules),
        listener,
        services: services.into(),
        rules: rules.into(),
    }
}

fn select_rules(
    imports: &Imports,
    lists: &VirtualServiceLists,
    namespace: &Namespace,
) -> Vec<Arc<VirtualServiceHead>> {
    let imported = |head: &VirtualServiceHead| {
        imports.from(head.namespace()).any(|hosts| {
            head.hosts.iter().any(|host| {
                hosts.import_rule(host, head.semantics)
                    && !imports.from(head.namespace()).any(|h| h.excludes(host))
            })
        })
    };
    let mut selected = Vec::new();
    let mut seen = KeyedSet::default();
    for list in lists.in_order() {
        // Routes of the Gateway API that the consumer's own namespace states override those of the producer.
        for near in [true, false] {
            for head in list {
                let is_near = head.semantics == Semantics::Gateway && head.namespace() == namespace;
                if is_near == near && imported(head) && seen.insert(&head.name) {
                    selected.push(head.clone());
                }
            }
        }
    }
    selected
}

fn select_services(
    imports: &Imports,
    candidates: Vec<Arc<Service>>,
    namespace: &Namespace,
    port: Option<u16>,
) -> Vec<Arc<Service>> {
    let mut selected: Vec<Arc<Service>> = Vec::with_capacity(candidates.len());
    for service in candidates {
        if imports
            .from(&service.namespace)
            .any(|h| h.excludes(&service.host))
        {
            continue;
        }
        let imported = imports.from(&service.namespace).find_map(|hosts| {
            hosts
                .import(&service.host)
                .then(|| with_port(&service, port))
                .flatten()
                .map(|service| with_aliases(service, hosts))
        });
        selected.extend(imported);
    }
    one_namespace_per_host(&mut selected, namespace);
    selected
}

/// Of services with one host in several namespaces keeps those of one: the proxy's own, else the first, unless a later
/// one is a Kubernetes service and it is not. Hosts of registries are one in whatever letters, as they are to Envoy.
fn one_namespace_per_host(services: &mut Vec<Arc<Service>>, namespace: &Namespace) {
    let mut chosen: KeyedMap<Hostname, (Namespace, bool)> = KeyedMap::default();
    let mut several = false;
    for service in services.iter() {
        let kube = service.registry == Registry::Kubernetes;
        let this = || (service.namespace.clone(), kube);
        let host = folded(&service.host);
        match chosen.get_mut(&host) {
            None => {
                chosen.insert(host, this());
            }
            Some(held) => {
                several |= held.0 != service.namespace;
                if service.namespace == *namespace || (!held.1 && kube && held.0 != *namespace) {
                    *held = this();
                }
            }
        }
    }
    if several {
        services.retain(|s| {
            let kept = chosen.get(&folded(&s.host));
            kept.is_some_and(|c| c.0 == s.namespace)
        });
    }
}

fn folded(host: &Hostname) -> Hostname {
    match host.bytes().any(|b| b.is_ascii_uppercase()) {
        true => host.to_ascii_lowercase().into(),
        false => host.clone(),
    }
}

/// The service with the port of an egress listener alone; none if it has no such port.
pub(super) fn with_port(service: &Arc<Service>, port: Option<u16>) -> Option<Arc<Service>> {
    let Some(number) = port else {
        return Some(service.clone());
    };
    let port: &Port = service.ports.iter().find(|p| p.number == number)?;
    if service.ports.len() == 1 {
        return Some(service.clone());
    }
    let mut cut = Service::clone(service);
    cut.ports = Arc::from([port.clone()]);
    Some(Arc::new(cut))
}

/// The service without the aliases that are not imported.
fn with_aliases(service: Arc<Service>, hosts: &Hosts) -> Arc<Service> {
    let imported = |alias: &&ServiceAlias| hosts.import(&alias.host);
    if service.aliases.iter().all(|a| imported(&a)) {
        return service;
    }
    let mut cut = Service::clone(&service);
    cut.aliases = service.aliases.iter().filter(imported).cloned().collect();
    Arc::new(cut)
}
