//! From what a proxy says of itself to its view.
//!
//! A view holds what generation reads and nothing else. Of the metadata these keys are kept, by their names in Istio:
//! see [`KEPT`].

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::Labels;
use model::kinds::istio::Sidecar;

use model::node::{Interception, Node, Role};
use model::service::{Locality, Resolution};
use model::settings::MeshConfig;
use proto_istio::mesh::mesh_config::extension_provider::{Provider, ServiceAttributeEnrichment};
use serde_json::Value;
use store::{Reads, Snapshot};

use crate::envoy_filter::MatchedKeys;
use mesh::scope;
use mesh::services::{self, Identity};
use mesh::view::{Families, ProxyKey, ServiceTarget, Traits, View};

/// The metadata keys that generation reads.
pub const KEPT: &[&str] = &[
    "BASE",
    "CLOUDRUN_ADDR",
    "DISABLE_HBONE_SEND",
    "DNS_AUTO_ALLOCATE",
    "DNS_CAPTURE",
    "DNS_PROXY_ADDR",
    "ENABLE_HBONE",
    "ENABLE_SELF_DISCOVERY",
    "ENVOY_PROMETHEUS_PORT",
    "ENVOY_SECURE_MERGED_METRICS_PORT",
    "ENVOY_SECURE_METRICS_PORT",
    "ENVOY_STATUS_PORT",
    "GENERATOR",
    "HTTP10",
    "HTTP_PROXY_PORT",
    "IDLE_TIMEOUT",
    "INBOUND_LISTENER_EXACT_BALANCE",
    "MESH_ID",
    "NAMESPACE",
    "METADATA_DISCOVERY",
    "OUTBOUND_LISTENER_EXACT_BALANCE",
    "PILOTHOUSE_CERTIFICATES",
    "PROXY_CONFIG",
    "REQUESTED_NETWORK_VIEW",
    "SERVICE_ACCOUNT",
    "STS_PORT",
    "TLS_CLIENT_CERT_CHAIN",
    "TLS_CLIENT_KEY",
    "TLS_CLIENT_ROOT_CERT",
    "TLS_SERVER_CERT_CHAIN",
    "TLS_SERVER_KEY",
    "TLS_SERVER_ROOT_CERT",
    "UNPRIVILEGED_POD",
    "WORKLOAD_IDENTITY_SOCKET_FILE",
    "credential",
    "file-credential",
];

/// The view of a connected proxy. Reads the services its addresses serve, so a proxy moves to another view when they
/// change.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewOf(pub ProxyKey);

impl Query<Snapshot> for ViewOf {
    type Value = Arc<View>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<View> {
        Arc::new(view_of(cx, self.0.node()))
    }
}

/// The view of a proxy.
pub fn view_of(cx: &Cx<'_, Snapshot>, node: &Node) -> View {
    let identity = Identity::of(cx, node);
    let labels = workload_labels(cx, &identity);
    let locality = locality(node, &labels);
    let targets = services::targets_of(cx, node, &identity, &labels);
    let interception = interception(node);
    View::new(Traits {
        role: node.role,
        namespace: node.namespace.clone(),
        labels: services::with_topology(
            &labels,
            &services::Topology {
                cluster: &node.cluster,
                locality: &locality,
                node: text(node, "NODE_NAME").unwrap_or_default(),
                network: &node.network,
            },
        ),
        locality,
        network: node.network.clone(),
        cluster: node.cluster.clone(),
        dns_domain: node.dns_domain.clone(),
        families: families(node),
        interception,
        version: node.version,
        extensions: node.extensions.clone(),
        addresses: if interception == Interception::None
            || serves_headless(&targets)
            || lists_own_ports(cx, node, &labels)
        {
            node.addresses.clone()
        } else {
            Arc::from([])
        },
        targets,
        metadata: kept(cx, node),
        service_cluster: node.service_cluster.clone(),
        identity: node.identity.clone(),
    })
}

/// Whether a service of the proxy's workload has no address of its own, so that listeners of others bear the
/// addresses of its workloads.
fn serves_headless(targets: &[ServiceTarget]) -> bool {
    targets
        .iter()
        .any(|t| t.service.resolution == Resolution::Passthrough)
}

/// Whether the Sidecar in force lists ports without an address to bind, whose listeners are named after the proxy's
/// own, or sends what it receives to the workload's own addresses.
fn lists_own_ports(cx: &Cx<'_, Snapshot>, node: &Node, labels: &Labels) -> bool {
    if node.role != Role::Sidecar {
        return false;
    }
    let sidecar = scope::sidecar_for(cx, &node.namespace, labels);
    sidecar
        .and_then(|name| cx.get::<Sidecar>(&name))
        .is_some_and(|s| {
            let own = ["0.0.0.0:", "[::]:", ":::"];
            let to_own = |endpoint: &str| own.iter().any(|a| endpoint.starts_with(a));
            let mut listeners = s.spec.ingress.iter();
            listeners.any(|l| l.bind.is_empty() || to_own(&l.default_endpoint))
        })
}

