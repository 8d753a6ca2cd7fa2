//! The ports that a sidecar serves: those of the workload's services, or those that its Sidecar lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::Cx;
use mesh::address::wildcards;
use mesh::keyed::Keyed;
use mesh::scope::SidecarScope;
use mesh::view::ServiceTarget;
use model::names::{Name, Namespace};
use model::node::Interception;
use model::object::ObjectName;
use model::protocol::Protocol;
use model::service::{Port, Registry};
use policy::authn::{MutualTls, PeerPolicies, Peers};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
use proto_istio::networking::{CaptureMode, IstioIngressListener, ServerTlsSettings};
use store::{Reads, Snapshot};

use super::VIRTUAL_INBOUND;
use crate::listeners::client::InboundServer;
use crate::listeners::gateway::tls::Contexts;

/// The filter chains of one port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PortChain {
    /// The host that telemetry names.
    pub(super) host: Arc<str>,
    /// The Kubernetes service behind it.
    pub(super) kube: Option<(Name, Namespace)>,
    /// The service's port.
    pub(super) port: Port,
    /// The workload's port; 0 for every other.
    pub(super) target_port: u16,
    /// Addresses it is bound to, or named after.
    pub(super) binds: Box<[Arc<str>]>,
    /// Whether it takes what no other chain takes.
    pub(super) passthrough: bool,
    /// Whether it has a listener of its own, on a real port.
    pub(super) own_listener: bool,
    /// The Sidecar that lists it.
    pub(super) sidecar: Option<ObjectName>,
    /// Which mutual TLS it asks for.
    pub(super) mode: MutualTls,
    /// TLS that the Sidecar lists for it.
    pub(super) tls: Option<Arc<Keyed<DownstreamTlsContext>>>,
}

impl PortChain {
    /// Fills the mesh's pattern of statistics names.
    ///
    /// Istio: pilot/pkg/networking/telemetry/telemetry.go BuildInboundStatPrefix, 1.32.
    pub(super) fn stat_prefix(&self, pattern: &str) -> String {
        let (short, name) = match &self.kube {
            Some((name, namespace)) => (format!("{name}.{namespace}"), name.to_string()),
            None => (self.host.to_string(), self.host.to_string()),
        };
        pattern
            .replace("%SERVICE%", &short)
            .replace("%SERVICE_NAME%", &name)
            .replace("%SERVICE_FQDN%", &self.host)
            .replace("%SUBSET_NAME%", "")
            .replace("%SERVICE_PORT%", &self.port.number.to_string())
            .replace("%SERVICE_PORT_NAME%", &self.port.name)
    }
}

/// The chains of all ports, by port.
pub(super) fn chains(
    cx: &Cx<'_, Snapshot>,
    proxy: &InboundServer,
    scope: &SidecarScope,
) -> Vec<PortChain> {
    let peers = cx.query(&PeerPolicies(proxy.policies.namespace.clone()));
    let mut by_port: BTreeMap<u16, PortChain> = BTreeMap::new();
    if scope.has_ingress() {
        let listed = scope.sidecar.iter().flat_map(|s| &s.ingress);
        let contexts = Contexts::of(cx, &proxy.files, proxy.parts.capabilities);
        let tls = (&contexts, cx.settings().features.sidecar_ingress_tls);
        for chain in listed.filter_map(|l| of_ingress(proxy, &peers, tls, l)) {
            by_port.entry(chain.target_port).or_insert(chain);
        }
    } else if proxy.interception != Interception::None {
        // Without redirection the workload itself holds the ports of its services.
        for chain in proxy
            .targets
            .iter()
            .filter_map(|t| of_target(proxy, &peers, t))
        {
            by_port.entry(chain.target_port).or_insert(chain);
        }
    }
    by_port.into_values().collect()
}

