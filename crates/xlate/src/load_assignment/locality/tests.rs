use std::sync::Arc;

use model::labels::Labels;
use model::service::{Endpoint, KubeAttributes};
use serde_json::Value;

use super::*;
use crate::load_assignment::groups::{Member, Target};
use testkit::cases;

use testkit::message;

fn service(distribution: TrafficDistribution) -> Service {
    Service {
        kube: KubeAttributes {
            traffic_distribution: distribution,
            ..KubeAttributes::default()
        },
        ..testkit::service("a.shop.svc.cluster.local", "shop")
    }
}

#[test]
fn the_setting_in_force_is_that_of_the_recordings() {
    for case in cases("core-loadbalancer", "loadbalancer.GetEffectiveLbSetting") {
        let input = &case["in"];
        let mesh = MeshConfig {
            locality_lb_setting: message(&input["meshLocality"]),
            zone_aware_lb_setting: message(&input["meshZoneAware"]),
            ..MeshConfig::default()
        };
        let rule: Option<LoadBalancerSettings> = message(&input["drSettings"]);
        let attributes = &input["service"]["Attributes"];
        let stated = [attributes, &attributes["K8sAttributes"]]
            .into_iter()
            .find_map(|a| a["TrafficDistribution"].as_u64());
        let service = service(match stated {
            Some(1) => TrafficDistribution::PreferSameZone,
            Some(2) => TrafficDistribution::PreferSameNode,
            _ => TrafficDistribution::Any,
        });
        let found = LocalityLb::of(&mesh, rule.as_ref(), &service);
        let found = found.map(|found| match found {
            LocalityLb::Locality { setting, forced } => (serde_json::to_value(&*setting), forced),
            LocalityLb::ZoneAware(setting) => (serde_json::to_value(setting), false),
        });
        let found = found.map(|(setting, forced)| (setting.expect("JSON"), forced));
        let wanted = (!case["out"].is_null()).then(|| {
            let forced = case["out"]["Force"] == Value::Bool(true);
            (case["out"]["Setting"].clone(), forced)
        });
        assert_eq!(found, wanted, "{}", case["test"]);
    }
}

#[test]
fn a_locality_lies_in_what_rules_name_as_in_the_recordings() {
    for case in cases("networking-util", "util.LocalityMatch") {
        let part = |name: &str| {
            let text = case["in"]["proxyLocality"][name].as_str();
            Arc::from(text.unwrap_or_default())
        };
        let locality = Locality {
            region: part("region"),
            zone: part("zone"),
            subzone: part("subZone"),
        };
        let rule = case["in"]["ruleLocality"].as_str().expect("a text");
        assert_eq!(lies_in(&locality, rule), case["out"], "{}", case["test"]);
    }
}

fn groups(endpoints: &[Endpoint]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for endpoint in endpoints {
        let member = Member {
            target: Target::Workload(endpoint),
            weight: 1,
            mutual_tls: false,
            all_addresses: false,
        };
        match groups.iter_mut().find(|g| *g.locality == endpoint.locality) {
            Some(group) => group.members.push(member),
            None => groups.push(Group {
                locality: &endpoint.locality,
                priority: 0,
                weight: None,
                members: vec![member],
            }),
        }
    }
    for group in &mut groups {
        group.weigh();
    }
    groups
}

fn at(places: &[&str]) -> Vec<Endpoint> {
    let endpoint = |place: &&str| {
        let locality = Locality::parse(place);
        let labels: Labels = [
            (PLACE[0], locality.region.clone()),
            (PLACE[1], locality.zone.clone()),
        ]
        .into_iter()
        .collect();
        Endpoint {
            locality,
            labels,
            ..Endpoint::default()
        }
    };
    places.iter().map(endpoint).collect()
}

fn client(place: &str) -> EndpointClient {
    let locality = Locality::parse(place);
    let labels = [
        (PLACE[0], locality.region.clone()),
        (PLACE[1], locality.zone.clone()),
    ];
    EndpointClient {
        labels: Some(labels.into_iter().collect()),
        locality: Some(locality),
        ..EndpointClient::default()
    }
}

/// `place=priority*weight` of each group.
fn shown(groups: &[Group<'_>]) -> Vec<String> {
    let show = |g: &Group<'_>| {
        let weight = g.weight.unwrap_or_default();
        let empty = if g.members.is_empty() { " empty" } else { "" };
        format!("{}={}*{weight}{empty}", g.locality, g.priority)
    };
    groups.iter().map(show).collect()
}

fn apply(setting: &str, place: &str, outlier: bool) -> Vec<String> {
    let setting: LocalityLoadBalancerSetting = serde_json::from_str(setting).expect("JSON");
    let endpoints = at(&["r1/z1", "r1/z2", "r2/z3", "r3/z4", "r1/z1"]);
    let lb = LocalityLb::Locality {
        setting: Cow::Borrowed(&setting),
        forced: false,
    };
    shown(&lb.apply(groups(&endpoints), &client(place), outlier))
}

#[test]
fn failover_goes_by_distance_and_named_regions_come_first() {
    let near = ["r1/z1=0*2", "r1/z2=1*1", "r2/z3=2*1", "r3/z4=2*1"];
    assert_eq!(apply("{}", "r1/z1", true), near);
    let named = r#"{"failover":[{"from":"r1","to":"r3"}]}"#;
    let ordered = ["r1/z1=0*2", "r1/z2=1*1", "r2/z3=3*1", "r3/z4=2*1"];
    assert_eq!(apply(named, "r1/z1", true), ordered);
}

#[test]
fn without_outlier_detection_nothing_fails_over() {
    let flat = ["r1/z1=0*2", "r1/z2=0*1", "r2/z3=0*1", "r3/z4=0*1"];
    assert_eq!(apply("{}", "r1/z1", false), flat);
}

#[test]
fn distribution_divides_shares_by_weight_and_empties_the_rest() {
    let setting = r#"{"distribute":[{"from":"r1/*","to":{"r1/*":80,"r2/z3":20}}]}"#;
    let shares = ["r1/z1=0*54", "r1/z2=0*27", "r2/z3=0*20", "r3/z4=0*1 empty"];
    assert_eq!(apply(setting, "r1/z1", false), shares);
}

#[test]
fn priorities_by_label_split_localities_and_close_gaps() {
    let setting =
        r#"{"failoverPriority":["topology.kubernetes.io/region","topology.kubernetes.io/zone"]}"#;
    let ordered = ["r1/z1=0*2", "r1/z2=1*1", "r2/z3=2*1", "r3/z4=2*1"];
    assert_eq!(apply(setting, "r1/z1", true), ordered);
    let stated = r#"{"failoverPriority":["topology.kubernetes.io/region=r2"]}"#;
    let ordered = ["r1/z1=1*2", "r1/z2=1*1", "r2/z3=0*1", "r3/z4=1*1"];
    assert_eq!(apply(stated, "r1/z1", true), ordered);
}
