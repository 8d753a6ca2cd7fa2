//! Weights and priorities by locality, relative to the client.
//!
//! Istio: pilot/pkg/networking/core/loadbalancer/loadbalancer.go, 1.32.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use model::service::{Locality, Service, TrafficDistribution};
use model::settings::MeshConfig;
use proto_istio::networking::locality_load_balancer_setting::{Distribute, Failover};
use proto_istio::networking::{
    LoadBalancerSettings, LocalityLoadBalancerSetting, ZoneAwareLoadBalancerSetting,
};

use super::client::EndpointClient;
use super::groups::Group;

/// The labels that say where a workload stands: region, zone, sub-zone, network, cluster, node.
pub(super) const PLACE: [&str; 6] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.istio.io/subzone",
    "topology.istio.io/network",
    "topology.istio.io/cluster",
    "kubernetes.io/hostname",
];

/// Locality load balancing in force for a port.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum LocalityLb<'a> {
    /// Weights or failover by locality.
    Locality {
        /// As configured, or made from the service's traffic distribution.
        setting: Cow<'a, LocalityLoadBalancerSetting>,
        /// Failover also without outlier detection.
        forced: bool,
    },
    /// Envoy's zone-aware routing.
    ZoneAware(&'a ZoneAwareLoadBalancerSetting),
}

impl<'a> LocalityLb<'a> {
    /// The rule's setting, else the service's traffic distribution, else the mesh's setting; `None` where it is off.
    ///
    /// Istio: GetEffectiveLbSetting.
    pub(crate) fn of(
        mesh: &'a MeshConfig,
        rule: Option<&'a LoadBalancerSettings>,
        service: &Service,
    ) -> Option<Self> {
        if let Some(zones) = rule.and_then(|r| r.zone_aware_lb_setting.as_ref()) {
            return Some(Self::ZoneAware(zones));
        }
        if let Some(setting) = rule.and_then(|r| r.locality_lb_setting.as_ref()) {
            return Self::unless_off(setting);
        }
        let [region, zone, subzone, network, _, node] = PLACE;
        let near: &[&str] = match service.kube.traffic_distribution {
            TrafficDistribution::PreferSameZone => &[network, region, zone],
            TrafficDistribution::PreferSameNode => &[network, region, zone, subzone, node],
            TrafficDistribution::Any | TrafficDistribution::PreferSameNetwork => &[],
        };
        if !near.is_empty() {
            let setting = LocalityLoadBalancerSetting {
                enabled: Some(true),
                failover_priority: near.iter().map(|l| (*l).to_owned()).collect(),
                ..LocalityLoadBalancerSetting::default()
            };
            return Some(Self::Locality {
                setting: Cow::Owned(setting),
                forced: true,
            });
        }
        if let Some(zones) = &mesh.zone_aware_lb_setting {
            return Some(Self::ZoneAware(zones));
        }
        Self::unless_off(mesh.locality_lb_setting.as_ref()?)
    }

    /// Whether it says how many requests localities get.
    pub(crate) fn distributes(&self) -> bool {
        match self {
            Self::Locality { setting, .. } => !setting.distribute.is_empty(),
            Self::ZoneAware(_) => false,
        }
    }

    fn unless_off(setting: &'a LocalityLoadBalancerSetting) -> Option<Self> {
        (setting.enabled != Some(false)).then_some(Self::Locality {
            setting: Cow::Borrowed(setting),
            forced: false,
        })
    }

    /// Whether the client's place matters even without outlier detection.
    pub(super) fn always_decides(&self) -> bool {
        match self {
            Self::Locality { setting, forced } => *forced || !setting.distribute.is_empty(),
            Self::ZoneAware(setting) => setting.enabled != Some(false),
        }
    }

    /// The labels by which endpoints are ordered, as written.
    pub(super) fn failover_priority(&self) -> &[String] {
        match self {
            Self::Locality { setting, .. } => &setting.failover_priority,
            Self::ZoneAware(setting) => &setting.failover_priority,
        }
    }

    /// Gives groups their weights and priorities for a client; may split groups.
    ///
    /// Istio: ApplyLocalityLoadBalancer, ApplyZoneAwareLoadBalancer.
    pub(crate) fn apply<'e>(
        &self,
        mut groups: Vec<Group<'e>>,
        client: &EndpointClient,
        outlier_detection: bool,
    ) -> Vec<Group<'e>> {
        let nowhere = Locality::default();
        let place = client.locality.as_ref().unwrap_or(&nowhere);
        match self {
            Self::Locality { setting, .. } if !setting.distribute.is_empty() => {
                distribute(&mut groups, place, &setting.distribute);
            }
            Self::Locality { setting, forced } if *forced || outlier_detection => {
                let by_label = !setting.failover_priority.is_empty();
                if by_label {
                    groups = by_labels(groups, client, &setting.failover_priority);
                }
                if !by_label || !setting.failover.is_empty() {
                    fail_over(&mut groups, place, &setting.failover);
                }
            }
            Self::ZoneAware(setting) if setting.enabled != Some(false) => {
                if !setting.failover_priority.is_empty() {
                    groups = by_labels(groups, client, &setting.failover_priority);
                }
                let to = setting.failover.iter().find(|f| *f.from == *place.region);
                prioritize(&mut groups, 3, |group| {
                    let region = &group.locality.region;
                    match to {
                        _ if *region == place.region => 0,
                        Some(failover) if *failover.to == **region => 1,
                        _ => 2,
                    }
                });
            }
            Self::Locality { .. } | Self::ZoneAware(_) => {}
        }
        groups
    }
}

