//! Who is over the budget of a namespace, as [`model::budget`] says.

use std::collections::BTreeSet;
use std::fmt::Debug;

use model::budget::{Charged, over};
use model::{Age, Diagnostic, ObjectKey, ObjectName, Severity};

use crate::outcome::{code, finding};
use crate::reader::Reader;

/// What an object is charged, and when it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Charge {
    pub(crate) created: Age,
    pub(crate) bytes: usize,
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
        "what the objects of kind {} in the namespace {} make together, the oldest first, is beyond its budget",
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
    .help("shorten the lists that multiply each other, or raise PILOTHOUSE_NAMESPACE_BUDGET")
}
