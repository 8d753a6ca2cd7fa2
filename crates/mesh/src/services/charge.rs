//! What ServiceEntries, Services and EndpointSlices are charged to the budget of their namespace.

use incr::{Cx, Query};
use model::budget::{may_pay, of_entry, of_service, of_slice};
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::{EndpointSlice, Service};
use model::names::Namespace;
use model::object::{Object, ObjectName};
use model::service::Resolution;
use store::index::ObjectIndex;
use store::{Reads, Snapshot};

use super::endpoints::endpoints_of_entry;
use super::kube::resolution;
use super::workload::most_entries;
use crate::budget::{Charge, Names, outside};

/// The ServiceEntries of a namespace that are over its budget: they have no services.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct EntriesOver(Namespace);

impl Query<Snapshot> for EntriesOver {
    type Value = Names;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Names {
        let names = match cx.is_crowded::<ServiceEntry>(&self.0) {
            true => cx.names_in::<ServiceEntry>(&self.0),
            false => cx.names_by::<ServiceEntry>(ObjectIndex::Charged, &self.0),
        };
        let names = names.into_iter();
        let charges = names.map(|name| (*cx.query(&EntryCharge(name.clone())), name));
        outside(cx, charges, |_| 0)
    }
}

/// What a ServiceEntry is charged.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct EntryCharge(ObjectName);

impl Query<Snapshot> for EntryCharge {
    type Value = Charge;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Charge {
        let Some(entry) = cx.get::<ServiceEntry>(&self.0) else {
            return Charge::default();
        };
        let crowded = cx.is_crowded::<ServiceEntry>(entry.namespace());
        let bytes = of_entry(&entry.spec, endpoints_of_entry(cx, &entry), crowded);
        Charge::of(&entry, bytes)
    }
}

/// Whether a ServiceEntry is over the budget. Whoever is charged nothing asks nobody.
pub fn entry_is_over(cx: &Cx<'_, Snapshot>, entry: &Object<ServiceEntry>) -> bool {
    let (namespace, name) = (entry.namespace(), &entry.meta.name);
    (may_pay(&entry.spec) || cx.is_crowded::<ServiceEntry>(namespace))
        && cx.query(&EntryCharge(name.clone())).bytes > 0
        && cx.query(&EntriesOver(namespace.clone())).contains(name)
}

/// The Services of a namespace that are over its budget: they are not there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServicesOver(pub Namespace);

impl Query<Snapshot> for ServicesOver {
    type Value = Names;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Names {
        if cx.is_crowded::<Service>(&self.0) {
            // Each is charged: to look at all of them costs less than to remember what each is charged.
            let all = cx.list_in::<Service>(&self.0);
            let charges = all.iter().map(|service| {
                let bytes = bytes_of_service(cx, service, true);
                (Charge::of(service, bytes), service.meta.name.clone())
            });
            return outside(cx, charges, |_| 0);
        }
        let names = cx.names_in::<Service>(&self.0).into_iter();
        let charges = names.map(|name| (*cx.query(&ServiceCharge(name.clone())), name));
        outside(cx, charges, |_| 0)
    }
}

/// The Services of a namespace for which a crowd of them leaves no room. Who looks at all Services passes these over, so that
/// nothing is remembered of each.
pub(super) fn crowded_out(cx: &Cx<'_, Snapshot>, namespace: &Namespace) -> Names {
    match cx.is_crowded::<Service>(namespace) {
        true => (*cx.query(&ServicesOver(namespace.clone()))).clone(),
        false => Names::default(),
    }
}

/// What a Service is charged where there are not very many: its ports, and the WorkloadEntries that it selects, once for each port.
/// What EndpointSlices list for it is charged to these.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ServiceCharge(ObjectName);

impl Query<Snapshot> for ServiceCharge {
    type Value = Charge;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Charge {
        match cx.get::<Service>(&self.0) {
            Some(service) => Charge::of(&service, bytes_of_service(cx, &service, false)),
            None => Charge::default(),
        }
    }
}

fn bytes_of_service(cx: &Cx<'_, Snapshot>, service: &Object<Service>, crowded: bool) -> usize {
    let spec = &service.spec;
    let selects = !spec.selector.is_empty() && resolution(spec) == Resolution::ClientSide;
    let selected = match selects {
        true => most_entries(cx, service.namespace(), &spec.selector),
        false => 0,
    };
    of_service(spec.ports.len(), selected, crowded)
}

/// Whether a Service is over the budget. Whoever is charged nothing asks nobody.
pub(super) fn service_is_over(cx: &Cx<'_, Snapshot>, service: &Object<Service>) -> bool {
    let crowded = cx.is_crowded::<Service>(service.namespace());
    bytes_of_service(cx, service, crowded) > 0
        && *cx.query(&ServiceIsOver(service.meta.name.clone()))
}

/// Whether a Service is among those that are over the budget. Of very many others some come and go all the time, which is nothing to
/// it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ServiceIsOver(ObjectName);

impl Query<Snapshot> for ServiceIsOver {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        cx.query(&ServicesOver(self.0.namespace.clone()))
            .contains(&self.0)
    }
}

/// The EndpointSlices of a namespace that are over its budget: their endpoints are left out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SlicesOver(pub Namespace);

impl Query<Snapshot> for SlicesOver {
    type Value = Names;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Names {
        let names = cx.names_in::<EndpointSlice>(&self.0).into_iter();
        let charges = names.map(|name| (*cx.query(&SliceCharge(name.clone())), name));
        outside(cx, charges, |_| 0)
    }
}

/// What an EndpointSlice is charged.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SliceCharge(ObjectName);

impl Query<Snapshot> for SliceCharge {
    type Value = Charge;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Charge {
        match cx.get::<EndpointSlice>(&self.0) {
            Some(slice) => Charge::of(&slice, bytes_of_slice(&slice)),
            None => Charge::default(),
        }
    }
}

fn bytes_of_slice(slice: &Object<EndpointSlice>) -> usize {
    let endpoints = slice.spec.endpoints.iter();
    let addresses = endpoints.map(|endpoint| endpoint.addresses.len()).sum();
    of_slice(addresses, slice.spec.ports.len())
}

/// Whether an EndpointSlice is over the budget. Whoever is charged nothing asks nobody.
pub(super) fn slice_is_over(cx: &Cx<'_, Snapshot>, slice: &Object<EndpointSlice>) -> bool {
    bytes_of_slice(slice) > 0
        && cx
            .query(&SlicesOver(slice.namespace().clone()))
            .contains(&slice.meta.name)
}
