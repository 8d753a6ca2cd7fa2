//! What is reported about listeners, in the statuses of Gateways and ListenerSets alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Kind, ObjectKey};
use serde_json::{Value, json};
use store::index::{ObjectIndex, reference_value};

use crate::gateway_api::attachment::AttachmentsOf;
use crate::gateway_api::listener::Served;
use crate::gateway_api::route::of_any_kind_by;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// How many routes of all kinds are attached to each listener of a Gateway or ListenerSet, by its name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct AttachedTo(pub(super) ObjectKey);

impl Derive for AttachedTo {
    type Stratum = Routes;
    type Value = BTreeMap<Arc<str>, u32>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let mut counts = BTreeMap::new();
        for route in of_any_kind_by(read, ObjectIndex::Parent, &reference_value(&self.0)) {
            let attachments = read.derived(AttachmentsOf(route));
            let here = attachments
                .iter()
                .filter(|at| at.parent == self.0 && at.refused.is_none());
            // A route that names a listener twice is one route.
            let sections: BTreeSet<&Arc<str>> = here
                .filter_map(|at| Some(&at.listener.as_ref()?.section))
                .collect();
            for section in sections {
                *counts.entry(section.clone()).or_default() += 1;
            }
        }
        counts
    }
}

/// The list `listeners` of a status.
pub(super) fn listeners(
    served: &Served,
    attached: &BTreeMap<Arc<str>, u32>,
    generation: i64,
) -> Value {
    let listeners = served.listeners.iter().map(|built| {
        let section = &built.listener.section;
        let kinds = built.listener.kinds.iter().map(|kind| kind_value(*kind));
        json!({
            "name": section,
            "attachedRoutes": attached.get(section).copied().unwrap_or_default(),
            "supportedKinds": kinds.collect::<Vec<_>>(),
            "conditions": built.conditions.list(generation),
        })
    });
    listeners.collect()
}

fn kind_value(kind: Kind) -> Value {
    json!({ "group": kind.group(), "kind": kind.name() })
}
