//! Istio's kinds: their specs are the protobuf messages themselves.

use proto_istio::networking::Destination;

pub use proto_istio::extensions::{TrafficExtension, WasmPlugin};
pub use proto_istio::networking::{
    DestinationRule, EnvoyFilter, Gateway, ProxyConfig, ServiceEntry, ServiceEntryStatus, Sidecar,
    VirtualService, WorkloadEntry, WorkloadGroup,
};
pub use proto_istio::security::{AuthorizationPolicy, PeerAuthentication, RequestAuthentication};
pub use proto_istio::telemetry::Telemetry;

/// Conditions of a WorkloadEntry, its health among them.
pub use proto_istio::meta::IstioStatus as WorkloadEntryStatus;

/// Conditions of an AuthorizationPolicy, whether proxies took it among them.
pub use proto_istio::meta::IstioStatus as AuthorizationPolicyStatus;

/// Calls `each` with every host of a VirtualService: those that it is about, and those of its destinations.
pub fn each_host(spec: &mut VirtualService, each: &mut dyn FnMut(&mut String)) {
    spec.hosts.iter_mut().for_each(&mut *each);
    let mut destination = |to: &mut Option<Destination>| {
        if let Some(to) = to {
            each(&mut to.host);
        }
    };
    for http in &mut spec.http {
        http.route
            .iter_mut()
            .for_each(|r| destination(&mut r.destination));
        destination(&mut http.mirror);
        http.mirrors
            .iter_mut()
            .for_each(|m| destination(&mut m.destination));
    }
    let tcp = spec.tcp.iter_mut().flat_map(|tcp| &mut tcp.route);
    let tls = spec.tls.iter_mut().flat_map(|tls| &mut tls.route);
    tcp.chain(tls).for_each(|r| destination(&mut r.destination));
}
