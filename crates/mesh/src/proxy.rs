//! What is known of a proxy: what it says of itself and what objects say of it.
//!
//! Only keys are made of this; generation sees those.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use incr::Cx;
use model::Labels;
use model::kinds::istio::Sidecar;
use model::names::Namespace;
use model::node::{Interception, Node, Role};
use model::service::Locality;
use model::settings::Features;
use serde_json::Value;
use store::{Reads, Snapshot};

use crate::label_names::Reader;
use crate::scope::{self, ScopeKey};
use crate::services::{self, Addressing, Identity};
use crate::view::{Families, ServiceTarget};

/// What is known of a proxy, to make keys of. It is not comparable, so that nothing can be remembered under it: what decides
/// a resource has to be a field of that resource's key.
#[derive(Debug)]
pub struct Traits<'a> {
    /// What it says.
    pub node: &'a Node,
    /// The labels of its workload, with those of the topology.
    pub labels: Labels,
    /// Locality, of the node itself or of its endpoints.
    pub locality: Locality,
    /// The service ports its workload serves, oldest service first.
    pub targets: Arc<[ServiceTarget]>,
    /// What it may see.
    pub scope: ScopeKey,
}

impl<'a> Traits<'a> {
    /// What is known of a proxy.
    pub fn of(cx: &Cx<'_, Snapshot>, node: &'a Node) -> Self {
        let identity = Identity::of(cx, node);
        let labels = workload_labels(cx, &identity);
        let locality = locality(node, &labels);
        let targets = services::targets_of(cx, node, &identity, &labels);
        let labels = services::with_topology(
            &labels,
            &services::Topology {
                cluster: &node.cluster,
                locality: &locality,
                node: text(node, "NODE_NAME").unwrap_or_default(),
                network: &node.network,
            },
        );
        Self {
            scope: scope::key_of(cx, node.role, &node.namespace, &labels),
            node,
            labels,
            locality,
            targets,
        }
    }

    /// The namespace of the proxy.
    pub fn namespace(&self) -> &'a Namespace {
        &self.node.namespace
    }

    /// A metadata value: a text as it is, any other value as JSON.
    pub fn stated(&self, key: &str) -> Option<Cow<'a, str>> {
        match self.node.metadata.get(key)? {
            Value::Null => None,
            Value::String(text) => Some(Cow::Borrowed(text.as_str())),
            other => Some(Cow::Owned(other.to_string())),
        }
    }

    /// A metadata value that is not empty.
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.stated(key).filter(|text| !text.is_empty())
    }

    /// Whether a metadata value says yes, as JSON or as text.
    pub fn flag(&self, key: &str) -> bool {
        matches!(
            self.text(key).as_deref(),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True")
        )
    }

    /// A port in the metadata, as JSON number or as text.
    pub fn port(&self, key: &str) -> Option<u16> {
        self.text(key)?.parse().ok()
    }

    /// Whether it is a gRPC library that routes, balances and encrypts by itself.
    ///
    /// Istio: pilot/pkg/model/context.go IsProxylessGrpc, 1.32.
    pub fn is_grpc(&self) -> bool {
        self.node.role == Role::Sidecar && self.text("GENERATOR").as_deref() == Some("grpc")
    }

    /// The IP families that it has addresses of.
    pub fn families(&self) -> Families {
        let addresses = &self.node.addresses;
        Families {
            v4: addresses.iter().any(|a| a.is_ipv4()),
            v6: addresses.iter().any(|a| a.is_ipv6()),
        }
    }

    /// By which addresses it knows services.
    ///
    /// Istio: pilot/pkg/model/service.go nodeUsesAutoallocatedIPs, 1.32.
    pub fn addressing(&self, features: &Features) -> Addressing {
        let allocates = self.flag("DNS_AUTO_ALLOCATE") || features.ip_auto_allocate;
        let resolves = self.flag("DNS_CAPTURE") || self.node.role == Role::Waypoint;
        Addressing {
            cluster: self.node.cluster.clone(),
            families: self.families(),
            auto_allocated: allocates && resolves,
            dual_stack: features.dual_stack,
        }
    }

    /// How traffic reaches it.
    pub fn interception(&self) -> Interception {
        match self.text("INTERCEPTION_MODE").as_deref() {
            Some("TPROXY") => Interception::Tproxy,
            Some("NONE") => Interception::None,
            _ => Interception::Redirect,
        }
    }

    /// Of its labels, those that `reader` reads.
    pub fn labels_for(&self, cx: &Cx<'_, Snapshot>, reader: Reader) -> Labels {
        reader.narrow(cx, self.namespace(), &self.labels)
    }

    /// Its addresses, where its Sidecar lists ports without an address to bind, whose listeners are named after the
    /// proxy's own, or sends what it receives to the workload's own addresses. Else none.
    pub fn own_addresses(&self, cx: &Cx<'_, Snapshot>) -> Arc<[IpAddr]> {
        let sidecar = self.scope.sidecar.as_ref();
        let lists_own = sidecar
            .and_then(|name| cx.get::<Sidecar>(name))
            .is_some_and(|s| {
                let own = ["0.0.0.0:", "[::]:", ":::"];
                let to_own = |endpoint: &str| own.iter().any(|a| endpoint.starts_with(a));
                let mut listeners = s.spec.ingress.iter();
                listeners.any(|l| l.bind.is_empty() || to_own(&l.default_endpoint))
            });
        match lists_own {
            true => self.node.addresses.clone(),
            false => Arc::from([]),
        }
    }
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
    let Some(found) = labels_of_objects(cx, identity) else {
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
    if identity.cluster.is_some() {
        // ServiceEntries are of the configured cluster.
        return None;
    }
    // Whatever listens on a machine may stand at loopback, beside the proxy: what the proxy states is about itself.
    let states_labels = !identity.node.labels.is_empty();
    let addresses = identity.node.addresses.iter();
    let mut addresses = addresses.filter(|address| !(states_labels && address.is_loopback()));
    addresses.find_map(|address| services::labels_at(cx, identity, &address.to_string()))
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