/// The chains of everything that has no chain of its own: of all ports, and of those ports for which a policy states
/// which mutual TLS they ask for.
///
/// Istio: pilot/pkg/networking/plugin/authn/authentication.go ForPassthrough, 1.32.
pub(super) fn passthrough(
    cx: &Cx<'_, Snapshot>,
    proxy: &InboundServer,
    scope: &SidecarScope,
) -> Vec<PortChain> {
    let labels = &proxy.policies.labels;
    let peers = cx.query(&PeerPolicies(proxy.policies.namespace.clone()));
    let listed = |port: u16| match &scope.sidecar {
        Some(sidecar) if !sidecar.ingress.is_empty() => sidecar
            .ingress
            .iter()
            .filter_map(|l| l.port.as_ref())
            .any(|p| p.number == u32::from(port)),
        _ => proxy.targets.iter().any(|t| t.target_port == port),
    };
    let stated = peers.stated_ports(labels);
    std::iter::once(0)
        .chain(stated.into_iter().filter(|port| !listed(*port)))
        .map(|port| PortChain {
            host: Arc::from(""),
            kube: None,
            port: Port {
                name: Arc::from(VIRTUAL_INBOUND),
                number: 0,
                protocol: Protocol::Unsupported,
            },
            target_port: port,
            binds: Box::from([]),
            passthrough: true,
            own_listener: false,
            sidecar: None,
            mode: peers.of_workload(labels, port),
            tls: None,
        })
        .collect()
}

fn of_target(proxy: &InboundServer, peers: &Peers, target: &ServiceTarget) -> Option<PortChain> {
    let binds = wildcards(proxy.families);
    let port = target.target_port;
    if !proxy.reserved.can_serve(port) {
        return None;
    }
    let service = &target.service;
    let kube = (service.registry == Registry::Kubernetes)
        .then(|| (service.name.clone(), service.namespace.clone()));
    Some(PortChain {
        host: Arc::from(&*service.host),
        kube,
        port: target.port.clone(),
        target_port: port,
        binds: binds.iter().map(|b| Arc::from(*b)).collect(),
        passthrough: false,
        own_listener: false,
        sidecar: None,
        mode: peers.of_workload(&proxy.policies.labels, port),
        tls: None,
    })
}

fn of_ingress(
    proxy: &InboundServer,
    peers: &Peers,
    (contexts, serves_tls): (&Contexts, bool),
    stated: &IstioIngressListener,
) -> Option<PortChain> {
    let named = proxy.scope().sidecar.as_ref()?;
    let port = stated.port.as_ref()?;
    let number = u16::try_from(port.number).ok()?;
    let mode = peers.of_workload(&proxy.policies.labels, number);
    let context = |tls: &ServerTlsSettings| Keyed::new(contexts.of_settings(tls, false, false));
    let tls = stated.tls.as_ref().filter(|_| serves_tls).map(context);
    let own_listener = match stated.capture_mode() {
        CaptureMode::Default => proxy.interception == Interception::None,
        mode => mode == CaptureMode::None,
    };
    let port = Port {
        name: port.name.as_str().into(),
        number,
        protocol: match &tls {
            Some(_) => Protocol::parse(&port.protocol).after_tls_termination(),
            None => Protocol::parse(&port.protocol),
        },
    };
    let reserved = &proxy.reserved;
    if !reserved.can_bind_listed(own_listener, &stated.bind, &port) {
        return None;
    }
    let binds: Box<[Arc<str>]> = if stated.bind.is_empty() {
        proxy.own_binds()
    } else {
        Box::from([Arc::from(stated.bind.as_str())])
    };
    Some(PortChain {
        host: format!("{}.{}", named.name, named.namespace).into(),
        kube: None,
        port,
        target_port: number,
        binds,
        passthrough: false,
        own_listener,
        sidecar: Some(named.clone()),
        // Only where the mesh's own TLS does not compete with it.
        tls: tls.filter(|_| mode == MutualTls::Disable),
        mode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::cases;

    #[test]
    fn names_of_statistics_are_those_of_the_recording() {
        let table = "networking-telemetry";
        for case in cases(table, "telemetry.BuildInboundStatPrefix") {
            let input = &case["in"];
            // The other side of a connection knows no subsets.
            if input["subset"] != "" {
                continue;
            }
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let of = &input["tm"];
            let kube = of["KubernetesServiceName"].as_str();
            let chain = PortChain {
                host: text(&of["InstanceHostname"]).into(),
                kube: kube
                    .map(|name| (name.into(), text(&of["KubernetesServiceNamespace"]).into())),
                port: Port {
                    name: text(&input["portName"]).into(),
                    number: u16::try_from(input["port"].as_u64().unwrap()).unwrap(),
                    protocol: Protocol::Grpc,
                },
                target_port: 0,
                binds: Box::from([]),
                passthrough: false,
                own_listener: false,
                sidecar: None,
                mode: MutualTls::Disable,
                tls: None,
            };
            let found = chain.stat_prefix(&text(&input["statPattern"]));
            assert_eq!(found, text(&case["out"]), "{case}");
        }
    }
}
