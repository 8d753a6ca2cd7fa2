//! The status of a GatewayClass.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/gatewayclass.go GetClassStatus, 1.32.

use model::ObjectName;
use model::kinds::gateway_api::GatewayClass;
use serde_json::{Value, json};

use super::Conditions;
use crate::gateway_api::class::Controller;
use crate::reader::Reader;
use crate::strata::Routes;

/// What Gateways do, by the names of upstream's features (pkg/features of the Gateway API), sorted.
///
/// A name is here if and only if every test of upstream's conformance suite that asks for it passes through real Envoys:
/// `.ci/gateway-conformance` takes the features that it runs from this list. A class can list 64 at most.
const FEATURES: &[&str] = &[
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayInfrastructure",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
];

/// The status of a GatewayClass; `None` where it is another's.
pub(super) fn status(read: &Reader<'_, '_, Routes>, name: &ObjectName) -> Option<Value> {
    let class = read.get::<GatewayClass>(name)?;
    let features = &read.settings().features;
    let controller = Controller::find(&class.spec.controller_name, features)?;
    let mut conditions = Conditions::default();
    conditions.holds("Accepted", "Accepted", "handled by Pilothouse");
    let mut status = json!({ "conditions": conditions.list(class.meta.generation) });
    if controller == Controller::Gateway {
        let features = FEATURES.iter().map(|name| json!({ "name": name }));
        status["supportedFeatures"] = features.collect();
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_as_the_definition_wants_them() {
        assert!(FEATURES.is_sorted() && FEATURES.len() <= 64);
    }
}
