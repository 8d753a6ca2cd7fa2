//! What is told of objects of the Gateway API in their statuses.

use model::ObjectKey;
use serde_json::Value;

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The status of an object of the Gateway API: the fields that are ours; `None` where it is not for us to tell.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StatusOf(pub ObjectKey);

impl Derive for StatusOf {
    type Stratum = Routes;
    type Value = Option<Value>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let _ = read;
        None
    }
}
