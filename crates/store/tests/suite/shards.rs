//! What updates of endpoint shards mean.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::Labels;
use model::change::{Owner, ServiceKey, ShardKey};
use model::service::{Address, Endpoint, Health, Locality};
use model::{Change, Hostname};
use pilothouse_store::Input;
use pilothouse_store::shards::{ServiceShards, ShardUpdate};
use serde_json::Value;
use testkit::{Score, Table, World};

fn text(value: &Value, key: &str) -> Arc<str> {
    Arc::from(value[key].as_str().unwrap_or_default())
}

fn endpoint(e: &Value) -> Endpoint {
    let hosts = e["Addresses"].as_array().into_iter().flatten();
    let labels = e["Labels"].as_object().into_iter().flatten();
    let number = |key: &str| e[key].as_u64().unwrap_or_default();
    Endpoint {
        address: Address::Socket {
            hosts: hosts.filter_map(|h| h.as_str().map(Arc::from)).collect(),
            port: u16::try_from(number("EndpointPort")).unwrap(),
        },
        port_name: text(e, "ServicePortName"),
        service_port: u16::try_from(number("LegacyClusterPortKey")).unwrap(),
        labels: labels
            .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
            .collect::<Labels>(),
        service_account: text(e, "ServiceAccount"),
        network: text(e, "Network").into(),
        locality: Locality::parse(&text(&e["Locality"], "Label")),
        cluster: text(&e["Locality"], "ClusterID").into(),
        weight: u32::try_from(number("LbWeight")).unwrap(),
        health: match number("HealthStatus") {
            2 => Health::Unhealthy,
            3 => Health::Draining,
            4 => Health::Terminating,
            _ => Health::Healthy,
        },
        mutual_tls: e["TLSMode"] == "istio",
        workload: text(e, "WorkloadName"),
        namespace: text(e, "Namespace").into(),
        node: text(e, "NodeName"),
        hostname: text(e, "HostName"),
        subdomain: text(e, "SubDomain"),
        cluster_local: false,
    }
}

fn list(value: &Value) -> Arc<[Endpoint]> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(endpoint)
        .collect()
}

fn shard(text: &str) -> (ShardKey, Owner) {
    let (provider, cluster) = text.split_once('/').unwrap();
    let shard = ShardKey {
        provider: provider.into(),
        cluster: cluster.into(),
    };
    (shard, owner())
}

fn owner() -> Owner {
    Owner::new(0, "consul")
}

/// What a recording says that a service has; `None` where it is not known.
fn shards(value: &Value) -> Option<ServiceShards> {
    let known = value["exists"].as_bool().unwrap();
    let accounts = value["serviceAccounts"].as_array().into_iter().flatten();
    let shards = value["shards"].as_object().into_iter().flatten();
    known.then(|| ServiceShards {
        shards: shards.map(|(k, v)| (shard(k), list(v))).collect(),
        service_accounts: accounts.filter_map(|a| a.as_str().map(Arc::from)).collect(),
    })
}

#[test]
fn updates_mean_what_they_do_to_istiod() {
    let Some(table) = Table::load("eds-updates") else {
        return;
    };
    let mut score = Score::default();
    for case in &table.cases {
        let before = shards(&case["before"]);
        let listed = case["endpoints"].as_array().into_iter().flatten();
        let unhealthy_too = listed.clone().any(|e| e["SendUnhealthyEndpoints"] == true);
        let (after, update) = ServiceShards::update(
            before.as_ref(),
            &shard(case["shard"].as_str().unwrap()),
            &list(&case["endpoints"]),
            unhealthy_too,
        );
        let wanted = match case["pushType"].as_str().unwrap() {
            "FullPush" => ShardUpdate::Service,
            "IncrementalPush" => ShardUpdate::Endpoints,
            _ => ShardUpdate::None,
        };
        let mut differences = Vec::new();
        if update != wanted {
            differences.push(format!("wanted {wanted:?}, got {update:?}"));
        }
        let wanted = shards(&case["after"]);
        if after != wanted {
            differences.push(format!("wanted {wanted:?}, got {after:?}"));
        }
        score.count(case["test"].as_str().unwrap(), &differences);
    }
    score.as_listed(include_str!("../differences/shards.txt"));
}

