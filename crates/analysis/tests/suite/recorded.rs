//! The table of istioctl's analyzers: the same codes about the same objects.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::mesh::{read_mesh_config, read_mesh_networks};
use model::parse::{Validation, parse};
use model::{AnyObject, Change, ClusterId, Owner, Scope, Timestamp};
use pilothouse_analysis::{Analysis, Finding, clusters, implied};
use serde_json::Value;
use store::Store;
use testkit::{Score, Table, World, recordings, settings};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn objects(case: &Value, field: &str, root: &Path) -> Vec<AnyObject> {
    let files = case[field].as_array().into_iter().flatten();
    let files = files.filter_map(Value::as_str);
    files
        .flat_map(|file| {
            let path: Arc<Path> = Path::new(file).into();
            let parsed = parse(&read(&root.join(file)), &path, Validation::Warn);
            parsed.objects().cloned().collect::<Vec<_>>()
        })
        .collect()
}

fn source() -> Owner {
    Owner::new(0, "test")
}

fn puts(objects: Vec<AnyObject>) -> impl Iterator<Item = Change> {
    objects.into_iter().map(|o| Change::Put(source(), o))
}

fn found(case: &Value, root: &Path) -> Vec<Finding> {
    let mut settings = settings("");
    if let Some(file) = case["meshConfigFile"].as_str() {
        let path: Arc<Path> = Path::new(file).into();
        let config = read_mesh_config(&read(&root.join(file)), &path);
        settings.mesh = Arc::new(config.value.expect("the mesh config can be read"));
    }
    if let Some(file) = case["meshNetworksFile"].as_str() {
        let path: Arc<Path> = Path::new(file).into();
        let networks = read_mesh_networks(&read(&root.join(file)), &path);
        settings.networks = Arc::new(networks.value.expect("the networks can be read"));
    }
    if case["analyzer"] == "all-multi-cluster" {
        let snapshots = ["cluster1InputFiles", "cluster2InputFiles"].map(|field| {
            let mut store = Store::new(Arc::new(settings.clone()));
            store.apply(puts(objects(case, field, root)));
            (ClusterId::from(field), store.snapshot())
        });
        return clusters::inconsistent(snapshots.iter().map(|(id, s)| (id, &**s)));
    }
    let implied = implied::objects(&settings);
    let mut world = World::new(settings);
    world.apply(puts(implied).chain(puts(objects(case, "inputFiles", root))));
    let analyzer = case["analyzer"].as_str().expect("text");
    // The recordings were made when the certificates of the cases were as they should be.
    let now = Timestamp(1_760_000_000);
    let all = world.get(&Analysis);
    all.iter()
        .filter(|f| f.analyzer == analyzer && f.holds_at(now) && !implied::is_about(f))
        .cloned()
        .collect()
}

fn shown(finding: &Finding) -> (String, String) {
    let d = &finding.diagnostic;
    let object = match &d.object {
        Some(key) if key.kind.scope() == Scope::Namespaced => {
            format!("{} {}", key.kind.name(), key.name)
        }
        Some(key) => format!("{} {}", key.kind.name(), key.name.name),
        None => "MeshNetworks istio-system/meshnetworks".to_owned(),
    };
    (d.code.to_owned(), object)
}

/// An object of the table: what names no namespace was read into the default one.
fn recorded(message: &Value) -> (String, String) {
    let text = message["object"].as_str().expect("text");
    let (kind, name) = text.split_once(' ').expect("kind and name");
    let namespaced = model::Kind::ALL
        .iter()
        .any(|k| k.name() == kind && k.scope() == Scope::Namespaced);
    let object = match namespaced && !name.contains('/') {
        true => format!("{kind} default/{name}"),
        false => text.to_owned(),
    };
    (message["code"].as_str().expect("text").to_owned(), object)
}

fn counted(all: impl Iterator<Item = (String, String)>) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}

#[test]
fn the_recorded_analyzers_find_the_same_codes_on_the_same_objects() {
    let (Some(table), Some(recordings)) = (Table::load("analyzers"), recordings()) else {
        return;
    };
    let root = recordings.join("istio/pkg/config/analysis/analyzers");
    let mut score = Score::default();
    for case in &table.cases {
        let found = found(case, &root);
        let ours = counted(found.iter().map(shown));
        let theirs = counted(
            case["expected"]
                .as_array()
                .expect("a list")
                .iter()
                .map(recorded),
        );
        let mut differences = Vec::new();
        if ours != theirs {
            differences.push(format!("expected {theirs:?}, found {ours:?}"));
            differences.extend(found.iter().map(|f| f.diagnostic.to_string()));
        }
        let name = format!("{} ({})", case["name"], case["analyzer"]);
        score.count(&name, &differences);
    }
    score.all_as_recorded();
}
