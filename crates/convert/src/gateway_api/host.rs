//! The routes of one host of one parent, merged of all HTTPRoutes and GRPCRoutes that attach there.

use std::sync::Arc;

use model::{Namespace, ObjectKey};

use crate::outcome::Outcome;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The VirtualServices of a host of a Gateway or ListenerSet, one for each listener that serves it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HostOfParent(pub ObjectKey, pub Arc<str>);

impl Derive for HostOfParent {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let _ = read;
        Outcome::default()
    }
}

/// The VirtualServices of a service of the mesh, by the routes of one namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HostOfMesh {
    /// The namespace of the routes.
    pub namespace: Namespace,
    /// The Service or ServiceEntry.
    pub parent: ObjectKey,
    /// One port of it; all where absent.
    pub port: Option<u16>,
}

impl Derive for HostOfMesh {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let _ = read;
        Outcome::default()
    }
}
