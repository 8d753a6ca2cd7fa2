//! Statuses that say that an object does not work.
//!
//! Istio: pkg/config/analysis/analyzers/conditions/conditions.go, 1.32.

use incr::Cx;
use model::Object;
use model::kinds::Kinded;
use model::kinds::gateway_api::{Gateway, GrpcRoute, HttpRoute, RouteStatus};
use model::kinds::istio::{AuthorizationPolicy, ServiceEntry, WorkloadEntry};
use model::kinds::kube::{Condition, Service};
use proto_istio::meta::IstioCondition;
use store::Snapshot;

use crate::code;
use crate::finding::Report;

const WAYPOINT: &[&str] = &["istio.io/WaypointBound"];
const POLICY: &[&str] = &["ZtunnelAccepted", "WaypointAccepted"];
const GATEWAY: &[&str] = &["Accepted", "Programmed", "ResolvedRefs"];

/// A condition of either origin.
struct Stated<'a> {
    condition: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl<'a> From<&'a Condition> for Stated<'a> {
    fn from(c: &'a Condition) -> Self {
        Self {
            condition: &c.condition,
            status: &c.status,
            reason: &c.reason,
            message: &c.message,
        }
    }
}

impl<'a> From<&'a IstioCondition> for Stated<'a> {
    fn from(c: &'a IstioCondition) -> Self {
        Self {
            condition: &c.r#type,
            status: &c.status,
            reason: &c.reason,
            message: &c.message,
        }
    }
}

fn report_each<'a, T: Kinded, C: Into<Stated<'a>>>(
    object: &Object<T>,
    conditions: impl IntoIterator<Item = C>,
    expected: &[&str],
    report: &mut Report<'_>,
) {
    for stated in conditions.into_iter().map(Into::into) {
        let negative = expected.contains(&stated.condition) && stated.status == "False";
        let partial = stated.condition == "WaypointAccepted" && stated.reason == "PartiallyInvalid";
        if negative || (partial && expected == POLICY) {
            let message = format!(
                "the status says that {} does not hold: {} ({})",
                stated.condition, stated.message, stated.reason
            );
            report.add(object, &code::NEGATIVE_CONDITION, "status", message);
        }
    }
}

pub(crate) fn service(_: &Cx<'_, Snapshot>, object: &Object<Service>, report: &mut Report<'_>) {
    report_each(object, &object.status.conditions, WAYPOINT, report);
}

pub(crate) fn service_entry(
    _: &Cx<'_, Snapshot>,
    object: &Object<ServiceEntry>,
    report: &mut Report<'_>,
) {
    report_each(object, &object.status.conditions, WAYPOINT, report);
}

pub(crate) fn workload_entry(
    _: &Cx<'_, Snapshot>,
    object: &Object<WorkloadEntry>,
    report: &mut Report<'_>,
) {
    report_each(object, &object.status.conditions, WAYPOINT, report);
}

pub(crate) fn authorization_policy(
    _: &Cx<'_, Snapshot>,
    object: &Object<AuthorizationPolicy>,
    report: &mut Report<'_>,
) {
    report_each(object, &object.status.conditions, POLICY, report);
}

pub(crate) fn kube_gateway(
    _: &Cx<'_, Snapshot>,
    object: &Object<Gateway>,
    report: &mut Report<'_>,
) {
    report_each(object, &object.status.conditions, GATEWAY, report);
}

pub(crate) fn http_route(
    _: &Cx<'_, Snapshot>,
    object: &Object<HttpRoute>,
    report: &mut Report<'_>,
) {
    report_each(object, of_route(&object.status), GATEWAY, report);
}

pub(crate) fn grpc_route(
    _: &Cx<'_, Snapshot>,
    object: &Object<GrpcRoute>,
    report: &mut Report<'_>,
) {
    report_each(object, of_route(&object.status), GATEWAY, report);
}

fn of_route(status: &RouteStatus) -> impl Iterator<Item = &Condition> {
    status.parents.iter().flat_map(|p| &p.conditions)
}
