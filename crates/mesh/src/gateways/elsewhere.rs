//! What of a rule is about hosts of others, where `--owned-hosts` gives these owners, for who applies the rule elsewhere: no proxy is
//! known there.
//!
//! Which Gateways share a proxy is for proxies to say. Here those do whose selectors do not contradict each other, and of those that
//! name services those that name one together, so that more is others' than at the proxies of this mesh, seldom less. What a rule
//! says to sidecars is seen as from the root namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::Gateway;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use store::{Reads, Snapshot};

use super::owned::Owners;
use super::select::AllGateways;
use crate::virtual_service::{ForeignInMesh, HeadOf};

/// The oldest claims to the hosts of all Gateways that may select what a Gateway selects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OwnersBeside {
    /// The labels by which it selects.
    selector: BTreeMap<String, String>,
    /// The services that it names instead.
    services: Option<Arc<[Arc<str>]>>,
    /// Its namespace, where Gateways select in their own alone.
    namespace: Option<Namespace>,
}

impl OwnersBeside {
    fn of(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>) -> Self {
        let is_scoped = cx.settings().features.scope_gateway_to_namespace;
        Self {
            selector: gateway.spec.selector.clone(),
            services: services(gateway).cloned(),
            namespace: is_scoped.then(|| gateway.namespace().clone()),
        }
    }

    /// Whether another Gateway may select one of the same proxies.
    fn may_share(&self, other: &Object<Gateway>) -> bool {
        let namespace = self.namespace.as_ref();
        if namespace.is_some_and(|namespace| namespace != other.namespace()) {
            return false;
        }
        match (&self.services, services(other)) {
            (None, None) => other.spec.selector.iter().all(|(key, value)| {
                let own = self.selector.get(key);
                own.is_none_or(|own| own == value)
            }),
            (Some(one), Some(other)) => one.iter().any(|host| other.contains(host)),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

/// The services that a Gateway of the Gateway API names, through which its proxies are reached.
fn services(gateway: &Object<Gateway>) -> Option<&Arc<[Arc<str>]>> {
    gateway.meta.gateway_api()?.services.as_ref()
}

impl Query<Snapshot> for OwnersBeside {
    type Value = Arc<Owners>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut owners = Owners::default();
        let all = cx.query(&AllGateways);
        for gateway in all.0.iter().filter(|other| self.may_share(other)) {
            owners.take_in(cx, gateway, gateway.namespace());
        }
        Arc::new(owners)
    }
}

/// The hosts of a rule that are others', as its head states them, and the names of others for which it takes connections.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HostsOfOthers(pub ObjectName);

impl Query<Snapshot> for HostsOfOthers {
    type Value = Arc<BTreeSet<Arc<str>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        if !cx.settings().features.owned_hosts {
            return Arc::default();
        }
        let Some(head) = (*cx.query(&HeadOf(self.0.clone()))).clone() else {
            return Arc::default();
        };
        let in_mesh = cx.query(&ForeignInMesh);
        let in_mesh = in_mesh.get(&self.0).into_iter().flatten();
        let mut found: BTreeSet<Arc<str>> = in_mesh
            .filter_map(|(at, _)| head.hosts.get(*at).cloned())
            .collect();
        for gateway in head.gateways.iter() {
            let name = gateway.split_once('/');
            let name = name.map(|(namespace, name)| ObjectName::new(namespace, name));
            let Some(gateway) = name.and_then(|name| cx.get::<Gateway>(&name)) else {
                continue;
            };
            let owners = cx.query(&OwnersBeside::of(cx, &gateway));
            found.extend(owners.refused(cx, &gateway, &head));
        }
        Arc::new(found)
    }
}
