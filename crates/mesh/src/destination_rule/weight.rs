//! How much the clusters of a service weigh under a rule: each port has one, and one for each subset, and each repeats
//! what the rule says.

use model::kinds::istio::DestinationRule;
use model::service::{Endpoint, Service};
use prost::Message;
use proto_istio::networking::load_balancer_settings::{ConsistentHashLb, LbPolicy};

use super::MergedDestinationRule;
use crate::limits::{
    CLUSTER_BYTES, HASH_BYTES, SERVICE_BYTES, SUBSET_ENDPOINTS, SUBSET_STEPS, product,
};

/// Rules with fewer subsets than this and less text are looked at no closer.
const FEW_SUBSETS: usize = 64;
const SHORT: usize = 64 << 10;

/// Which of a service's clusters are made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Extent {
    /// Not even those of the service itself: its rule says too much to be repeated for each port.
    Nothing,
    /// Those of the service itself: what goes to a subset is refused.
    WithoutSubsets,
    /// All of them.
    All,
}

/// Whether a rule alone is a reason to look closer.
pub fn may_be_large(rule: &DestinationRule) -> bool {
    rule.subsets.len() >= FEW_SUBSETS || rule.encoded_len() >= SHORT
}

/// Where a rule says more of how requests are hashed than every route may repeat.
pub fn large_hash(rule: &DestinationRule) -> Option<String> {
    let mut large = hashes(rule).filter(|(_, hash)| hash.encoded_len() > HASH_BYTES);
    large.next().map(|(path, _)| path)
}

/// What a rule hashes requests by, with the field that says it.
pub fn hashes(rule: &DestinationRule) -> impl Iterator<Item = (String, &ConsistentHashLb)> {
    let own = ("spec".to_owned(), rule.traffic_policy.as_ref());
    let subsets = rule.subsets.iter().enumerate();
    let subsets = subsets.map(|(at, s)| (format!("spec.subsets[{at}]"), s.traffic_policy.as_ref()));
    std::iter::once(own)
        .chain(subsets)
        .flat_map(|(path, policy)| {
            let ports = policy.map_or(&[][..], |policy| &policy.port_level_settings);
            let ports = ports.iter().map(|port| port.load_balancer.as_ref());
            let whole = policy.and_then(|policy| policy.load_balancer.as_ref());
            let hashes = std::iter::once(whole)
                .chain(ports)
                .filter_map(|balancer| match balancer?.lb_policy.as_ref()? {
                    LbPolicy::ConsistentHash(hash) => Some(hash),
                    LbPolicy::Simple(_) | LbPolicy::BackendUtilization(_) => None,
                });
            hashes.map(move |hash| {
                (
                    format!("{path}.trafficPolicy.loadBalancer.consistentHash"),
                    hash,
                )
            })
        })
}

impl Extent {
    /// What is made of a service under a rule, where every cluster also holds so many bytes of names of servers.
    pub fn of(rule: Option<&MergedDestinationRule>, service: &Service, names: usize) -> Self {
        let Some(rule) = rule else { return Self::All };
        if rule.too_large() {
            return Self::Nothing;
        }
        let spec = rule.spec();
        let subsets: usize = spec
            .subsets
            .iter()
            .map(|s| s.traffic_policy.as_ref().map_or(0, Message::encoded_len))
            .sum();
        let base = spec.traffic_policy.as_ref().map_or(0, Message::encoded_len);
        let each = base + names + CLUSTER_BYTES;
        let ports = service.ports.len();
        let plain = product([each, ports]);
        let all = product([each, spec.subsets.len() + 1]).saturating_add(subsets);
        let all_fit = product([all, ports]) <= SERVICE_BYTES && !rule.over_budget();
        if all_fit || spec.subsets.is_empty() && base < SHORT {
            Self::All
        } else if plain <= SERVICE_BYTES || base < SHORT {
            Self::WithoutSubsets
        } else {
            Self::Nothing
        }
    }

    /// The same, where the subsets may list too many endpoints.
    pub fn with_endpoints(
        self,
        rule: Option<&MergedDestinationRule>,
        endpoints: &[Endpoint],
    ) -> Self {
        let Some(rule) = rule.filter(|_| self == Self::All) else {
            return self;
        };
        let subsets = &rule.spec().subsets;
        let pairs = product([subsets.len(), endpoints.len()]);
        if pairs <= SUBSET_ENDPOINTS {
            return self;
        }
        let listed = || {
            let of = |labels| {
                endpoints
                    .iter()
                    .filter(move |e| e.labels.matches_map(labels))
            };
            let counts = subsets.iter().map(|s| of(&s.labels).count());
            counts.fold(0, usize::saturating_add)
        };
        match pairs > SUBSET_STEPS || listed() > SUBSET_ENDPOINTS {
            true => Self::WithoutSubsets,
            false => self,
        }
    }
}
