//! Who is over the budget of a namespace, as [`model::budget`] says.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::marker::PhantomData;

use model::budget::{Charged, over};
use model::{Age, Diagnostic, Namespace, ObjectKey, ObjectName, Severity};

use crate::outcome::{code, finding};
use crate::reader::{Derive, Reader};
use crate::strata::{Layered, Routes, Written};

/// What an object is charged, and when it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Charge {
    pub(crate) created: Age,
    pub(crate) bytes: usize,
}

/// What an object of one kind is charged; nothing where it is not served.
pub(crate) trait Charging: Derive<Stratum = Routes, Value = Charge> {
    /// The kind, by its spec.
    type Spec: Layered<MadeIn = Written>;

    /// What the object of that name is charged.
    fn of(object: ObjectName) -> Self;
}

/// Whether nothing of the namespace's budget is left for an object. Who pays nothing does not depend on what others pay.
pub(crate) fn is_over<C: Charging>(read: &Reader<'_, '_, Routes>, object: &ObjectName) -> bool {
    let over = || {
        read.derived(Over::<C> {
            namespace: object.namespace.clone(),
            charging: PhantomData,
        })
    };
    read.derived(C::of(object.clone())).bytes > 0 && over().contains(object)
}

/// The objects of one kind in a namespace that are over its budget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Over<C> {
    namespace: Namespace,
    charging: PhantomData<C>,
}

impl<C: Charging> Derive for Over<C> {
    type Stratum = Routes;
    type Value = BTreeSet<ObjectName>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let names = read.names_in::<C::Spec>(&self.namespace).into_iter();
        let charges = names.map(|name| (name.clone(), *read.derived(C::of(name))));
        outside(read, charges)
    }
}

/// Those of the objects of a namespace that are over its budget.
pub(crate) fn outside<S: Debug + Send + Sync + 'static>(
    read: &Reader<'_, '_, S>,
    charges: impl Iterator<Item = (ObjectName, Charge)>,
) -> BTreeSet<ObjectName> {
    let budget = read.settings().features.namespace_budget.bytes();
    let charged = charges.filter(|(_, charge)| charge.bytes > 0);
    let charged = charged.map(|(name, Charge { created, bytes })| Charged {
        created,
        name,
        bytes,
    });
    over(budget, charged.collect(), |_| 0)
}

/// Why an object is not served.
pub(crate) fn reason(object: &ObjectKey) -> String {
    format!(
        "the objects of kind {} in the namespace {} together exceed its budget, and those that come before it have used it up",
        object.kind.name(),
        object.name.namespace
    )
}

/// The finding that an object is not served.
pub(crate) fn finding_of(object: &ObjectKey, at: &str) -> Diagnostic {
    let message = format!("is not served: {}", reason(object));
    finding(
        object,
        code::OVER_BUDGET,
        Severity::Error,
        at.to_owned(),
        message,
    )
    .help("make lists of the object or of those before it shorter, delete some, or raise PILOTHOUSE_NAMESPACE_BUDGET")
}
