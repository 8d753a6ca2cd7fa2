//! TLSRoutes, TCPRoutes and UDPRoutes.

use model::ObjectKey;

use crate::outcome::Outcome;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The VirtualServices of a TLSRoute, TCPRoute or UDPRoute, one for each parent and host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StreamsOf(pub ObjectKey);

impl Derive for StreamsOf {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let _ = read;
        Outcome::default()
    }
}