fn at(ip: &str, account: &str, health: Health) -> Endpoint {
    Endpoint {
        address: Address::Socket {
            hosts: Arc::from([Arc::from(ip)]),
            port: 80,
        },
        service_account: account.into(),
        health,
        ..Endpoint::default()
    }
}

fn update(
    before: Option<&ServiceShards>,
    list: &[Endpoint],
) -> (Option<ServiceShards>, ShardUpdate) {
    ServiceShards::update(before, &shard("Consul/one"), &Arc::from(list), false)
}

#[test]
fn an_empty_list_drops_the_shard_and_keeps_the_service() {
    let (before, _) = update(None, &[at("10.0.0.1", "spiffe://a", Health::Healthy)]);
    let (after, update) = update(before.as_ref(), &[]);
    assert_eq!(update, ShardUpdate::Endpoints);
    assert_eq!(after, Some(ServiceShards::default()));
}

#[test]
fn an_unknown_service_is_more_than_an_endpoint_push() {
    let (_, update) = update(None, &[at("10.0.0.1", "", Health::Healthy)]);
    assert_eq!(update, ShardUpdate::Service);
}

#[test]
fn a_new_unhealthy_endpoint_is_stored_without_a_push() {
    let one = at("10.0.0.1", "", Health::Healthy);
    let two = at("10.0.0.2", "", Health::Unhealthy);
    let (before, _) = update(None, std::slice::from_ref(&one));
    let (after, update) = update(before.as_ref(), &[one, two]);
    assert_eq!(update, ShardUpdate::None);
    assert_eq!(after.unwrap().endpoints().count(), 2);
}

#[test]
fn a_new_unhealthy_endpoint_is_read_again_and_no_reason_to_push() {
    let service = ServiceKey {
        namespace: "shop".into(),
        host: Hostname::from("reviews.consul"),
    };
    let tell = |list: Vec<Endpoint>| Change::Endpoints {
        owner: owner(),
        service: service.clone(),
        shard: shard("Consul/one").0,
        list: list.into(),
    };
    let mut world = World::default();
    let one = at("10.0.0.1", "", Health::Healthy);
    let changes = world.apply([tell(vec![one.clone()])]);
    assert!(changes.keys.contains(&Input::Shards(&service).key()));
    let two = at("10.0.0.2", "", Health::Unhealthy);
    let changes = world.apply([tell(vec![one.clone(), two.clone()])]);
    assert!(changes.keys.contains(&Input::Shards(&service).key()));
    assert!(changes.reasons.is_empty());
    assert!(world.apply([tell(vec![one, two])]).is_empty());
    let snapshot = world.store.snapshot();
    let stored = snapshot.shards.get(&service).unwrap();
    assert_eq!(stored.endpoints().count(), 2);
}

#[test]
fn whatever_differs_is_read_again() {
    let service = ServiceKey {
        namespace: "shop".into(),
        host: Hostname::from("reviews.consul"),
    };
    let one = at("10.0.0.1", "", Health::Healthy);
    let two = at("10.0.0.2", "", Health::Healthy);
    let mut world = World::default();
    for list in [
        vec![one.clone()],
        vec![one.clone(), one.clone()],
        vec![one.clone(), two.clone()],
        vec![two, one],
        vec![],
    ] {
        let changes = world.apply([Change::Endpoints {
            owner: owner(),
            service: service.clone(),
            shard: shard("Consul/one").0,
            list: list.clone().into(),
        }]);
        assert!(
            changes.keys.contains(&Input::Shards(&service).key()),
            "{list:?}"
        );
        let snapshot = world.store.snapshot();
        let stored = snapshot.shards.get(&service).unwrap();
        assert_eq!(stored.endpoints().cloned().collect::<Vec<_>>(), list);
    }
}

#[test]
fn a_change_of_identities_is_more_than_an_endpoint_push() {
    let (before, _) = update(None, &[at("10.0.0.1", "spiffe://a", Health::Healthy)]);
    let (after, update) = update(
        before.as_ref(),
        &[at("10.0.0.1", "spiffe://b", Health::Healthy)],
    );
    assert_eq!(update, ShardUpdate::Service);
    assert!(after.unwrap().service_accounts.contains("spiffe://b"));
}

#[test]
fn nothing_told_of_an_unknown_service_leaves_it_unknown() {
    assert_eq!(update(None, &[]).0, None);
}
