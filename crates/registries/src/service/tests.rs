use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::Score;

use super::*;
use crate::fixed::instance;
use crate::recorded;

fn making() -> Making {
    Making {
        owner: Owner::new(250, "registry:consul/a"),
        kind: "consul".into(),
        name: "a".into(),
        protocol: Protocol::Http,
        sni: "".into(),
        ports: VirtualPorts::default(),
        only_in: None,
    }
}

fn weighing(weights: &[f64]) -> Vec<u32> {
    let instances: Vec<Instance> = (1..)
        .zip(weights)
        .map(|(n, weight)| Instance {
            weight: *weight,
            ..instance(&format!("10.0.0.{n}"), 80)
        })
        .collect();
    let made = making().make(&"a".into(), &instances, &Limits::default());
    let made = made.unwrap();
    made.entry.spec.endpoints.iter().map(|e| e.weight).collect()
}

#[test]
fn weights_keep_their_proportion_and_none_becomes_nothing() {
    assert_eq!(weighing(&[5.0, 3.0, 2.0]), [5, 3, 2]);
    assert_eq!(weighing(&[0.4, 0.5, 0.6]), [40, 50, 60]);
    assert_eq!(weighing(&[100.0, 50.5]), [10_000, 5_050]);
    assert_eq!(weighing(&[0.001, 1.0]), [1, 100]);
    // Nothing is nothing; what makes no sense is 1.
    assert_eq!(weighing(&[0.0, 3.0]), [3]);
    assert_eq!(weighing(&[-1.0, f64::NAN, 3.0]), [1, 1, 3]);
    assert_eq!(weighing(&[f64::INFINITY, 0.5]), [1_000_000, 50]);
}

/// An instance as Higress's table has it.
fn of_table(row: &Value) -> Instance {
    Instance {
        weight: row["weight"].as_f64().unwrap(),
        ..instance(
            row["ip"].as_str().unwrap(),
            row["port"].as_u64().unwrap().try_into().unwrap(),
        )
    }
}

#[test]
fn services_become_what_they_become_with_higress() {
    let made = |instances: &[Instance]| {
        let made = making().make(&"a".into(), instances, &Limits::default());
        made.unwrap().entry.spec.clone()
    };
    let mut score = Score::default();
    for case in recorded::cases("Test_generateServiceEntry_Weight") {
        let services = case["services"].as_array().unwrap();
        let instances: Vec<Instance> = services.iter().map(of_table).collect();
        let weights: Vec<u32> = made(&instances)
            .endpoints
            .iter()
            .map(|e| e.weight)
            .collect();
        let differences = testkit::differences(&case["expectedWeights"], &json!(weights));
        score.count(case["name"].as_str().unwrap(), &differences);
    }
    for case in recorded::cases("Test_generateServiceEntry_DNSResolution") {
        let entry = made(&[of_table(&case)]);
        let found = json!([entry.resolution().as_str_name(), entry.endpoints[0].address]);
        let differences = testkit::differences(&json!(["DNS", case["ip"]]), &found);
        score.count("a host is looked up", &differences);
    }
    score.as_listed(include_str!("../../tests/differences/registry.txt"));
}

#[test]
fn the_heaviest_list_is_within_what_envoy_sums_up() {
    let limits = Limits::default();
    let heaviest = HEAVIEST * PARTS * limits.instances as f64;
    assert!(heaviest <= f64::from(u32::MAX));
}

#[test]
fn the_order_of_instances_does_not_matter() {
    let mut instances: Vec<Instance> = (0..9)
        .map(|n| instance(&format!("10.0.0.{}", n % 4), 80 + n / 4))
        .collect();
    let made = |instances: &[Instance]| {
        let made = making().make(&"a".into(), instances, &Limits::default());
        made.unwrap()
    };
    let one = made(&instances);
    instances.reverse();
    assert!(one.means_the_same(&made(&instances)));
    assert_eq!(one.entry.spec.ports[0].number, 80, "the one of most");
}

