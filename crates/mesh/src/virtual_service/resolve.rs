//! Short names of hosts and gateways, written out.
//!
//! Istio: pilot/pkg/model/virtualservice.go ResolveVirtualServiceShortnames and config.go, 1.32.

use std::net::IpAddr;

use model::kinds::istio::{VirtualService, each_host};
use model::names::{Namespace, gateway_name};

use super::MESH;

/// A host as a rule of `namespace` means it: a name without dots is a Kubernetes service of the same namespace.
pub fn host_name(host: &str, namespace: &Namespace, domain: &str) -> Option<String> {
    if host.is_empty() || host == "*" || host.contains('.') || host.parse::<IpAddr>().is_ok() {
        return None;
    }
    let mut full = host.to_owned();
    if !namespace.is_empty() {
        full = format!("{full}.{namespace}");
    }
    if !domain.is_empty() {
        full = format!("{full}.svc.{domain}");
    }
    Some(full)
}

/// Writes out every short name of a rule.
pub(super) fn resolve(spec: &mut VirtualService, namespace: &Namespace, domain: &str) {
    each_host(spec, &mut |host| {
        if let Some(full) = host_name(host, namespace, domain) {
            *host = full;
        }
    });
    let gateways = |gateways: &mut Vec<String>| {
        for gateway in gateways.iter_mut().filter(|g| *g != MESH) {
            if let Some(full) = gateway_name(gateway, namespace) {
                *gateway = full;
            }
        }
    };
    gateways(&mut spec.gateways);
    for http in &mut spec.http {
        http.r#match
            .iter_mut()
            .for_each(|m| gateways(&mut m.gateways));
    }
    for tcp in &mut spec.tcp {
        tcp.r#match
            .iter_mut()
            .for_each(|m| gateways(&mut m.gateways));
    }
    for tls in &mut spec.tls {
        tls.r#match
            .iter_mut()
            .for_each(|m| gateways(&mut m.gateways));
    }
}

#[cfg(test)]
mod tests {
    use super::host_name;

    #[test]
    fn a_host_without_dots_is_a_service_of_the_rules_namespace() {
        let of = |h| host_name(h, &"shop".into(), "cluster.local");
        assert_eq!(of("cart").as_deref(), Some("cart.shop.svc.cluster.local"));
        assert_eq!(of("a.b"), None);
        assert_eq!(of("*"), None);
        assert_eq!(of("::1"), None);
        assert_eq!(of(""), None);
    }
}
