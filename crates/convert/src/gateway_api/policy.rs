//! How backends are spoken to: BackendTLSPolicy, XBackendTrafficPolicy and XBackend.

use model::{ObjectKey, ObjectName};

use crate::outcome::Outcome;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The DestinationRule of a backend that policies are about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RuleOfTarget(pub ObjectKey);

impl Derive for RuleOfTarget {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let _ = read;
        Outcome::default()
    }
}

/// The DestinationRule of an XBackend.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RuleOfXBackend(pub ObjectName);

impl Derive for RuleOfXBackend {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let _ = read;
        Outcome::default()
    }
}
