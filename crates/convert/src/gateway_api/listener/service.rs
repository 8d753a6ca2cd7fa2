//! The services through which a Gateway is reached.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go extractGatewayServices, 1.32.

use std::sync::Arc;

use model::Object;
use model::kinds::gateway_api::Gateway;
use model::settings::Settings;

use super::Problem;
use crate::gateway_api::class::Controller;

/// What once said of which type the Service is that is deployed for a Gateway.
const SERVICE_TYPE: &str = "networking.istio.io/service-type";

/// The type of addresses that name the Service of proxies which were deployed otherwise.
const HOSTNAME: &str = "Hostname";

/// How a Gateway is reached.
pub(super) struct Reached {
    /// The hosts of services, in order.
    pub(super) services: Arc<[Arc<str>]>,
    /// The service account of the proxies, where they are deployed for the Gateway.
    pub(super) service_account: Option<Arc<str>>,
    /// What is wrong with the addresses that it asks for.
    pub(super) problem: Option<Problem>,
}

impl Reached {
    /// Reads the addresses that a Gateway asks for.
    pub(super) fn of(
        gateway: &Object<Gateway>,
        controller: Controller,
        settings: &Settings,
    ) -> Self {
        let expand = |name: &str| format!("{name}.{}.svc.{}", gateway.namespace(), settings.domain);
        let manual_deployment = settings.features.gateway_manual_deployment;
        if gateway.spec.is_deployed(manual_deployment) {
            let names_class = controller.names_class();
            let name = gateway.deployed_name(names_class);
            return Self {
                services: Arc::from([Arc::from(expand(&name))]),
                service_account: Some(gateway.deployed_account(names_class).into()),
                problem: None,
            };
        }
        let (mut services, mut unsupported) = (Vec::new(), Vec::new());
        for address in &gateway.spec.addresses {
            let value = address.value.as_deref().unwrap_or_default();
            if &*address.address_type != HOSTNAME || value.is_empty() {
                unsupported.push(format!("{} {value:?}", address.address_type));
            } else if value.contains('.') {
                services.push(value.into());
            } else {
                services.push(expand(value).into());
            }
        }
        Self {
            services: services.into(),
            service_account: None,
            problem: problem(gateway, &unsupported),
        }
    }
}

fn problem(gateway: &Object<Gateway>, unsupported: &[String]) -> Option<Problem> {
    if !unsupported.is_empty() {
        let message = format!(
            "beside addresses of other types only those of the type {HOSTNAME} that name a Service are served: {} is not",
            unsupported.join(", ")
        );
        return Some(Problem::new("UnsupportedAddress", message));
    }
    let deprecated = gateway.meta.annotations.contains(SERVICE_TYPE);
    deprecated.then(|| {
        let message = format!(
            "the annotation {SERVICE_TYPE} has no effect where `addresses` name the Service; set the type on that Service"
        );
        Problem::new("DeprecatedField", message)
    })
}
