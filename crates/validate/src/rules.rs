//! What an object of each kind must say to have a meaning, beyond its structure: the rules of istiod's admission webhook,
//! and what Higress and Knative make of theirs.
// Istio: pkg/config/validation, pkg/config/validation/agent, 1.32.

mod authentication;
mod authorization;
mod destination_rule;
mod envoy_filter;
mod export_to;
mod extension;
mod gateway;
mod higress;
mod http_route;
mod knative;
mod overlap;
mod selector;
mod server_tls;
mod service_entry;
mod sidecar;
mod stream_route;
mod telemetry;
mod traffic_policy;
mod virtual_service;
mod workload;

use model::{AnyObject, Meta};

use crate::report::{At, Report};
use crate::text::variable_name;

pub use traffic_policy::{
    client_tls, connection_pool, locality, outlier_detection, retries, zone_aware,
};

/// Annotations that only istiod itself sets.
const INTERNAL: [&str; 3] = [
    "internal.istio.io/webhook-always-reject",
    "internal.istio.io/parent-namespace",
    "internal.istio.io/parents",
];
const DRY_RUN: &str = "istio.io/dry-run";

/// Checks an object of any kind.
pub fn object(object: &AnyObject, report: &mut Report) {
    let top = At::TOP;
    let at = &top.field("spec");
    let meta = object.meta();
    let istio = object.key().kind.group().ends_with(".istio.io");
    if istio && !metadata(object, report) {
        return;
    }
    match object {
        AnyObject::VirtualService(o) => virtual_service::check(&o.spec, meta, at, report),
        AnyObject::DestinationRule(o) => destination_rule::check(&o.spec, meta, at, report),
        AnyObject::Gateway(o) => gateway::check(&o.spec, meta, at, report),
        AnyObject::ServiceEntry(o) => service_entry::check(&o.spec, meta, at, report),
        AnyObject::Sidecar(o) => sidecar::check(&o.spec, meta, at, report),
        AnyObject::WorkloadEntry(o) => workload::entry(&o.spec, None, true, at, report),
        AnyObject::WorkloadGroup(o) => workload::group(&o.spec, at, report),
        AnyObject::EnvoyFilter(o) => {
            report.warning(
                &top,
                "an EnvoyFilter changes what may be different in the next version",
            );
            report.help("use another kind where one does it");
            envoy_filter::check(&o.spec, at, report);
        }
        AnyObject::ProxyConfig(o) => {
            selector::workloads(o.spec.selector.as_ref(), at, report);
            if o.spec.concurrency.is_some_and(|threads| threads < 0) {
                report.error(&at.field("concurrency"), "must not be negative");
            }
            let at = at.field("environmentVariables");
            for name in o.spec.environment_variables.keys() {
                report.check(&at.field(name), variable_name(name));
            }
        }
        AnyObject::AuthorizationPolicy(o) => authorization::check(&o.spec, at, report),
        AnyObject::PeerAuthentication(o) => authentication::peer(&o.spec, at, report),
        AnyObject::RequestAuthentication(o) => authentication::request(&o.spec, at, report),
        AnyObject::Telemetry(o) => telemetry::check(&o.spec, at, report),
        AnyObject::WasmPlugin(o) => extension::wasm_plugin(&o.spec, at, report),
        AnyObject::TrafficExtension(o) => extension::traffic_extension(&o.spec, at, report),
        AnyObject::McpBridge(o) => higress::mcp_bridge(&o.spec, meta, at, report),
        AnyObject::Http2Rpc(o) => higress::http2rpc(&o.spec, at, report),
        AnyObject::HigressWasmPlugin(o) => higress::wasm_plugin(&o.spec, at, report),
        AnyObject::KnativeIngress(o) => knative::ingress(&o.spec, meta, at, report),
        _ => {}
    }
}

/// Annotations that Istio's kinds may not have; whether the rest is worth looking at.
fn metadata(object: &AnyObject, report: &mut Report) -> bool {
    let (top, meta) = (At::TOP, object.meta());
    let at = top.field("metadata");
    let at = at.field("annotations");
    if let Some(value) = meta.annotations.get(DRY_RUN)
        && let Err(fault) = dry_run(object, value)
    {
        report.error(&at.field(DRY_RUN), fault);
        return false;
    }
    match INTERNAL.iter().find(|name| meta.annotations.contains(name)) {
        Some(name) => {
            report.error(&at.field(name), "this annotation is not for users to set");
            false
        }
        None => true,
    }
}

fn dry_run(object: &AnyObject, value: &str) -> Result<(), String> {
    use proto_istio::security::authorization_policy::Action;
    let AnyObject::AuthorizationPolicy(policy) = object else {
        return Err("only an AuthorizationPolicy can be tried without effect".to_owned());
    };
    if !matches!(policy.spec.action(), Action::Allow | Action::Deny) {
        return Err("only the actions ALLOW and DENY can be tried without effect".to_owned());
    }
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" | "0" | "f" | "F" | "FALSE" | "false"
        | "False" => Ok(()),
        _ => Err(format!("{value:?} is neither true nor false")),
    }
}

/// Whether an object stands for one of the Gateway API, whose rules it then follows.
fn is_converted(meta: &Meta, annotation: &str) -> bool {
    meta.annotations.get(annotation) == Some("gateway")
}
