//! Which Gateways select a proxy.
//!
//! Istio: pilot/pkg/model/push_context.go mergeGateways, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::Gateway;
use model::object::{Object, ObjectKey};
use model::{Kind, Namespace};
use store::{Reads, Snapshot};

use super::{GatewayKey, Instance};

/// A Gateway that selects a proxy.
pub(super) struct Selected {
    pub(super) gateway: Arc<Object<Gateway>>,
    /// How clients get to the proxy.
    pub(super) reached: Reached,
}

/// How clients get to the proxy of a Gateway.
pub(super) enum Reached {
    /// Through any service whose ports the proxy serves: the Gateway selects by labels.
    Anyhow(Vec<Instance>),
    /// Through the services that the Gateway names.
    Services(Vec<Instance>),
    /// At the ports of the Gateway, with that added to them.
    Directly(u16),
}

/// Every Gateway, oldest first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AllGateways;

/// Gateways as a value: equal where generation sees no difference.
struct Gateways(Vec<Arc<Object<Gateway>>>);

impl PartialEq for Gateways {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(a, b)| a.means_the_same(b))
    }
}

impl Query<Snapshot> for AllGateways {
    type Value = Gateways;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Gateways {
        let mut all = cx.list::<Gateway>();
        all.sort_by(|a, b| a.cmp_age(b).then_with(|| a.namespace().cmp(b.namespace())));
        Gateways(all)
    }
}

pub(super) fn select(cx: &Cx<'_, Snapshot>, key: &GatewayKey) -> Vec<Selected> {
    let features = &cx.settings().features;
    let all = cx.query(&AllGateways);
    let reachable = all
        .0
        .iter()
        .filter(|g| !features.scope_gateway_to_namespace || *g.namespace() == key.namespace);
    let selected = reachable.filter_map(|gateway| {
        let role = gateway.meta.gateway_api();
        if let Some((role, services)) = role.and_then(|r| Some((r, r.services.as_ref()?))) {
            let home = role.parent_namespace.as_ref();
            let home = home.unwrap_or(gateway.namespace());
            let reached = match runs(gateway, home, key) {
                Some(port_offset) => Reached::Directly(port_offset),
                None => {
                    let instances = reached_through(services, home, key);
                    (!instances.is_empty()).then_some(Reached::Services(instances))?
                }
            };
            return Some(Selected {
                gateway: gateway.clone(),
                reached,
            });
        }
        // Without selector it is for everyone.
        key.labels
            .matches_map(&gateway.spec.selector)
            .then(|| Selected {
                gateway: gateway.clone(),
                reached: Reached::Anyhow(key.instances.to_vec()),
            })
    });
    let selected = selected.collect();
    if features.strict_gateway_merging {
        keep_apart(selected)
    } else {
        selected
    }
}

/// What the proxy adds to the ports of a Gateway of the Gateway API, or of a ListenerSet of it, if it runs for that.
fn runs(gateway: &Object<Gateway>, home: &Namespace, key: &GatewayKey) -> Option<u16> {
    let runs = key.runs.as_ref().filter(|_| key.namespace == *home)?;
    let mut from = gateway.meta.derived.as_ref()?.from.iter();
    let is_for = |from: &ObjectKey| {
        from.kind == Kind::KubeGateway
            && from.name.namespace == *home
            && *from.name.name == *runs.gateway
    };
    from.any(is_for).then_some(runs.port_offset)
}

/// The proxy's instances of these services of a namespace.
fn reached_through(
    services: &[Arc<str>],
    namespace: &Namespace,
    key: &GatewayKey,
) -> Vec<Instance> {
    let named: BTreeSet<&str> = services.iter().map(|host| &**host).collect();
    let instances = key.instances.iter();
    instances
        .filter(|i| named.contains(&*i.host) && i.namespace == *namespace)
        .cloned()
        .collect()
}

/// Where a Gateway of the Gateway API runs the proxy, Gateways that users wrote in other namespaces stay out of it.
///
/// Istio: pilot/pkg/model/push_context.go filterStrictGatewayMerging, 1.32.
fn keep_apart(selected: Vec<Selected>) -> Vec<Selected> {
    let from_api = |s: &Selected| s.gateway.meta.gateway_api().is_some();
    let runs = |s: &Selected| {
        let role = s.gateway.meta.gateway_api();
        role.is_some_and(|role| role.service_account.is_some())
    };
    let managed: BTreeSet<_> = selected
        .iter()
        .filter(|s| runs(s))
        .map(|s| s.gateway.namespace().clone())
        .collect();
    let mut selected = selected;
    if !managed.is_empty() {
        selected.retain(|s| from_api(s) || managed.contains(s.gateway.namespace()));
    }
    selected
}
