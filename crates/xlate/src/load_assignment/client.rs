//! A proxy as far as the endpoints of a service depend on it.

use std::sync::Arc;

use model::labels::Labels;
use model::names::{ClusterId, Network};
use model::node::Role;
use model::service::{Locality, Service, TrafficDistribution};
use model::settings::Settings;
use proto_istio::networking::TrafficPolicy;

use super::locality::{LocalityLb, PLACE};
use mesh::destination_rule::MergedDestinationRule;
use mesh::view::{Families, View};

/// The label that names the node of the proxy.
const NODE: &str = PLACE[5];
const NETWORK_VIEW: &str = "REQUESTED_NETWORK_VIEW";

/// What endpoints depend on of a proxy, reduced to what they do depend on for one service: proxies that differ in
/// nothing else share assignments.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct EndpointClient {
    /// Whether it is a sidecar, where there are several networks: it reaches others by mutual TLS only.
    pub(crate) sidecar: bool,
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
    /// The proxy of a view, for services on whose endpoints its place has no say.
    pub(crate) fn anywhere(view: &View, multi_network: bool) -> Self {
        let mut client = Self {
            cluster: view.cluster.clone(),
            networks: network_view(view),
            ..Self::default()
        };
        if multi_network {
            client.sidecar = view.role == Role::Sidecar;
            client.network = view.network.clone();
            client.families = view.families;
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

    /// The proxy of a view, for one service.
    pub(crate) fn of(
        view: &View,
        settings: &Settings,
        multi_network: bool,
        service: &Service,
        rule: Option<&MergedDestinationRule>,
    ) -> Self {
        let place = LocalityInfluence::of(settings, service, rule);
        let node = service.kube.node_local;
        Self {
            locality: place.decides.then(|| view.locality.clone()),
            labels: place.labels(view),
            node: node.then(|| view.labels.get(NODE).unwrap_or_default().into()),
            ..Self::anywhere(view, multi_network)
        }
    }
}

fn network_view(view: &View) -> Option<Arc<[Network]>> {
    let list = view.metadata.get(NETWORK_VIEW).filter(|l| !l.is_empty())?;
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

        let mut place = Self::default();
        let mut consider = |lb: Option<LocalityLb<'_>>| {
            if let Some(lb) = lb.filter(|lb| failover || lb.always_decides()) {
                place.decides = true;
                let names = lb.failover_priority().iter();
                let names = names.filter_map(|label| label.split('=').next());
                place.labels.extend(names.map(str::to_owned));
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
        place.labels.sort();
        place.labels.dedup();
        place
    }

    /// The values of the labels, those of the proxy's place among them.
    fn labels(&self, view: &View) -> Option<Labels> {
        if self.labels.is_empty() || view.labels.is_empty() {
            return None;
        }
        let value = |name: &String| Some((Arc::from(name.as_str()), view.labels.get(name)?));
        let values: Vec<(Arc<str>, &str)> = self.labels.iter().filter_map(value).collect();
        Some(values.into_iter().collect())
    }
}
