//! What has to be done outside before proxies get all that is theirs. What comes of it is a row of the snapshot.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::access::AccessKey;
use model::module::ModuleDemand;
use store::Snapshot;

use crate::ecds::ExtensionConfigsOf;
use crate::hashed::Hashed;
use crate::secrets::SecretsOf;

/// What proxies want that agree in what decides what they ask for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum WantsOfView {
    /// Those that ask for secrets.
    Secrets(Hashed<SecretsOf>),
    /// Those that ask for configurations of extensions.
    Extensions(Hashed<ExtensionConfigsOf>),
}

/// What is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wants {
    /// The API of their cluster is to be asked whether they may read Secrets.
    pub review: Option<AccessKey>,
    /// A certificate is to be made for their identity (`spiffe://...`).
    pub certificate: Option<Arc<str>>,
    /// Wasm modules are to be fetched.
    pub modules: BTreeSet<ModuleDemand>,
}

impl Query<Snapshot> for WantsOfView {
    type Value = Wants;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Wants {
        match self {
            Self::Secrets(secrets) => Wants {
                review: secrets.wanted_review(cx),
                certificate: secrets.own().cloned(),
                ..Wants::default()
            },
            Self::Extensions(extensions) => Wants {
                modules: extensions.wanted(cx),
                ..Wants::default()
            },
        }
    }
}
