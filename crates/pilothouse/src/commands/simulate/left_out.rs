//! Endpoints that clusters lack because they are on the machine of each proxy.

use std::collections::BTreeMap;

use mesh::machine;
use mesh::services::name_of;
use model::{AnyObject, Diagnostic, Kind, Labels, Namespace, ObjectName};
use simulate::{End, Walk};
use store::Snapshot;

/// The label by which an EndpointSlice names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What is left out of the clusters that a walk ends at, by the names of these: a sentence for each object.
pub(super) fn of(walk: &Walk, snapshot: &Snapshot) -> BTreeMap<String, Vec<String>> {
    let End::Clusters(all) = &walk.end else {
        return BTreeMap::new();
    };
    let of_each = all.iter().filter_map(|destination| {
        let (_, host) = destination.cluster.rsplit_once('|')?;
        let found = of_host(host, snapshot).into_iter();
        let sentences = found.map(|found| sentence(&snapshot.placed(found)));
        Some((destination.cluster.clone(), sentences.collect()))
    });
    of_each.collect()
}

fn sentence(found: &Diagnostic) -> String {
    let object = found.object.as_ref().map(ToString::to_string);
    let object = object.unwrap_or_default();
    let at = found.origin.as_ref().map(|origin| format!(" at {origin}"));
    let at = at.unwrap_or_default();
    let field = match &*found.path {
        "" => String::new(),
        path => format!("{path} of "),
    };
    format!("{field}{object}{at}: {}", found.message)
}

/// What objects that a service has its endpoints from leave out.
fn of_host(host: &str, snapshot: &Snapshot) -> Vec<Diagnostic> {
    let features = &snapshot.settings.features;
    let service = name_of(host, &snapshot.settings.domain);
    let mut sources: Vec<AnyObject> = Vec::new();
    let mut selectors: Vec<(Namespace, Labels)> = Vec::new();
    for object in snapshot.tables.iter_any(Kind::ServiceEntry) {
        let AnyObject::ServiceEntry(entry) = &object else {
            continue;
        };
        let mut hosts = entry.spec.hosts.iter();
        if hosts.any(|stated| stated.eq_ignore_ascii_case(host)) {
            if let Some(selector) = &entry.spec.workload_selector {
                let pairs = selector.labels.iter();
                let labels = pairs.map(|(key, value)| (key.as_str(), value.as_str()));
                selectors.push((entry.namespace().clone(), labels.collect()));
            }
            sources.push(object);
        }
    }
    let of_cluster = service.as_ref();
    let of_cluster = of_cluster.and_then(|name| snapshot.tables.get_any(Kind::Service, name));
    if let Some(AnyObject::Service(service)) = of_cluster
        && !service.spec.selector.is_empty()
    {
        let labels = service.spec.selector.clone();
        selectors.push((service.namespace().clone(), labels));
    }
    let workloads = snapshot.tables.iter_any(Kind::WorkloadEntry);
    sources.extend(workloads.filter(|object| is_chosen(object, &selectors)));
    let slices = snapshot.tables.iter_any(Kind::EndpointSlice);
    sources.extend(slices.filter(|object| is_slice_of(object, service.as_ref())));
    let found = sources.iter();
    found
        .filter_map(|object| machine::of_object(features, object))
        .collect()
}

/// Whether one of the selectors chooses a WorkloadEntry, by its labels or those of its spec.
fn is_chosen(object: &AnyObject, selectors: &[(Namespace, Labels)]) -> bool {
    let AnyObject::WorkloadEntry(entry) = object else {
        return false;
    };
    let of_object = entry
        .meta
        .labels
        .iter()
        .map(|(key, value)| (&**key, &**value));
    let of_spec = entry.spec.labels.iter();
    let of_spec = of_spec.map(|(key, value)| (key.as_str(), value.as_str()));
    let labels: Labels = of_object.chain(of_spec).collect();
    let mut selectors = selectors.iter();
    selectors
        .any(|(namespace, selector)| namespace == entry.namespace() && labels.matches(selector))
}

fn is_slice_of(object: &AnyObject, service: Option<&ObjectName>) -> bool {
    let (AnyObject::EndpointSlice(slice), Some(service)) = (object, service) else {
        return false;
    };
    let named = slice.meta.labels.get(SERVICE_NAME);
    *slice.namespace() == service.namespace && named.is_some_and(|name| *name == *service.name)
}
