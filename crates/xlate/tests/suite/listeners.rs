//! Listeners: golden cases of our own, and recordings of the real control plane where those are at hand.
//!
//! `UPDATE_GOLDEN=1` rewrites the golden files. `RECORDED=base-shop` names scenarios, or a folder
//! of them by its path, and prints their differences.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use prost_reflect::DynamicMessage;
use serde_json::Value;
use testkit::{Scenario, Score, World, decode, differences, golden, node};
use xds::TypeUrl;

/// Scenarios of services, Sidecars and what listeners read besides.
const GROUPS: &[&str] = &[
    "ap-",
    "base-",
    "dr-",
    "ef-",
    "istio-authz-",
    "istio-bookinfo",
    "istio-bench-authorizationpolicy",
    "istio-bench-auto",
    "istio-bench-empty",
    "istio-bench-externalname",
    "istio-bench-http",
    "istio-bench-tcp",
    "istio-bench-tls",
    "kube-services",
    "mesh-",
    "node-",
    "pa-",
    "ra-",
    "se-",
    "sidecar-",
    "tel-",
    "traffic-",
    "trust-",
    "vs-",
    "wasm-",
];

#[test]
fn sidecars_get_the_listeners_that_were_recorded() {
    let only = std::env::var("RECORDED").ok();
    let mut score = Score::default();
    let folders = match &only {
        Some(folder) if folder.contains('/') => sorted(Path::new(folder)),
        _ => Scenario::names().into_iter().map(PathBuf::from).collect(),
    };
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy();
        let wanted = match &only {
            Some(part) => folder.is_absolute() || name.contains(part.as_str()),
            None => GROUPS.iter().any(|group| name.starts_with(group)),
        };
        if !wanted {
            continue;
        }
        let scenario = if folder.is_absolute() {
            Some(Scenario::load(&folder))
        } else {
            Scenario::recorded(&name)
        };
        let Some(scenario) = scenario else {
            continue;
        };
        count(&mut score, &name, &scenario, only.is_some());
    }
    if only.is_none() {
        score.all_as_recorded();
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut list: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    list.sort();
    list
}

/// A message as JSON with the names of the definitions, however the recording wrote them.
fn normal(ty: TypeUrl, value: &Value) -> Value {
    let (_, name) = ty.as_str().rsplit_once('/').unwrap();
    let descriptor = descriptors::pool().get_message_by_name(name).unwrap();
    let message = DynamicMessage::deserialize(descriptor, value).unwrap();
    decode(ty.as_str(), &message.encode_to_vec())
}

fn count(score: &mut Score, name: &str, scenario: &Scenario, explain: bool) {
    let ty = TypeUrl::Listener;
    for proxy in scenario.nodes.keys() {
        if !scenario.nodes[proxy].id.starts_with("sidecar~") {
            continue;
        }
        let Some(expected) = scenario.expected(proxy, ty) else {
            continue;
        };
        let ours = scenario.generated(proxy, ty);
        let mut names: Vec<&String> = expected.keys().chain(ours.keys()).collect();
        names.sort();
        names.dedup();
        for listener in names {
            let (wanted, got) = (&expected.get(listener), &ours.get(listener));
            let differences = match (wanted, got) {
                (Some(wanted), Some(got)) => differences(&normal(ty, wanted), got),
                (None, _) => vec!["too much".to_owned()],
                (_, None) => vec!["missing".to_owned()],
            };
            score.count(&format!("{name}/{proxy} {listener}"), &differences);
            for line in differences.iter().take(if explain { 6 } else { 0 }) {
                let line: String = line.chars().take(700).collect();
                println!("{name} {proxy} {listener}: {line}");
            }
        }
    }
}

#[test]
fn golden_cases_give_the_listeners_that_stand_beside_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/listeners");
    golden(&folder, TypeUrl::Listener);
}

fn service(name: &str, address: u8) -> String {
    format!(
        "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{ name: {name}, namespace: shop }}
spec:
  hosts: [{name}.example.com]
  addresses: [10.0.0.{address}]
  ports: [{{ number: 5000, name: tcp, protocol: TCP }}]
  resolution: DNS
"
    )
}

#[test]
fn a_new_service_builds_its_own_listener_and_no_other() {
    let built = |world: &World| {
        let stats = world.engine.stats();
        let of_type = stats
            .queries
            .iter()
            .filter(|q| q.name.ends_with("OutboundListener"));
        of_type.map(|q| q.runs).sum::<u64>()
    };
    let yaml: String = (1..=20).map(|at| service(&format!("s{at}"), at)).collect();
    let mut world = World::of(&yaml);
    let proxy = node(&serde_json::json!({
        "id": "sidecar~10.1.0.1~web-0.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes"},
    }));
    let view = world.view(&proxy);
    let before = world.set(&view, TypeUrl::Listener);
    let runs = built(&world);
    assert_eq!(runs, 20);

    world.put(&service("another", 99));
    let after = world.set(&view, TypeUrl::Listener);
    assert_eq!(built(&world) - runs, 1);
    assert_eq!(after.len(), before.len() + 1);
    for old in before.iter() {
        let new = after.get(&old.name).unwrap();
        assert!(Arc::ptr_eq(old, new), "{} was built again", old.name);
    }
}

#[test]
fn server_names_differ_in_more_than_case_and_have_whole_wildcards() {
    let entry = |name: &str, hosts: &str| {
        format!(
            "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{ name: {name}, namespace: shop }}
spec:
  hosts: {hosts}
  location: MESH_EXTERNAL
  ports: [{{ number: 443, name: tls, protocol: TLS }}]
  resolution: NONE
"
        )
    };
    let yaml = [
        entry("one", "[api.vendor.example]"),
        entry("two", "[API.vendor.example]"),
        entry("three", "['*gallery.vendor.example', '*.Vendor.example']"),
        entry("bank", "[api.bank.example]"),
    ];
    let world = World::of(&yaml.concat());
    let proxy = node(&serde_json::json!({
        "id": "sidecar~10.1.0.1~web-0.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes"},
    }));
    let view = world.view(&proxy);
    let set = world.set(&view, TypeUrl::Listener);
    let listener = decode(
        TypeUrl::Listener.as_str(),
        &set.get("0.0.0.0_443").unwrap().body,
    );
    let chains = listener["filter_chains"].as_array().unwrap();
    let names = chains
        .iter()
        .flat_map(|chain| chain["filter_chain_match"]["server_names"].as_array());
    let mut names: Vec<&str> = names.flatten().filter_map(Value::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["*.vendor.example", "api.bank.example", "api.vendor.example"]
    );
}
