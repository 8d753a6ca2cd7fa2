//! Virtual hosts with their routes, encoded: an edit of one rule's routes encodes the hosts that have them again, and none of the
//! thousands beside these.

use std::any::TypeId;
use std::sync::Arc;

use incr::{Changed, Cx, Query};
use model::diagnostic::Diagnostic;
use store::Snapshot;

use super::{GatewayConfigOf, GatewayHost, GatewayPlan, GatewayPlanOf};
use crate::routes::encode::{ConfigBytes, RouteList, Written};
use crate::routes::rule::RuleRoutes;

/// The encoded virtual hosts of a route configuration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct WrittenHostsOf(pub(super) GatewayConfigOf);

/// Virtual hosts, each as a field of a route configuration.
#[derive(Debug)]
pub(super) struct WrittenHosts {
    plan: Arc<GatewayPlan>,
    /// The routes of each host, as they stand in the plan.
    routes: Vec<Arc<[Arc<RouteList>]>>,
    hosts: Vec<Written>,
}

impl PartialEq for WrittenHosts {
    fn eq(&self, other: &Self) -> bool {
        self.hosts == other.hosts && self.plan.found == other.plan.found
    }
}

impl WrittenHosts {
    /// What of them was left out.
    pub(super) fn left_out(&self) -> &[Diagnostic] {
        &self.plan.found
    }

    /// The hosts in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Written> {
        self.hosts.iter()
    }
}

impl Query<Snapshot> for WrittenHostsOf {
    type Value = Arc<WrittenHosts>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<WrittenHosts> {
        let plan = (*cx.query(&GatewayPlanOf(self.0.clone()))).clone();
        let routes = plan.hosts.iter().map(|host| {
            let lists = host.routes.iter();
            lists.map(|routes| (*cx.query(&**routes)).clone()).collect()
        });
        let routes: Vec<Arc<[Arc<RouteList>]>> = routes.collect();
        let hosts = plan.hosts.iter().zip(&routes);
        Arc::new(WrittenHosts {
            hosts: hosts.map(|(host, routes)| written(host, routes)).collect(),
            routes,
            plan,
        })
    }

    fn has_members(ty: TypeId) -> bool {
        ty == TypeId::of::<RuleRoutes>()
    }

    fn update(
        &self,
        former: &Arc<WrittenHosts>,
        changed: &Changed<'_, Snapshot>,
    ) -> Option<Arc<WrittenHosts>> {
        let mut routes = former.routes.clone();
        let mut hosts = former.hosts.clone();
        for (rule, _, after) in changed.members::<RuleRoutes>() {
            for (at, host) in former.plan.hosts.iter().enumerate() {
                if host.routes.iter().any(|routes| **routes == *rule) {
                    let lists = host.routes.iter().zip(&*routes[at]);
                    let lists = lists.map(|(of, list)| match **of == *rule {
                        true => after.clone(),
                        false => list.clone(),
                    });
                    routes[at] = lists.collect();
                    hosts[at] = written(host, &routes[at]);
                }
            }
        }
        Some(Arc::new(WrittenHosts {
            plan: former.plan.clone(),
            routes,
            hosts,
        }))
    }
}

/// A virtual host with the routes of all its rules.
fn written(host: &GatewayHost, lists: &[Arc<RouteList>]) -> Written {
    let mut bytes = ConfigBytes::default();
    let rules = host.routes.iter().map(|routes| &routes.rule);
    bytes.merged_host(&host.head, rules.zip(lists));
    bytes.finish()
}