#[test]
fn what_gets_no_requests_still_says_what_the_service_is() {
    let sick = Instance {
        healthy: false,
        metadata: BTreeMap::from([("protocol".into(), "tri".into())]),
        ..instance("10.0.0.1", 7)
    };
    let made = making().make(&"a".into(), &[sick], &Limits::default());
    let spec = &made.unwrap().entry.spec;
    assert!(spec.endpoints.is_empty());
    assert_eq!(
        (spec.ports[0].number, &*spec.ports[0].protocol),
        (7, "GRPC")
    );
    assert!(
        making()
            .make(&"a".into(), &[], &Limits::default())
            .is_none()
    );
}

#[test]
fn names_make_a_service_of_names_and_tls_a_rule() {
    let api = Making {
        protocol: Protocol::Https,
        sni: "api.example".into(),
        ..making()
    };
    let made = api.make(
        &"a".into(),
        &[instance("api.example", 443)],
        &Limits::default(),
    );
    let made = made.unwrap();
    assert_eq!(made.entry.spec.resolution, Resolution::Dns as i32);
    let rule = made.rule.unwrap();
    let tls = rule.spec.traffic_policy.clone().unwrap().tls.unwrap();
    assert_eq!(
        (tls.mode, &*tls.sni),
        (TlSmode::Simple as i32, "api.example")
    );
}

#[test]
fn addresses_that_are_none_are_left_out() {
    for address in ["", "a b", "unix:///run/x", "10.0.0.1|x", "a..b", "a/b", "*"] {
        let instances = [instance(address, 80), instance("10.0.0.1", 80)];
        let made = making().make(&"a".into(), &instances, &Limits::default());
        assert_eq!(made.unwrap().entry.spec.endpoints.len(), 1, "{address}");
    }
    let without_port = making().make(&"a".into(), &[instance("a", 0)], &Limits::default());
    assert!(without_port.is_none());
}

#[test]
fn metadata_and_instances_have_limits() {
    let limits = Limits {
        instances: 2,
        pairs: 1,
        value_bytes: 3,
        ..Limits::default()
    };
    let metadata = [("a", "long"), ("b", "abc"), ("c", "c")];
    let metadata: BTreeMap<Arc<str>, Arc<str>> = metadata
        .iter()
        .map(|(k, v)| ((*k).into(), (*v).into()))
        .collect();
    let instances: Vec<Instance> = (1..9)
        .map(|n| Instance {
            metadata: metadata.clone(),
            ..instance(&format!("10.0.0.{n}"), 80)
        })
        .collect();
    let made = making().make(&"a".into(), &instances, &limits).unwrap();
    let endpoints = &made.entry.spec.endpoints;
    assert_eq!(endpoints.len(), 2);
    assert_eq!(
        endpoints[0].labels,
        BTreeMap::from([("b".into(), "abc".into())]).into()
    );
    // Equal ones take their memory once.
    assert!(std::ptr::eq(&*endpoints[0].labels, &*endpoints[1].labels));
}

#[test]
fn virtual_ports_stand_for_those_of_instances() {
    let virtual_port = Making {
        ports: VirtualPorts {
            default: Some(8080),
            services: BTreeMap::from([("b".into(), 9090)]),
        },
        ..making()
    };
    for (host, number) in [("a", 8080), ("b", 9090)] {
        let instances = [instance("10.0.0.1", 80)];
        let made = virtual_port.make(&host.into(), &instances, &Limits::default());
        let made = made.unwrap();
        assert_eq!(made.entry.spec.ports[0].number, number);
        assert_eq!(made.entry.spec.endpoints[0].ports["http"], 80);
    }
}

#[test]
fn endpoints_name_their_port_where_it_is_another() {
    let instances = [("10.0.0.1", 80), ("10.0.0.2", 80), ("10.0.0.3", 81)];
    let instances = instances.map(|(address, port)| instance(address, port));
    let made = making().make(&"a".into(), &instances, &Limits::default());
    let spec = &made.unwrap().entry.spec;
    let own: Vec<_> = spec.endpoints.iter().map(|e| e.ports.get("http")).collect();
    assert_eq!(
        (spec.ports[0].number, own),
        (80, vec![None, None, Some(&81)])
    );
}
