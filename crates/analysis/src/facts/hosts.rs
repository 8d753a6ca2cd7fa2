//! What a host name leads to: a Kubernetes Service or a ServiceEntry that the asker can see.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::Service;
use model::{Namespace, Object, ObjectName};
use proto_istio::SharedMap;
use store::{ObjectIndex, Reads, Snapshot};

/// What a host leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Destination {
    /// Its ports.
    pub(crate) ports: Vec<u32>,
    /// Labels of its workloads, where a ServiceEntry selects them.
    pub(crate) selector: BTreeMap<String, String>,
    /// Labels of its endpoints, where a ServiceEntry states them.
    pub(crate) endpoints: Vec<SharedMap>,
}

/// A host with the namespace and the domain of the mesh where it is a short name.
///
/// Istio: pkg/config/analysis/analyzers/util/hosts.go ConvertHostToFQDN, 1.32.
pub(crate) fn full_name(namespace: &str, host: &str, domain: &str) -> String {
    if host.starts_with('*') || host.contains('.') {
        host.to_owned()
    } else {
        format!("{host}.{namespace}.svc.{domain}")
    }
}

/// Who sees what an object of a namespace is exported to: `*`, or namespaces.
pub(crate) fn scopes(namespace: &str, export_to: &[String]) -> BTreeSet<String> {
    if export_to.is_empty() || export_to.iter().any(|e| e == "*") {
        return BTreeSet::from(["*".to_owned()]);
    }
    let scope = |e: &String| match e.as_str() {
        "." => namespace.to_owned(),
        other => other.to_owned(),
    };
    export_to.iter().map(scope).collect()
}

/// The Service that a full name stands for. What stands before the last label of a namespace counts as its name.
pub(crate) fn service_of(host: &str, domain: &str) -> Option<ObjectName> {
    let (name, namespace) = host
        .strip_suffix(domain)?
        .strip_suffix(".svc.")?
        .rsplit_once('.')?;
    (!name.is_empty() && !namespace.is_empty()).then(|| ObjectName::new(namespace, name))
}

/// The Service that a host stands for where it is not a full name: one of the namespace.
pub(crate) fn resource_of(namespace: &Namespace, host: &str, domain: &str) -> ObjectName {
    service_of(host, domain).unwrap_or_else(|| ObjectName::new(namespace.clone(), host))
}

/// What `host` leads to for an object of `namespace` that is exported to `export_to`.
///
/// Istio: pkg/config/analysis/analyzers/util/service_lookup.go GetDestinationHost, 1.32.
pub(crate) fn find(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    export_to: &[String],
    host: &str,
) -> Option<Destination> {
    let domain = cx.settings().domain.clone();
    let name = full_name(namespace, host, &domain);
    let mut scopes: Vec<&str> = vec!["*"];
    match export_to {
        [] => scopes.push(namespace),
        stated => scopes.extend(
            stated
                .iter()
                .map(|e| if e == "." { namespace } else { &**e }),
        ),
    }
    for scope in scopes {
        if let Some(found) = in_scope(cx, scope, &name, &domain) {
            return Some(found);
        }
    }
    wildcard(cx, namespace, host)
}

fn in_scope(cx: &Cx<'_, Snapshot>, scope: &str, name: &str, domain: &str) -> Option<Destination> {
    let service = service_of(name, domain);
    if let Some(service) = &service
        && let Some(object) = cx.get::<Service>(service)
        && service_scopes(&object).iter().any(|s| s == scope)
    {
        return Some(Destination {
            ports: object
                .spec
                .ports
                .iter()
                .filter_map(|p| u32::try_from(p.port).ok())
                .collect(),
            selector: BTreeMap::new(),
            endpoints: Vec::new(),
        });
    }
    let exact = cx.list_by::<ServiceEntry>(ObjectIndex::Host, &name.to_ascii_lowercase());
    if let Some(entry) = exact
        .iter()
        .rfind(|e| entry_scopes(e, name, domain).contains(&scope))
    {
        return Some(of_entry(entry));
    }
    // ServiceEntries may state short names as well.
    let service = service?;
    let short = cx.list_by::<ServiceEntry>(ObjectIndex::Host, &service.name);
    short
        .iter()
        .rfind(|e| {
            *e.namespace() == service.namespace && entry_scopes(e, name, domain).contains(&scope)
        })
        .map(|e| of_entry(e))
}

/// ServiceEntries whose wildcard covers the host, for the namespace or for all.
fn wildcard(cx: &Cx<'_, Snapshot>, namespace: &Namespace, host: &str) -> Option<Destination> {
    let bare = host.strip_prefix('*').unwrap_or(host);
    let suffixes = bare
        .match_indices('.')
        .map(|(at, _)| format!("*{}", &bare[at..]))
        .chain(["*".to_owned()]);
    for wildcard in suffixes {
        for entry in cx.list_by::<ServiceEntry>(ObjectIndex::Host, &wildcard.to_ascii_lowercase()) {
            let domain = &cx.settings().domain;
            let scopes = entry_scopes(&entry, &wildcard, domain);
            if scopes.contains(&"*") || scopes.contains(&namespace.as_str()) {
                return Some(of_entry(&entry));
            }
        }
    }
    None
}

fn of_entry(entry: &Object<ServiceEntry>) -> Destination {
    let selector = entry.spec.workload_selector.as_ref();
    Destination {
        ports: entry.spec.ports.iter().map(|p| p.number).collect(),
        selector: selector.map(|s| s.labels.clone()).unwrap_or_default(),
        endpoints: entry
            .spec
            .endpoints
            .iter()
            .map(|e| e.labels.clone())
            .collect(),
    }
}

/// The scopes in which a ServiceEntry shows `name`: `*` or namespaces. None where it does not state that host.
fn entry_scopes<'a>(entry: &'a Object<ServiceEntry>, name: &str, domain: &str) -> Vec<&'a str> {
    let states = |host: &String| full_name(entry.namespace(), host, domain) == name;
    if !entry.spec.hosts.iter().any(states) {
        return Vec::new();
    }
    if entry.spec.export_to.is_empty() {
        return vec!["*"];
    }
    let scopes = entry.spec.export_to.iter();
    scopes
        .map(|s| match s.as_str() {
            "." => entry.namespace().as_str(),
            scope => scope,
        })
        .collect()
}

/// The scopes in which a Service is seen.
fn service_scopes(service: &Object<Service>) -> Vec<String> {
    match service.meta.annotations.get("networking.istio.io/exportTo") {
        None | Some("") => vec!["*".to_owned()],
        Some(list) => list
            .split(',')
            .map(|scope| match scope.trim() {
                "." => service.namespace().to_string(),
                scope => scope.to_owned(),
            })
            .collect(),
    }
}
