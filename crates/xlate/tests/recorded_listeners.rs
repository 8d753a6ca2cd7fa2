//! Listeners of sidecars against recordings of the real control plane, where those are at hand.
//!
//! `RECORDED=base-shop` names one scenario and prints its first differences.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incr::Engine;
use model::parse::{Validation, parse};
use model::settings::{Features, Settings};
use model::{Change, SourceId};
use prost_reflect::{DynamicMessage, SerializeOptions};
use proto_envoy::envoy::config::core::v3 as core;
use serde_json::Value;
use store::{Snapshot, Store};
use xlate::view::ProxyKey;
use xlate::{TypeSet, TypeUrl, ViewOf};

/// Scenario groups that hold services, Sidecars and what listeners read besides.
const GROUPS: &[&str] = &[
    "base-",
    "se-",
    "node-",
    "kube-services",
    "istio-bookinfo",
    "istio-bench-tcp",
    "istio-bench-http",
    "istio-bench-tls",
    "istio-bench-auto",
    "sidecar-",
    "mesh-",
    "pa-",
    "vs-",
    "dr-",
    "tel-",
];

#[test]
fn sidecars_get_the_listeners_that_were_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/scenarios");
    let only = std::env::var("RECORDED").ok();
    let Ok(entries) = std::fs::read_dir(&root) else {
        println!("skipped: there are no recordings");
        return;
    };
    let mut scenarios: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            match &only {
                Some(only) => name.contains(only.as_str()),
                None => GROUPS.iter().any(|g| name.starts_with(g)),
            }
        })
        .filter(|p| p.join("expected").is_dir())
        .collect();
    scenarios.sort();
    let (mut equal, mut all) = (0, 0);
    for scenario in scenarios {
        let (e, a) = score(&scenario, only.is_some());
        println!("{e:4}/{a:<4} {}", scenario.file_name().unwrap().display());
        equal += e;
        all += a;
    }
    println!("{equal}/{all} listeners equal");
    assert!(only.is_some() || equal * 100 >= all * 90);
}

fn score(scenario: &Path, explain: bool) -> (usize, usize) {
    let settings = settings(scenario);
    let mut store = Store::new(settings);
    let source = SourceId {
        rank: 0,
        name: "test".into(),
    };
    let mut changes = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(scenario.join("config"))
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let file: Arc<Path> = file.into();
        for object in parse(&text, &file, Validation::Warn).objects() {
            changes.push(Change::Put(source.clone(), object.clone()));
        }
    }
    store.apply(&changes);
    let snapshot = store.snapshot();
    let mut engine: Engine<Snapshot> = Engine::new();
    let mut nodes: Vec<PathBuf> = std::fs::read_dir(scenario.join("nodes"))
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .collect();
    nodes.sort();
    let (mut equal, mut all) = (0, 0);
    for file in nodes {
        let node: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        if !node["id"].as_str().unwrap().starts_with("sidecar~") {
            continue;
        }
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let expected = scenario.join("expected").join(&name).join("listeners.json");
        let Ok(text) = std::fs::read_to_string(expected) else {
            continue;
        };
        let expected: Value = serde_json::from_str(&text).unwrap();
        let view = engine.get(&snapshot, &ViewOf(ProxyKey(Arc::new(read_node(&node)))));
        let query = TypeSet {
            view: (*view).clone(),
            ty: TypeUrl::Listener,
        };
        engine.root(&query);
        let ours = engine.get(&snapshot, &query);
        let mut names: Vec<String> = ours.iter().map(|r| r.name.to_string()).collect();
        for wanted in expected["resources"].as_array().unwrap() {
            all += 1;
            let name_of = wanted["name"].as_str().unwrap();
            names.retain(|n| n != name_of);
            let Some(resource) = ours.get(name_of) else {
                report(explain, format!("{name}: {name_of} is missing"));
                continue;
            };
            let got = json(decode(&resource.body));
            let wanted = json(from_json(&wanted["resource"]));
            if got == wanted {
                equal += 1;
            } else if explain {
                let mut left = 6;
                difference(&format!("{name}: {name_of}"), &wanted, &got, &mut left);
            }
        }
        for extra in names {
            all += 1;
            report(explain, format!("{name}: {extra} is too much"));
        }
    }
    (equal, all)
}

fn report(explain: bool, line: String) {
    if explain {
        println!("{line}");
    }
}

fn settings(scenario: &Path) -> Arc<Settings> {
    let read = |name: &str| std::fs::read_to_string(scenario.join(name)).unwrap_or_default();
    let path = |name: &str| -> Arc<Path> { scenario.join(name).into() };
    let mesh = model::mesh::mesh_config(&read("mesh.yaml"), &path("mesh.yaml"));
    let networks = model::mesh::mesh_networks(&read("networks.yaml"), &path("networks.yaml"));
    Arc::new(Settings {
        mesh: Arc::new(mesh.unwrap()),
        networks: Arc::new(networks.unwrap()),
        features: Arc::new(Features::default()),
        domain: "cluster.local".into(),
        cluster: "Kubernetes".into(),
        system_namespace: "istio-system".into(),
    })
}

fn read_node(node: &Value) -> model::node::Node {
    let metadata: proto_istio::wkt::Struct =
        serde_json::from_value(node["metadata"].clone()).unwrap();
    let part = |key: &str| node["locality"][key].as_str().unwrap_or_default().to_owned();
    let locality = core::Locality {
        region: part("region"),
        zone: part("zone"),
        sub_zone: part("sub_zone"),
    };
    xlate::node::from_envoy(&core::Node {
        id: node["id"].as_str().unwrap().to_owned(),
        cluster: node["cluster"].as_str().unwrap_or_default().to_owned(),
        metadata: Some(metadata.0),
        locality: node["locality"].is_object().then_some(locality),
        ..Default::default()
    })
    .unwrap()
}

fn descriptor() -> prost_reflect::MessageDescriptor {
    xlate::json::pool()
        .get_message_by_name("envoy.config.listener.v3.Listener")
        .unwrap()
}

fn decode(body: &[u8]) -> DynamicMessage {
    DynamicMessage::decode(descriptor(), body).unwrap()
}

fn from_json(value: &Value) -> DynamicMessage {
    DynamicMessage::deserialize(descriptor(), value).unwrap()
}

fn json(message: DynamicMessage) -> Value {
    let options = SerializeOptions::new().skip_default_fields(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .unwrap()
}

fn difference(path: &str, wanted: &Value, got: &Value, left: &mut usize) {
    if wanted == got || *left == 0 {
        return;
    }
    match (wanted, got) {
        (Value::Object(w), Value::Object(g)) => {
            for key in w.keys().chain(g.keys().filter(|k| !w.contains_key(*k))) {
                let none = Value::Null;
                let (w, g) = (w.get(key).unwrap_or(&none), g.get(key).unwrap_or(&none));
                difference(&format!("{path}.{key}"), w, g, left);
            }
        }
        (Value::Array(w), Value::Array(g)) if w.len() == g.len() => {
            for (at, (w, g)) in w.iter().zip(g).enumerate() {
                difference(&format!("{path}[{at}]"), w, g, left);
            }
        }
        _ => {
            *left -= 1;
            let short = |v: &Value| v.to_string().chars().take(300).collect::<String>();
            println!("{path}\n    wanted {}\n    got    {}", short(wanted), short(got));
        }
    }
}