/// Whether a locality lies in what a rule names (`region/zone/*`).
///
/// Istio: pilot/pkg/networking/util/util.go LocalityMatch, 1.32.
fn lies_in(locality: &Locality, rule: &str) -> bool {
    let mut parts = rule.split('/');
    let mut part = || parts.next().unwrap_or_default();
    let (region, zone, subzone) = (part(), part(), part());
    let fits = |rule: &str, own: &str| rule == "*" || rule.is_empty() || rule == own;
    (region == "*" || *locality.region == *region)
        && fits(zone, &locality.zone)
        && fits(subzone, &locality.subzone)
}

/// Istio: applyLocalityWeights.
fn distribute(groups: &mut [Group<'_>], place: &Locality, rules: &[Distribute]) {
    let Some(rule) = rules.iter().find(|r| lies_in(place, &r.from)) else {
        return;
    };
    let weight_of = |group: &Group<'_>| u64::from(group.weight.unwrap_or(1));
    let mut left: Vec<&mut Group<'_>> = groups.iter_mut().collect();
    for (to, share) in &rule.to {
        let (taken, others): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|group| lies_in(group.locality, to));
        left = others;
        let total: u64 = taken.iter().map(|group| weight_of(group)).sum();
        for group in taken {
            let weight = (weight_of(group) * u64::from(*share)).div_ceil(total.max(1));
            if weight > 0 {
                group.weight = Some(u32::try_from(weight).unwrap_or(u32::MAX));
            }
        }
    }
    // What the rule does not name gets nothing.
    for group in left {
        group.members.clear();
    }
}

/// Istio: applyLocalityFailover.
fn fail_over(groups: &mut [Group<'_>], place: &Locality, failover: &[Failover]) {
    let to = failover.iter().find(|f| *f.from == *place.region);
    prioritize(groups, 5, |group| {
        let there = group.locality;
        if place.region != there.region {
            3 + u32::from(to.is_some_and(|f| *f.to != *there.region))
        } else if place.zone != there.zone {
            2
        } else {
            u32::from(place.subzone != there.subzone)
        }
    });
}

/// Refines the priorities that groups have by a further one below `levels`, and closes the gaps.
fn prioritize(groups: &mut [Group<'_>], levels: u32, level: impl Fn(&Group<'_>) -> u32) {
    for group in groups.iter_mut() {
        group.priority = group.priority * levels + level(group);
    }
    close_gaps(groups);
}

fn close_gaps(groups: &mut [Group<'_>]) {
    let used: BTreeSet<u32> = groups.iter().map(|g| g.priority).collect();
    for group in groups.iter_mut() {
        let rank = used.range(..group.priority).count();
        group.priority = u32::try_from(rank).unwrap_or(u32::MAX);
    }
}

/// Splits groups by how many of the labels, in order, endpoints share with the client.
///
/// Istio: applyFailoverPriorities.
fn by_labels<'e>(
    groups: Vec<Group<'e>>,
    client: &EndpointClient,
    priority: &[String],
) -> Vec<Group<'e>> {
    let Some(labels) = &client.labels else {
        return groups;
    };
    let wanted: Vec<(&str, &str)> = priority
        .iter()
        .map(|label| match label.split_once('=') {
            Some(stated) => stated,
            None => (&**label, labels.get(label).unwrap_or_default()),
        })
        .collect();
    let network_first = wanted.first().is_some_and(|(name, _)| *name == PLACE[3]);
    let count = u32::try_from(wanted.len()).unwrap_or(u32::MAX);

    let mut split = Vec::new();
    for group in groups {
        let mut parts: BTreeMap<u32, Group<'e>> = BTreeMap::new();
        for member in group.members {
            let mut priority = 0;
            let mut elsewhere = 0;
            for (at, (name, value)) in (0..).zip(&wanted) {
                if member.label(name) == *value {
                    continue;
                }
                if at == 0 && network_first {
                    // Another network comes after every endpoint of the own one, but is ordered within.
                    elsewhere = count;
                    continue;
                }
                priority = count - at;
                break;
            }
            priority += elsewhere;
            let part = parts.entry(priority).or_insert_with(|| Group {
                locality: group.locality,
                priority,
                weight: None,
                members: Vec::new(),
            });
            part.members.push(member);
        }
        for (_, mut part) in parts {
            part.weigh();
            split.push(part);
        }
    }
    close_gaps(&mut split);
    split
}

#[cfg(test)]
mod tests;
