//! What has to be done outside before proxies get all that is theirs. What comes of it is a row of the snapshot.

use std::sync::Arc;

use incr::{Cx, Query};
use model::access::AccessKey;
use store::Snapshot;

use crate::hashed::Hashed;
use crate::secrets::SecretsOf;

/// What proxies want that agree in what decides their secrets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WantsOfView {
    pub(crate) secrets: Hashed<SecretsOf>,
}

/// What is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wants {
    /// The API of their cluster is to be asked whether they may read Secrets.
    pub review: Option<AccessKey>,
    /// A certificate is to be made for their identity (`spiffe://...`).
    pub certificate: Option<Arc<str>>,
}

impl Query<Snapshot> for WantsOfView {
    type Value = Wants;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Wants {
        Wants {
            review: self.secrets.wanted_review(cx),
            certificate: self.secrets.own().cloned(),
        }
    }
}
