//! The identities of services whose endpoints have gone. They are remembered while the service is there: one that has an endpoint
//! now and then, as while its only Pod is replaced, changes endpoints of proxies and not their clusters.
//!
//! What was is no function of what is, so it is an input ([`Change::Identities`]): who applies batches asks after each what to
//! remember, and applies that as part of it.
//!
//! Istio: pilot/pkg/model/endpointshards.go deleteServiceInner, which keeps the keys, 1.32.

use std::collections::BTreeSet;

use incr::Engine;
use model::change::{Change, ServiceKey};
use model::kinds::Kind;
use model::kinds::istio::WorkloadEntry;
use model::kinds::kube::Pod;
use model::object::{ObjectKey, ObjectName};
use store::index::IndexEntry;
use store::snapshot::Stored;
use store::{ChangeSet, ObjectIndex, Snapshot};

use super::accounts::AccountsOfEndpoints;
use super::kube::{host_of, name_of};
use super::mcs;

/// The label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What is to be remembered from before a batch, or forgotten, of the services whose endpoints it may have taken away. `engine` is
/// still that of the state before.
///
/// # Panics
///
/// When an evaluation panics.
pub fn to_remember(
    engine: &Engine<Snapshot>,
    before: &Snapshot,
    after: &Snapshot,
    changed: &ChangeSet,
) -> Vec<Change> {
    let mut services = BTreeSet::new();
    for key in &changed.objects {
        concerned(before, key, &mut services);
    }
    let told = changed.shards.iter();
    services.extend(
        told.filter(|told| before.shards.contains_key(*told))
            .cloned(),
    );
    let changes = services.into_iter().filter_map(|service| {
        let had = is_there(after, &service)
            .then(|| engine.get(before, &AccountsOfEndpoints(service.clone())))
            .map(|had| (*had).clone())
            .filter(|had| !had.is_empty());
        let is_known = after.identities.get(&service) == had.as_ref();
        (!is_known).then_some(Change::Identities(service, had))
    });
    changes.collect()
}

/// The services that may have had endpoints because of an object.
fn concerned(before: &Snapshot, key: &ObjectKey, services: &mut BTreeSet<ServiceKey>) {
    let name = &key.name;
    match key.kind {
        Kind::Service => {
            if before.tables.kube_services.get(name).is_some() {
                of_service(before, name, services);
            }
        }
        Kind::ServiceEntry => of_entry(before, name, services),
        Kind::EndpointSlice => {
            let slice = before.tables.endpoint_slices.get(name);
            let service = slice.and_then(|slice| slice.meta.labels.get(SERVICE_NAME));
            if let Some(service) = service {
                let service = ObjectName::new(name.namespace.clone(), service);
                of_service(before, &service, services);
            }
        }
        Kind::Pod => of_workload::<Pod>(before, name, services),
        Kind::WorkloadEntry => of_workload::<WorkloadEntry>(before, name, services),
        _ => {}
    }
}

/// What a Service stands for: a service, and a second one where clusters import it.
fn of_service(before: &Snapshot, name: &ObjectName, services: &mut BTreeSet<ServiceKey>) {
    let settings = &before.settings;
    let imported = settings.features.mcs_host.then(|| mcs::imported_host(name));
    let hosts = imported
        .into_iter()
        .chain([host_of(name, &settings.domain)]);
    services.extend(hosts.map(|host| ServiceKey {
        namespace: name.namespace.clone(),
        host,
    }));
}

/// The services of a ServiceEntry.
fn of_entry(before: &Snapshot, name: &ObjectName, services: &mut BTreeSet<ServiceKey>) {
    let Some(entry) = before.tables.service_entries.get(name) else {
        return;
    };
    services.extend(entry.spec.hosts.iter().map(|host| ServiceKey {
        namespace: name.namespace.clone(),
        host: host.as_str().into(),
    }));
}

/// The services that may select a workload.
fn of_workload<T: Stored>(
    before: &Snapshot,
    name: &ObjectName,
    services: &mut BTreeSet<ServiceKey>,
) {
    let Some(workload) = T::table(&before.tables).get(name) else {
        return;
    };
    let mut pairs: Vec<IndexEntry> = Vec::new();
    T::index(workload, &mut |index, value| {
        if index == ObjectIndex::Label {
            pairs.push(IndexEntry {
                index: ObjectIndex::Selector,
                value: value.into(),
            });
        }
    });
    for pair in &pairs {
        for name in before.tables.kube_services.by_index(pair) {
            of_service(before, name, services);
        }
        for name in before.tables.service_entries.by_index(pair) {
            of_entry(before, name, services);
        }
    }
}

/// Whether anything still says that there is a service.
fn is_there(after: &Snapshot, service: &ServiceKey) -> bool {
    let tables = &after.tables;
    let domains = [&*after.settings.domain, mcs::DOMAIN];
    let mut named = domains
        .into_iter()
        .filter_map(|domain| name_of(&service.host, domain))
        .filter(|name| name.namespace == service.namespace);
    let declares = IndexEntry {
        index: ObjectIndex::Host,
        value: service.host.to_ascii_lowercase().into(),
    };
    let mut entries = tables.service_entries.by_index(&declares);
    after.shards.contains_key(service)
        || entries.any(|name| name.namespace == service.namespace)
        || named.any(|name| tables.kube_services.namesakes(&name).next().is_some())
}
