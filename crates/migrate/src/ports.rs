//! Ports of Services as ingress-nginx finds them.
//!
//! ingress-nginx: internal/ingress/controller/controller.go serviceEndpoints, 1.12.

use model::kinds::kube::{IngressPort, Service};

/// A port as it is looked for.
pub(crate) fn text_of(port: &IngressPort) -> String {
    match port.number {
        0 => port.name.to_string(),
        number => number.to_string(),
    }
}

/// The port of a Service that a backend names: by its number, by its name, or by where it leads to in pods.
pub(crate) fn number_of(service: &Service, port: &IngressPort) -> Option<i32> {
    if &*service.service_type == "ExternalName" && port.number > 0 {
        return Some(port.number);
    }
    let text = text_of(port);
    let mut ports = service.ports.iter();
    let found = ports.find(|p| {
        let target = p.target_port.as_ref();
        p.port.to_string() == text
            || *p.name == *text
            || target.is_some_and(|target| target.to_string() == text)
    });
    found.map(|p| p.port)
}
