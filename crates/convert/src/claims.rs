//! Which hosts an object claims, by its kind. Who owns them follows from that: [`crate::owner`].

use model::{Kind, ObjectKey};

use crate::owner::{Claims, ClaimsOf};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;
use crate::{edge, ingress, knative};

impl Derive for ClaimsOf {
    type Stratum = Routes;
    type Value = Option<Claims>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<Claims> {
        let ObjectKey { kind, name } = &self.0;
        match kind {
            Kind::KnativeIngress => knative::claims(read, name),
            _ => edge::claims(read, name).or_else(|| ingress::claims(read, name)),
        }
    }
}
