//! Deprecated fields and kinds.
//!
//! Istio: pkg/config/analysis/analyzers/deprecation/deprecation.go, 1.32.

use incr::Cx;
use model::Object;
use model::kinds::istio::{Sidecar, VirtualService};
use model::kinds::kube::CustomResourceDefinition;
use store::Snapshot;

use crate::code;
use crate::finding::Report;

pub(crate) fn virtual_service(
    _: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    report: &mut Report<'_>,
) {
    let delay =
        |r: &proto_istio::networking::HttpRoute| Some(r.fault.as_ref()?.delay.as_ref()?.percent);
    let percent = |r| delay(r).is_some_and(|percent| percent > 0);
    if let Some(i) = object.spec.http.iter().position(percent) {
        report
            .add(
                object,
                &code::DEPRECATED,
                format!("spec.http[{i}].fault.delay.percent"),
                "the field percent of a delay is deprecated",
            )
            .help("use `percentage: {value: ...}`, which also takes fractions");
    }
}

pub(crate) fn sidecar(_: &Cx<'_, Snapshot>, object: &Object<Sidecar>, report: &mut Report<'_>) {
    let policy = object.spec.outbound_traffic_policy.as_ref();
    if policy.is_some_and(|p| p.egress_proxy.is_some()) {
        report
            .add(
                object,
                &code::DEPRECATED,
                "spec.outboundTrafficPolicy.egressProxy",
                "an egress proxy for unknown destinations has no effect",
            )
            .help("remove the field; route external hosts through an egress gateway with a ServiceEntry and a VirtualService");
    }
}

pub(crate) fn definition(
    _: &Cx<'_, Snapshot>,
    object: &Object<CustomResourceDefinition>,
    report: &mut Report<'_>,
) {
    const REMOVED: [&str; 4] = [
        "ClusterRbacConfig",
        "RbacConfig",
        "ServiceRole",
        "ServiceRoleBinding",
    ];
    let (group, kind) = (&*object.spec.group, &*object.spec.names.kind);
    if group == "rbac.istio.io" && REMOVED.contains(&kind) {
        report
            .add(
                object,
                &code::DEPRECATED,
                "spec.names.kind",
                format!("the kind {kind} of {group} was removed and is not read"),
            )
            .help("write an AuthorizationPolicy and delete this definition");
    }
}
