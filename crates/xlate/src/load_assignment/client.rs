//! A proxy as far as the endpoints of a service depend on it.

use std::sync::Arc;

use incr::Cx;
use mesh::destination_rule::MergedDestinationRule;
use mesh::label_names::{Reader, only};
use mesh::proxy::Traits;
use mesh::view::Families;
use model::labels::Labels;
use model::names::{ClusterId, Network};
use model::node::Role;
use model::service::{Locality, Service, TrafficDistribution};
use model::settings::Settings;
use proto_istio::networking::TrafficPolicy;
use store::Snapshot;

use super::locality::{LocalityLb, PLACE};

/// The label that names the node of the proxy.
const NODE: &str = PLACE[5];
const NETWORK_VIEW: &str = "REQUESTED_NETWORK_VIEW";

/// Where a proxy stands, as far as any endpoints may depend on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    sidecar: bool,
    grpc: bool,
    cluster: ClusterId,
    network: Network,
    families: Families,
    /// The networks that the proxy wants to see; all where it does not say.
    networks: Option<Arc<[Network]>>,
    locality: Locality,
    /// Whether it has any labels.
    labelled: bool,
    /// The labels that are compared with those of endpoints; the node's name is among them only where that decides for some
    /// service.
    labels: Labels,
}

impl Place {
    /// That of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let compared = proxy.labels_for(cx, Reader::Places);
        let wide = |key: &str| PLACE.contains(&key) && key != NODE;
        Self {
            sidecar: proxy.node.role == Role::Sidecar,
            grpc: proxy.is_grpc(),
            cluster: proxy.node.cluster.clone(),
            network: proxy.node.network.clone(),
            families: proxy.families(),
            networks: network_view(proxy),
            locality: proxy.locality.clone(),
            labelled: !proxy.labels.is_empty(),
            labels: only(&proxy.labels, |key| wide(key) || compared.contains(key)),
        }
    }
}

/// What endpoints depend on of a proxy, reduced to what they do depend on for one service: proxies that differ in
/// nothing else share assignments.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct EndpointClient {
    /// Whether it is a sidecar, where there are several networks: it reaches others by mutual TLS only.
    pub(crate) sidecar: bool,
    /// Whether it is a gRPC library: all its clusters get their endpoints by EDS.
    pub(crate) grpc: bool,
    /// The cluster of the proxy.
    pub(crate) cluster: ClusterId,
    /// The network, where there are several.
    pub(crate) network: Network,
    /// The families, where there are several networks.
    pub(crate) families: Families,
    /// The networks that the proxy wants to see; all where it does not say.
    pub(crate) networks: Option<Arc<[Network]>>,
    /// The node, where the service keeps traffic on it.
    pub(crate) node: Option<Arc<str>>,
    /// The locality, where it decides.
    pub(crate) locality: Option<Locality>,
    /// The labels that decide on priority; `None` where labels do not matter or the proxy has none.
    pub(crate) labels: Option<Labels>,
}

impl EndpointClient {
    /// A proxy, for services on whose endpoints its place has no say.
    pub(crate) fn anywhere(place: &Place, multi_network: bool) -> Self {
        let mut client = Self {
            grpc: place.grpc,
            cluster: place.cluster.clone(),
            networks: place.networks.clone(),
            ..Self::default()
        };
        if multi_network {
            client.sidecar = place.sidecar;
            client.network = place.network.clone();
            client.families = place.families;
        }
        client
    }

    /// Whether the place of the client has a say on the endpoints of a service.
    pub(crate) fn place_decides(
        settings: &Settings,
        service: &Service,
        rule: Option<&MergedDestinationRule>,
    ) -> bool {
        service.kube.node_local || LocalityInfluence::of(settings, service, rule).decides
    }

    /// A proxy, for one service.
    pub(crate) fn of(
        place: &Place,
        settings: &Settings,
        multi_network: bool,
        service: &Service,
        rule: Option<&MergedDestinationRule>,
    ) -> Self {
        let decisive = LocalityInfluence::of(settings, service, rule);
        let node = service.kube.node_local;
        Self {
            locality: decisive.decides.then(|| place.locality.clone()),
            labels: decisive.labels(place),
            node: node.then(|| place.labels.get(NODE).unwrap_or_default().into()),
            ..Self::anywhere(place, multi_network)
        }
    }
}

fn network_view(proxy: &Traits<'_>) -> Option<Arc<[Network]>> {
    let list = proxy.text(NETWORK_VIEW)?;
    Some(list.split(',').map(Network::from).collect())
}

/// What of a client's place decides on the endpoints of a service, over all its ports and subsets.
#[derive(Default)]
struct LocalityInfluence {
    decides: bool,
    /// Names of labels, sorted.
    labels: Vec<String>,
}

impl LocalityInfluence {
    fn of(settings: &Settings, service: &Service, rule: Option<&MergedDestinationRule>) -> Self {
        let mesh = &settings.mesh;
        let policies: Vec<&TrafficPolicy> = rule
            .map(MergedDestinationRule::spec)
            .into_iter()
            .flat_map(|rule| {
                let subsets = rule.subsets.iter();
                let subsets = subsets.filter_map(|s| s.traffic_policy.as_ref());
                rule.traffic_policy.iter().chain(subsets)
            })
            .collect();
        let outlier = |policy: &&TrafficPolicy| {
            let mut ports = policy.port_level_settings.iter();
            policy.outlier_detection.is_some() || ports.any(|p| p.outlier_detection.is_some())
        };
        // Outlier detection of one level may meet a load balancer of another: any of them counts.
        let default = mesh.default_traffic_policy.as_ref();
        let failover = policies.iter().any(outlier)
            || default.is_some_and(|p| p.outlier_detection.is_some())
            || service.kube.traffic_distribution != TrafficDistribution::Any;

        let mut decisive = Self::default();
        let mut consider = |lb: Option<LocalityLb<'_>>| {
            if let Some(lb) = lb.filter(|lb| failover || lb.always_decides()) {
                decisive.decides = true;
                let names = lb.failover_priority().iter();
                let names = names.filter_map(|label| label.split('=').next());
                decisive.labels.extend(names.map(str::to_owned));
            }
        };
        consider(LocalityLb::of(mesh, None, service));
        for policy in policies {
            let ports = policy.port_level_settings.iter();
            let ports = ports.filter_map(|p| p.load_balancer.as_ref());
            for lb in policy.load_balancer.iter().chain(ports) {
                consider(LocalityLb::of(mesh, Some(lb), service));
            }
        }
        decisive.labels.sort();
        decisive.labels.dedup();
        decisive
    }

    /// The values of the labels, those of the proxy's place among them.
    fn labels(&self, place: &Place) -> Option<Labels> {
        if self.labels.is_empty() || !place.labelled {
            return None;
        }
        let value = |name: &String| Some((Arc::from(name.as_str()), place.labels.get(name)?));
        let values: Vec<(Arc<str>, &str)> = self.labels.iter().filter_map(value).collect();
        Some(values.into_iter().collect())
    }
}