/// A text of the metadata; `None` where it is absent or empty.
fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let text = node.metadata.get(key)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// The labels of the workload: those that its objects have, else those that it states.
///
/// Istio: pilot/pkg/model/context.go SetWorkloadLabels, 1.32.
fn workload_labels(cx: &Cx<'_, Snapshot>, identity: &Identity<'_>) -> Labels {
    let node = identity.node;
    if identity.virtual_machine {
        return node.labels.clone();
    }
    let known_cluster = node.cluster.is_empty() || node.cluster == cx.settings().cluster;
    let found = if known_cluster {
        labels_of_objects(cx, identity)
    } else {
        None
    };
    let Some(found) = found else {
        return node.labels.clone();
    };
    let mut all: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    if let Some(Value::Object(fixed)) = node.metadata.get("STATIC_LABELS") {
        let pairs = fixed.iter().filter_map(|(k, v)| Some((k, v.as_str()?)));
        all.extend(pairs.map(|(k, v)| (Arc::from(k.as_str()), Arc::from(v))));
    }
    all.extend(found.iter().map(|(k, v)| (k.clone(), v.clone())));
    all.into_iter().collect()
}

fn labels_of_objects(cx: &Cx<'_, Snapshot>, identity: &Identity<'_>) -> Option<Labels> {
    if let Some(pod) = &identity.pod {
        let endpoint = (*cx.query(&services::PodOf(pod.meta.name.clone()))).clone()?;
        // The node is the one that the proxy states, whatever the Pod says: what keeps to its node goes by that.
        return Some(services::with_topology(
            &pod.meta.labels,
            &services::Topology {
                cluster: &endpoint.cluster,
                locality: &endpoint.locality,
                node: text(identity.node, "NODE_NAME").unwrap_or_default(),
                network: &endpoint.network,
            },
        ));
    }
    identity.node.addresses.iter().find_map(|address| {
        let namespace = identity.stated_namespace.as_ref();
        services::labels_at(cx, namespace, &address.to_string())
    })
}

/// Where the proxy is: as its labels say, else as it says itself.
///
/// Istio: pilot/pkg/xds/ads.go setTopologyLabels, 1.32.
fn locality(node: &Node, labels: &Labels) -> Locality {
    let label = |key: &str| labels.get(key);
    let (region, zone, subzone) = (
        label("topology.kubernetes.io/region"),
        label("topology.kubernetes.io/zone"),
        label("topology.istio.io/subzone"),
    );
    if region.is_some() || zone.is_some() || subzone.is_some() {
        return Locality {
            region: region.unwrap_or_default().into(),
            zone: zone.unwrap_or_default().into(),
            subzone: subzone.unwrap_or_default().into(),
        };
    }
    match label("topology.istio.io/locality").or_else(|| label("istio-locality")) {
        Some(stated) if !stated.is_empty() => Locality::parse(stated),
        _ => node.locality.clone(),
    }
}

fn families(node: &Node) -> Families {
    Families {
        v4: node.addresses.iter().any(|a| a.is_ipv4()),
        v6: node.addresses.iter().any(|a| a.is_ipv6()),
    }
}

fn interception(node: &Node) -> Interception {
    match text(node, "INTERCEPTION_MODE") {
        Some("TPROXY") => Interception::Tproxy,
        Some("NONE") => Interception::None,
        _ => Interception::Redirect,
    }
}

/// Whether a tracer of the mesh names workloads by the conventions of OpenTelemetry.
fn names_workloads(mesh: &MeshConfig) -> bool {
    let conventions = ServiceAttributeEnrichment::OtelSemanticConventions;
    mesh.extension_providers.iter().any(|p| match &p.provider {
        Some(Provider::Opentelemetry(p)) => p.service_attribute_enrichment() == conventions,
        _ => false,
    })
}

/// The metadata that generation reads: texts as they are, other values as JSON.
fn kept(cx: &Cx<'_, Snapshot>, node: &Node) -> Labels {
    let matched = cx.query(&MatchedKeys);
    let mut keys: Vec<&str> = KEPT.to_vec();
    keys.extend(matched.iter().map(|key| &**key));
    // Only a proxy that balances among its like needs to know which those are.
    if node.metadata.contains_key("ENABLE_SELF_DISCOVERY") {
        keys.push("WORKLOAD_NAME");
    }
    // Only tracers that name workloads as OpenTelemetry does need to know how.
    if names_workloads(&cx.settings().mesh) {
        keys.extend(["WORKLOAD_NAME", "ANNOTATIONS"]);
    }
    let of_key = |key: &str| match node.metadata.get(key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    keys.into_iter()
        .filter_map(|key| Some((key, of_key(key)?)))
        .collect()
}
