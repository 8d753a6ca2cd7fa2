//! What a host name leads to: a Kubernetes Service or a ServiceEntry that the asker can see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Cx;
use model::kinds::higress::{McpBridge, REGISTRIES};
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::Service;
use model::{Namespace, Object, ObjectName};
use proto_istio::SharedMap;
use store::{ObjectIndex, Reads, Snapshot};

/// What a host leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Destination {
    /// Its ports; `None` where what is read does not say them.
    pub(crate) ports: Option<Vec<u32>>,
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
    stated(cx, namespace, export_to, host).or_else(|| {
        let (_, entry) = wildcard(cx, namespace, host)?;
        Some(of_entry(&entry))
    })
}

/// As [`find`], where the host is stated as it is, and not covered by the wildcard of a ServiceEntry alone.
fn stated(
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
    None
}

/// The wildcard of a ServiceEntry that alone covers a host, as far as the hosts below it are known.
pub(crate) fn only_below(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    export_to: &[String],
    host: &str,
) -> Option<String> {
    if host.starts_with('*') || stated(cx, namespace, export_to, host).is_some() {
        return None;
    }
    let (wildcard, entry) = wildcard(cx, namespace, host)?;
    // Below that of a registry which is not asked here each host may be there.
    of_entry(&entry).ports.is_some().then_some(wildcard)
}

/// Whether a host with a wildcard covers any Service, or any host of a ServiceEntry.
pub(crate) fn covers_any(cx: &Cx<'_, Snapshot>, wildcard: &str) -> bool {
    let domain = &cx.settings().domain;
    let is_covered = |host: &str| model::host::matches(host, wildcard);
    let services = cx.names::<Service>();
    let mut services = services.iter();
    services.any(|s| is_covered(&format!("{}.{}.svc.{domain}", s.name, s.namespace)))
        || cx.list::<ServiceEntry>().iter().any(|entry| {
            let mut hosts = entry.spec.hosts.iter();
            hosts.any(|host| is_covered(host))
        })
}

fn in_scope(cx: &Cx<'_, Snapshot>, scope: &str, name: &str, domain: &str) -> Option<Destination> {
    let service = service_of(name, domain);
    if let Some(service) = &service
        && let Some(object) = cx.get::<Service>(service)
        && service_scopes(&object).iter().any(|s| s == scope)
    {
        return Some(of_service(&object));
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

/// The ports of a Service. Those of one of the type ExternalName are the ports of the host that it is an alias of.
pub(crate) fn ports_of(service: &Object<Service>) -> Option<Vec<u32>> {
    let ports = service.spec.ports.iter();
    (!is_alias(service)).then(|| ports.filter_map(|p| u32::try_from(p.port).ok()).collect())
}

fn is_alias(service: &Object<Service>) -> bool {
    &*service.spec.service_type == "ExternalName"
}

/// How many Services of the type ExternalName may lead from one to the next.
const MOST_ALIASES: usize = 8;

/// The host that a Service of the type ExternalName leads to, where neither a Service nor a ServiceEntry that the namespace sees
/// has it: no proxy knows where it is.
pub(crate) fn unknown_alias(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    service: &Object<Service>,
) -> Option<Arc<str>> {
    let (host, found) = aliased(cx, namespace, service)?;
    found.is_none().then_some(host)
}

/// The host that a Service of the type ExternalName leads to, and its ports, where the port is none of them.
pub(crate) fn alias_lacks(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    service: &Object<Service>,
    port: u32,
) -> Option<(Arc<str>, Vec<u32>)> {
    let (host, found) = aliased(cx, namespace, service)?;
    let ports = found?.ports?;
    (!ports.contains(&port)).then_some((host, ports))
}

/// The host that a Service of the type ExternalName leads to in the end, and what a namespace sees there.
fn aliased(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    service: &Object<Service>,
) -> Option<(Arc<str>, Option<Destination>)> {
    let domain = cx.settings().domain.clone();
    let mut host = is_alias(service).then(|| service.spec.external_name.clone())?;
    for _ in 0..MOST_ALIASES {
        let name = service_of(&host, &domain);
        match name.and_then(|name| cx.get::<Service>(&name)) {
            Some(next) if is_alias(&next) => host = next.spec.external_name.clone(),
            Some(last) => return Some((host, Some(of_service(&last)))),
            None => {
                let mut scopes = ["*", namespace.as_str()].into_iter();
                let found = scopes.find_map(|scope| in_scope(cx, scope, &host, &domain));
                return Some((host, found));
            }
        }
    }
    None
}

fn of_service(service: &Object<Service>) -> Destination {
    Destination {
        ports: ports_of(service),
        selector: BTreeMap::new(),
        endpoints: Vec::new(),
    }
}

/// The type of registry whose services have hosts like this one.
pub(crate) fn registry_of(host: &str) -> Option<&str> {
    let (_, suffix) = host.rsplit_once('.')?;
    REGISTRIES.contains(&suffix).then_some(suffix)
}

/// Whether an McpBridge of the namespace of Ingresses names a registry of a type.
pub(crate) fn names_registry(cx: &Cx<'_, Snapshot>, of_type: &str) -> bool {
    let bridges = cx.list_in::<McpBridge>(&cx.settings().features.edge_namespace);
    let mut registries = bridges.iter().flat_map(|bridge| &bridge.spec.registries);
    registries.any(|registry| registry.suffix() == of_type)
}

/// The ServiceEntry whose wildcard covers the host, for the namespace or for all, and the wildcard.
fn wildcard(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    host: &str,
) -> Option<(String, Arc<Object<ServiceEntry>>)> {
    let bare = host.strip_prefix('*').unwrap_or(host);
    let suffixes = bare
        .match_indices('.')
        .map(|(at, _)| format!("*{}", &bare[at..]))
        .chain(["*".to_owned()]);
    for wildcard in suffixes {
        for entry in cx.list_by::<ServiceEntry>(ObjectIndex::Host, &wildcard.to_ascii_lowercase()) {
            let domain = &cx.settings().domain;
            let is_seen = {
                let scopes = entry_scopes(&entry, &wildcard, domain);
                scopes.contains(&"*") || scopes.contains(&namespace.as_str())
            };
            if is_seen {
                return Some((wildcard, entry));
            }
        }
    }
    None
}

fn of_entry(entry: &Object<ServiceEntry>) -> Destination {
    let selector = entry.spec.workload_selector.as_ref();
    let ports: Vec<u32> = entry.spec.ports.iter().map(|p| p.number).collect();
    Destination {
        ports: (!ports.is_empty()).then_some(ports),
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
