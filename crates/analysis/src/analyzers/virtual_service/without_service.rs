//! Hosts of rules for sidecars that no service has.

use incr::Cx;
use model::Object;
use model::kinds::istio::VirtualService;
use store::Snapshot;

use crate::code;
use crate::facts::{hosts, several};
use crate::finding::Report;

/// The port at which sidecars know the hosts of rules that no service has.
const OF_RULES: u32 = 80;

/// Sidecars apply a rule at the ports of the services that have its hosts. A host that only the wildcard of a ServiceEntry covers
/// is none of these: its requests go where the wildcard leads, but for those at port 80.
///
/// Istio: pilot/pkg/networking/core/httproute.go, 1.32.
pub(crate) fn check(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    report: &mut Report<'_>,
) {
    let gateways = &object.spec.gateways;
    let is_of_mesh = gateways.is_empty() || gateways.iter().any(|gateway| gateway == "mesh");
    if !is_of_mesh || object.spec.http.is_empty() {
        return;
    }
    let export_to = &object.spec.export_to;
    for (at, host) in object.spec.hosts.iter().enumerate() {
        let Some(wildcard) = hosts::only_below(cx, object.namespace(), export_to, host) else {
            continue;
        };
        let found = hosts::find(cx, object.namespace(), export_to, host);
        let ports = found.and_then(|found| found.ports).unwrap_or_default();
        let ports: Vec<u32> = ports.into_iter().filter(|port| *port != OF_RULES).collect();
        if ports.is_empty() {
            continue;
        }
        report
            .add(
                object,
                &code::HOST_WITHOUT_SERVICE,
                format!("spec.hosts[{at}]"),
                format!(
                    "the rules take no request to {host} at the ports {}: no service has that host, and requests go where {wildcard} \
                     leads",
                    several(&ports)
                ),
            )
            .help(format!(
                "add a ServiceEntry with the host {host}, or state rules for {wildcard}"
            ));
    }
}
