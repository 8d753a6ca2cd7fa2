//! The identities that proxies accept from a service's endpoints.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::change::ServiceKey;
use model::spiffe::with_domains;
use store::{Reads, Snapshot};

use super::{EndpointsOf, OfHost};

/// The identities of a service, sorted: those of its endpoints and those stated on the service, each also in the
/// trust domains that are aliases of the mesh's own.
///
/// Istio: pilot/pkg/model/push_context.go addServiceAccounts, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AccountsOf(pub ServiceKey);

impl Query<Snapshot> for AccountsOf {
    type Value = Arc<[Arc<str>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<[Arc<str>]> {
        let of_endpoints = cx.query(&AccountsOfEndpoints(self.0.clone()));
        let mut accounts: BTreeSet<Arc<str>> = of_endpoints.iter().cloned().collect();
        let services = cx.query(&OfHost(self.0.host.clone()));
        if let Some(service) = services.iter().find(|s| s.namespace == self.0.namespace) {
            accounts.extend(service.service_accounts.iter().cloned());
        }
        let aliases = &cx.settings().mesh.trust_domain_aliases;
        with_domains(&accounts, aliases).into_iter().collect()
    }
}

/// The identities of a service's endpoints, sorted; while it has no endpoints, those that its last ones had
/// ([`to_remember`](super::to_remember)).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct AccountsOfEndpoints(pub(super) ServiceKey);

impl Query<Snapshot> for AccountsOfEndpoints {
    type Value = Arc<[Arc<str>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<[Arc<str>]> {
        let endpoints = cx.query(&EndpointsOf(self.0.clone()));
        if endpoints.is_empty() {
            return cx.identities(&self.0).unwrap_or_default();
        }
        let accounts = endpoints.iter().map(|e| e.service_account.clone());
        let accounts: BTreeSet<Arc<str>> = accounts.filter(|account| !account.is_empty()).collect();
        accounts.into_iter().collect()
    }
}
