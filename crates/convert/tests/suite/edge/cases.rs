//! What Ingresses with annotations become: a folder for each case, with objects (`in.yaml`) and what is derived and
//! found (`out.json`). `UPDATE_GOLDEN=1` rewrites the latter.
//!
//! Where there is a `remotes.json`, it says of remote clusters which of their Ingresses are served, or `null`; the objects
//! of each are in `CLUSTER.yaml`, and statuses are shown as well.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::Change;
use model::edge::RemoteIngress;
use pilothouse_convert::status;
use serde_json::{Value, json};

use crate::edge::world::{Edge, loaded_with, puts};

/// The objects of remote clusters, and which of their Ingresses are served.
fn remote(case: &Path, clusters: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut served = BTreeMap::new();
    for (cluster, said) in clusters.as_object().unwrap() {
        let yaml = std::fs::read_to_string(case.join(format!("{cluster}.yaml"))).unwrap();
        changes.extend(puts(Some(cluster), &yaml));
        if !said.is_null() {
            let said = RemoteIngress {
                classes: said["classes"].as_str().unwrap().into(),
                namespaces: said["namespaces"].as_str().unwrap_or_default().into(),
                writes_status: said["status"].as_bool().unwrap(),
            };
            served.insert(cluster.as_str().into(), said);
        }
    }
    changes.push(Change::RemoteIngresses(Arc::new(served)));
    changes
}

fn shown(case: &Path) -> Value {
    let yaml = std::fs::read_to_string(case.join("in.yaml")).unwrap();
    let Ok(text) = std::fs::read_to_string(case.join("remotes.json")) else {
        return Edge::of(&loaded_with(&yaml, Vec::new())).shown();
    };
    let clusters: Value = serde_json::from_str(&text).unwrap();
    let loaded = loaded_with(&yaml, remote(case, &clusters));
    let mut shown = Edge::of(&loaded).shown();
    let statuses = status::all(&loaded.store.snapshot()).into_iter();
    let statuses = statuses.map(|told| (told.object.to_string(), told.status));
    shown["statuses"] = json!(statuses.collect::<BTreeMap<_, _>>());
    shown
}

#[test]
fn every_case_becomes_what_stands_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edge/cases");
    testkit::golden_cases(&folder, shown);
}
