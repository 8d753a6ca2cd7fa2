//! Policies and gateways of the Gateway API, and its definitions.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::Object;
use model::kinds::Kinded;
use model::kinds::istio::{AuthorizationPolicy, RequestAuthentication, Telemetry, WasmPlugin};
use model::kinds::kube::CustomResourceDefinition;
use store::Snapshot;

use crate::code;
use crate::facts::workloads::WorkloadsIn;
use crate::finding::Report;

const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

macro_rules! selectors {
    ($($kind:ident: $function:ident;)+) => {$(
        pub(crate) fn $function(cx: &Cx<'_, Snapshot>, object: &Object<$kind>, report: &mut Report<'_>) {
            let spec = &object.spec;
            if spec.target_ref.is_none() && let Some(selector) = &spec.selector {
                ineffective(cx, object, &selector.match_labels, report);
            }
        }
    )+};
}

selectors! {
    AuthorizationPolicy: authorization_policy;
    RequestAuthentication: request_authentication;
    Telemetry: telemetry;
    WasmPlugin: wasm_plugin;
}

/// Istio: pkg/config/analysis/analyzers/k8sgateway/workloadselector.go, 1.32.
fn ineffective<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    object: &Object<T>,
    selector: &BTreeMap<String, String>,
    report: &mut Report<'_>,
) {
    let workloads = cx.query(&WorkloadsIn(object.namespace().clone()));
    let gateways = workloads
        .matching(selector)
        .filter_map(|w| w.labels.get(GATEWAY_NAME));
    for gateway in gateways.collect::<BTreeSet<&str>>() {
        report
            .add(
                object,
                &code::INEFFECTIVE_SELECTOR,
                "spec.selector",
                format!("the selector means the Gateway {gateway}, to which policies apply by targetRefs only"),
            )
            .help(format!(
                "write `targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: {gateway}}}]` in place of the selector"
            ));
    }
}

/// Istio: pkg/config/analysis/analyzers/k8sgateway/crdversion.go, pkg/config/schema/gatewayapi/minimumversions.go, 1.32.
pub(crate) fn definition(
    _: &Cx<'_, Snapshot>,
    object: &Object<CustomResourceDefinition>,
    report: &mut Report<'_>,
) {
    const VERSION: &str = "gateway.networking.k8s.io/bundle-version";
    let name = object.meta.name.name.as_str();
    let minimum = match name {
        "grpcroutes.gateway.networking.k8s.io" => [1, 1, 0],
        "backendtlspolicies.gateway.networking.k8s.io" => [1, 4, 0],
        "tlsroutes.gateway.networking.k8s.io" => [1, 5, 0],
        "tcproutes.gateway.networking.k8s.io" => [1, 6, 0],
        _ => return,
    };
    let Some(installed) = object.meta.annotations.get(VERSION) else {
        return;
    };
    if version(installed).is_some_and(|v| v < minimum) {
        let [major, minor, patch] = minimum;
        report
            .add(
                object,
                &code::CRD_TOO_OLD,
                format!("metadata.annotations[{VERSION:?}]"),
                format!("{name} is of version {installed}; objects are read from version {major}.{minor}.{patch} on"),
            )
            .help("install the definitions of a later release of the Gateway API");
    }
}

/// The three numbers of a version as `v1.2.3-rc1`; those left out are 0.
fn version(text: &str) -> Option<[u64; 3]> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let text = text.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = [0; 3];
    let mut parts = text.split('.');
    for (number, part) in numbers.iter_mut().zip(parts.by_ref()) {
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(version("v1.5.0-rc.2"), Some([1, 5, 0]));
        assert_eq!(version("1.4"), Some([1, 4, 0]));
        assert_eq!(version("latest"), None);
    }
}
