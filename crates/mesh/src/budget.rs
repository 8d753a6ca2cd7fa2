//! Which objects are over the budget of their namespace, as [`model::budget`] says. What an object is charged is said where it is
//! read: rules, settings and entries.
//!
//! A charge is about the bytes of what is made of an object, by its own lists and by those of others that it names. It is
//! reckoned before anything is made. Objects that were derived from others are charged where they are derived.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use model::age::Age;
use model::budget::{Charged, over};
use model::object::{Object, ObjectName};
use store::{Reads, Snapshot};

/// Names of objects.
pub type Names = Arc<BTreeSet<ObjectName>>;

/// What an object is charged, and when it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charge {
    /// When it was made.
    pub created: Age,
    /// What it is charged.
    pub bytes: usize,
    /// More is charged once this much is paid: what merging delegates makes, which itself costs something.
    pub merges: bool,
}

impl Charge {
    /// Of an object that is charged nothing nothing is known, so that nobody looks again when it changes.
    pub fn of<T>(object: &Object<T>, bytes: usize) -> Self
    where
        T: model::Kinded,
    {
        match bytes {
            0 => Self::default(),
            _ => Self {
                created: object.meta.created,
                bytes,
                merges: false,
            },
        }
    }
}

/// Those of the objects of a namespace that are over its budget; `merged` says what is charged for what is merged.
pub fn outside(
    cx: &Cx<'_, Snapshot>,
    charges: impl Iterator<Item = (Charge, ObjectName)>,
    merged: impl Fn(&ObjectName) -> usize,
) -> Names {
    let budget = cx.settings().features.namespace_budget.bytes();
    let mut merging = BTreeSet::new();
    let charged = charges.filter(|(charge, _)| charge.bytes > 0);
    let charged = charged.map(|(charge, name)| {
        if charge.merges {
            merging.insert(name.clone());
        }
        Charged {
            created: charge.created,
            name,
            bytes: charge.bytes,
        }
    });
    let charged: Vec<Charged> = charged.collect();
    let more = |name: &ObjectName| match merging.contains(name) {
        true => merged(name),
        false => 0,
    };
    over(budget, charged, more).into()
}
