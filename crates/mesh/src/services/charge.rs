//! What ServiceEntries are charged to the budget of their namespace.

use incr::{Cx, Query};
use model::budget::of_entry;
use model::kinds::istio::ServiceEntry;
use model::names::Namespace;
use model::object::Object;
use store::index::ObjectIndex;
use store::{Reads, Snapshot};

use super::endpoints::endpoints_of_entry;
use crate::budget::{Charge, Names, outside};

/// The ServiceEntries of a namespace that are over its budget: they have no services.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct EntriesOver(Namespace);

impl Query<Snapshot> for EntriesOver {
    type Value = Names;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Names {
        let entries = cx.list_by::<ServiceEntry>(ObjectIndex::Charged, &self.0);
        let charges = entries.into_iter().map(|entry| {
            let bytes = of_entry(&entry.spec, endpoints_of_entry(cx, &entry));
            (Charge::of(&entry, bytes), entry.meta.name.clone())
        });
        outside(cx, charges, |_| 0)
    }
}

/// Whether a ServiceEntry is over the budget. Whoever is charged nothing asks nobody.
pub fn entry_is_over(cx: &Cx<'_, Snapshot>, entry: &Object<ServiceEntry>) -> bool {
    of_entry(&entry.spec, 0) > 0
        && cx
            .query(&EntriesOver(entry.namespace().clone()))
            .contains(&entry.meta.name)
}
