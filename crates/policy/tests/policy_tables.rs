//! Authentication policies against what Istio's own tests have recorded, where that is at hand.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Change;
use model::jwks::{FetchedKeys, KeySource};
use model::outside::Outside;
use pilothouse_policy as policy;
use policy::authn::{MutualTls, PeerPolicies};
use policy::security::SecurityOf;
use serde_json::{Value, json};
use testkit::{Score, Table, World, differences};

const ROOT: &str = "root-namespace";

/// A world of the recorded objects of one kind. Those without a namespace or name get one.
fn world(kind: &str, configs: &Value) -> World {
    let mut world = World::new(testkit::settings(&format!("rootNamespace: {ROOT}")));
    for (at, config) in configs.as_array().into_iter().flatten().enumerate() {
        let mut object = config.clone();
        object["apiVersion"] = "security.istio.io/v1".into();
        object["kind"] = kind.into();
        let meta = &mut object["metadata"];
        if meta["namespace"] == "" {
            meta["namespace"] = "my-ns".into();
        }
        if meta["name"] == "" {
            meta["name"] = format!("p{at}").into();
        }
        world.put(&object.to_string());
    }
    world
}

fn code(mode: MutualTls) -> u64 {
    match mode {
        MutualTls::Disable => 1,
        MutualTls::Permissive => 2,
        MutualTls::Strict => 3,
    }
}

fn labels(node: &Value) -> model::Labels {
    let given: BTreeMap<String, String> = serde_json::from_value(node.clone()).unwrap_or_default();
    given.into_iter().collect()
}

#[test]
fn peer_authentications_are_merged_as_recorded() {
    let Some(table) = Table::load("authn") else {
        return;
    };
    let mut score = Score::default();
    for case in table.of("authn.ComposePeerAuthentication") {
        let world = world("PeerAuthentication", &case["in"]["configs"]);
        let peers = world.get(&PeerPolicies("my-ns".into()));
        // All recorded policies select the workload.
        let mut all = BTreeMap::new();
        for config in case["in"]["configs"].as_array().into_iter().flatten() {
            let selected = &config["spec"]["selector"]["matchLabels"];
            for (key, value) in selected.as_object().into_iter().flatten() {
                all.insert(key.clone(), value.as_str().unwrap().to_owned());
            }
        }
        let all: model::Labels = all.into_iter().collect();
        let mut found = json!({"Mode": code(peers.of_workload(&all, 1))});
        for port in peers.stated_ports(&all) {
            found["PerPort"][port.to_string()] = code(peers.of_workload(&all, port)).into();
        }
        score.count(
            case["test"].as_str().unwrap(),
            &differences(&case["out"], &found),
        );
    }
    for case in table.of("authn.policyApplier.InboundMTLSSettings") {
        let made = table.of("authn.newPolicyApplier");
        let Some(made) = { made }.find(|m| m["test"] == case["test"]) else {
            continue;
        };
        let world = world("PeerAuthentication", &made["in"]["peerPolicies"]);
        let peers = world.get(&PeerPolicies("my-ns".into()));
        let port = u16::try_from(case["in"]["endpointPort"].as_u64().unwrap()).unwrap();
        let labels = labels(&case["in"]["node"]["Labels"]);
        let found = json!(code(peers.of_workload(&labels, port)));
        score.count(
            case["test"].as_str().unwrap(),
            &differences(&case["out"]["Mode"], &found),
        );
    }
    score.all_as_recorded();
}

#[test]
fn request_authentications_become_the_filters_recorded() {
    let Some(table) = Table::load("authn") else {
        return;
    };
    let mut score = Score::default();
    for case in table.of("authn.policyApplier.JwtFilter") {
        let name = case["test"].as_str().unwrap();
        let made = table.of("authn.newPolicyApplier");
        let made = { made }.find(|m| m["test"] == case["test"]);
        // Which services the mesh knew is not recorded; and keys that are none are not passed on here. Both are tested
        // in `findings`.
        let elsewhere = name.contains("remote_jwks_mode") || name.ends_with("with_inline_Jwks");
        let Some(made) = made.filter(|_| !elsewhere) else {
            continue;
        };
        let mut world = world("RequestAuthentication", &made["in"]["jwtPolicies"]);
        let filter = |world: &World| -> Value {
            let security = world.get(&SecurityOf {
                namespace: "my-ns".into(),
                labels: model::Labels::default(),
                gateway: case["in"]["clearRouteCache"] == true,
            });
            let Some(filter) = security.http.authn.first() else {
                return Value::Null;
            };
            use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
            let Some(hcm::http_filter::ConfigType::TypedConfig(config)) = &filter.config_type
            else {
                return Value::Null;
            };
            let config = descriptors::json::from_bytes(&config.type_url, &config.value);
            json!({"name": filter.name, "typedConfig": config})
        };
        // What Istio fetched in its test, or used where that failed.
        let wanted = &case["out"]["typedConfig"]["providers"]["origins-0"];
        if let Some(keys) = wanted["localJwks"]["inlineString"].as_str() {
            let fetched = Arc::new(FetchedKeys {
                keys: Some(Outside::new(keys.into())),
                trouble: None,
            });
            let sources: Vec<KeySource> = world
                .get(&policy::jwt::WantedKeys)
                .keys()
                .cloned()
                .collect();
            world.apply(
                sources
                    .into_iter()
                    .map(|source| Change::Keys(source, Some(fetched.clone()))),
            );
        }
        score.count(name, &differences(&case["out"], &filter(&world)));
    }
    score.all_as_recorded();
}
