//! The endpoints that registries tell, by service and shard, and what an update of them means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::change::{Owner, ShardKey};
use model::service::{Endpoint, Health};

/// What an update of one shard asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShardUpdate {
    /// Nothing that a proxy could see.
    None,
    /// Endpoints only.
    Endpoints,
    /// The service is new here or its identities changed: clusters too.
    Service,
}

/// All shards of one service.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServiceShards {
    /// Endpoints by shard and by who tells of it: two sources that speak for one registry do not replace each other's.
    pub shards: BTreeMap<(ShardKey, Owner), Arc<[Endpoint]>>,
    /// The identities of all endpoints.
    pub service_accounts: BTreeSet<Arc<str>>,
}

impl ServiceShards {
    /// Takes what one shard knows; an empty list drops the shard and keeps the service. `None` where the service is not
    /// known and nothing is told of it.
    ///
    /// Istio: pilot/pkg/model/endpointshards.go UpdateServiceEndpoints, 1.32.
    pub fn update(
        before: Option<&ServiceShards>,
        shard: &(ShardKey, Owner),
        list: &Arc<[Endpoint]>,
        send_unhealthy: bool,
    ) -> (Option<ServiceShards>, ShardUpdate) {
        if list.is_empty() {
            let after = before.map(|before| {
                let mut after = before.clone();
                after.shards.remove(shard);
                after.count_accounts();
                after
            });
            return (after, ShardUpdate::Endpoints);
        }
        let mut after = before.cloned().unwrap_or_default();
        let old = after.shards.insert(shard.clone(), list.clone());
        let mut update = match (before, old) {
            (None, _) => ShardUpdate::Service,
            (Some(_), None) => ShardUpdate::Endpoints,
            (Some(_), Some(old)) => compare(&old, list, send_unhealthy),
        };
        let accounts = after.service_accounts.clone();
        after.count_accounts();
        if accounts != after.service_accounts {
            update = ShardUpdate::Service;
        }
        (Some(after), update)
    }

    /// Every endpoint, in the order of the shards.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.shards.values().flat_map(|list| list.iter())
    }

    fn count_accounts(&mut self) {
        self.service_accounts = self
            .endpoints()
            .map(|e| e.service_account.clone())
            .filter(|a| !a.is_empty())
            .collect();
    }
}

fn compare(old: &[Endpoint], new: &[Endpoint], send_unhealthy: bool) -> ShardUpdate {
    let before: BTreeSet<&Endpoint> = old.iter().collect();
    let after: BTreeSet<&Endpoint> = new.iter().collect();
    let gone = before.difference(&after).next().is_some();
    let visible = |e: &Endpoint| send_unhealthy || e.health != Health::Unhealthy;
    if gone || after.difference(&before).copied().any(visible) {
        ShardUpdate::Endpoints
    } else {
        ShardUpdate::None
    }
}
