//! Listeners of sidecars: golden cases of our own, and recordings of the real control plane where those are at hand.
//!
//! `UPDATE_GOLDEN=1` rewrites the golden files. `RECORDED=base-shop` names one scenario and prints its first differences.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incr::Engine;
use model::parse::{Validation, parse};
use model::settings::{Features, Settings};
use model::{Change, SourceId};
use pilothouse_xlate::view::ProxyKey;
use pilothouse_xlate::{self as xlate, ResourceSet, TypeSet, TypeUrl, ViewOf};
use prost_reflect::{DynamicMessage, SerializeOptions};
use proto_envoy::envoy::config::core::v3 as core;
use serde_json::Value;
use store::{Snapshot, Store};

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

/// Every case is a folder with objects (`in.yaml`), a proxy (`node.json`) and what it gets (`out.json`).
#[test]
fn golden_cases_give_the_listeners_that_stand_beside_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/listeners");
    for case in sorted(&root) {
        let world = World::new(&case, &[case.join("in.yaml")]);
        let set = world.listeners(&read_json(&case.join("node.json")));
        let list: Vec<Value> = set.iter().map(|r| json(decode(&r.body))).collect();
        let text = serde_json::to_string_pretty(&list).unwrap() + "\n";
        let golden = case.join("out.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &text).unwrap();
        }
        let stands = std::fs::read_to_string(&golden).unwrap_or_default();
        assert!(
            stands == text,
            "{} differs: UPDATE_GOLDEN=1",
            golden.display()
        );
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut list: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    list.sort();
    list
}

fn read_json(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// A folder's objects and settings, applied.
struct World {
    snapshot: Arc<Snapshot>,
    engine: Engine<Snapshot>,
}

impl World {
    fn new(folder: &Path, files: &[PathBuf]) -> Self {
        let mut store = Store::new(settings(folder));
        let source = SourceId {
            rank: 0,
            name: "test".into(),
        };
        let mut changes = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            let file: Arc<Path> = file.as_path().into();
            for object in parse(&text, &file, Validation::Warn).objects() {
                changes.push(Change::Put(source.clone(), object.clone()));
            }
        }
        store.apply(changes);
        Self {
            snapshot: store.snapshot(),
            engine: Engine::new(),
        }
    }

    fn listeners(&self, node: &Value) -> Arc<ResourceSet> {
        let proxy = ViewOf(ProxyKey(Arc::new(read_node(node))));
        let view = self.engine.get(&self.snapshot, &proxy);
        let query = TypeSet {
            view: (*view).clone(),
            ty: TypeUrl::Listener,
        };
        self.engine.get(&self.snapshot, &query)
    }
}

fn score(scenario: &Path, explain: bool) -> (usize, usize) {
    let world = World::new(scenario, &sorted(&scenario.join("config")));
    let (mut equal, mut all) = (0, 0);
    for file in sorted(&scenario.join("nodes")) {
        let node = read_json(&file);
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let expected = scenario.join("expected").join(&name).join("listeners.json");
        if !node["id"].as_str().unwrap().starts_with("sidecar~") || !expected.exists() {
            continue;
        }
        let expected = read_json(&expected);
        let ours = world.listeners(&node);
        let mut extra: Vec<String> = ours.iter().map(|r| r.name.to_string()).collect();
        for wanted in expected["resources"].as_array().unwrap() {
            all += 1;
            let listener = wanted["name"].as_str().unwrap();
            extra.retain(|n| n != listener);
            let Some(resource) = ours.get(listener) else {
                report(explain, format!("{name}: {listener} is missing"));
                continue;
            };
            let got = json(decode(&resource.body));
            let wanted = json(from_json(&wanted["resource"]));
            if got == wanted {
                equal += 1;
            } else if explain {
                let mut left = 6;
                difference(&format!("{name}: {listener}"), &wanted, &got, &mut left);
            }
        }
        for extra in extra {
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
    let mesh = model::mesh::read_mesh_config(&read("mesh.yaml"), &path("mesh.yaml"));
    let networks = model::mesh::read_mesh_networks(&read("networks.yaml"), &path("networks.yaml"));
    Arc::new(Settings {
        mesh: Arc::new(mesh.value.unwrap()),
        networks: Arc::new(networks.value.unwrap()),
        features: Arc::new(Features::default()),
        domain: "cluster.local".into(),
        cluster: "Kubernetes".into(),
        system_namespace: "istio-system".into(),
    })
}

fn read_node(node: &Value) -> model::node::Node {
    let metadata: proto_istio::wkt::Struct =
        serde_json::from_value(node["metadata"].clone()).unwrap();
    let part = |key: &str| {
        node["locality"][key]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let locality = core::Locality {
        region: part("region"),
        zone: part("zone"),
        sub_zone: part("sub_zone"),
    };
    let extensions = node["extensions"].as_array().into_iter().flatten();
    let extensions = extensions.map(|name| core::Extension {
        name: name.as_str().unwrap().to_owned(),
        ..Default::default()
    });
    xlate::node::from_envoy(&core::Node {
        id: node["id"].as_str().unwrap().to_owned(),
        cluster: node["cluster"].as_str().unwrap_or_default().to_owned(),
        metadata: Some(metadata.0),
        extensions: extensions.collect(),
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
            println!(
                "{path}\n    wanted {}\n    got    {}",
                short(wanted),
                short(got)
            );
        }
    }
}
