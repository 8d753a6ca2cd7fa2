//! What Ingresses with annotations become: a folder for each case, with objects (`in.yaml`) and what is derived and
//! found (`out.json`). `UPDATE_GOLDEN=1` rewrites the latter.
//!
//! Where there is a `remotes.json`, it says of remote clusters which of their Ingresses are served, or `null`; the objects
//! of each are in `CLUSTER.yaml`, and statuses are shown as well. A `settings.json` states the default certificate
//! (`certificate`) and how many proxies before the gateway are trusted (`trustedProxies`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::Change;
use model::edge::RemoteIngress;
use model::settings::Settings;
use pilothouse_convert::status;
use serde_json::{Value, json};

use crate::edge::world::{Edge, loaded_in, loaded_with, puts, served};

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

/// The settings of a case.
fn stated(case: &Path) -> Settings {
    let mut settings = served();
    let Ok(text) = std::fs::read_to_string(case.join("settings.json")) else {
        return settings;
    };
    let stated: Value = serde_json::from_str(&text).unwrap();
    if let Some(certificate) = stated["certificate"].as_str() {
        let mut features = settings.features.as_ref().clone();
        features.edge_certificate = certificate.into();
        settings.features = features.into();
    }
    if let Some(trusted) = stated["trustedProxies"].as_u64() {
        let mesh = Arc::make_mut(&mut settings.mesh);
        let config = mesh.default_config.get_or_insert_default();
        let topology = config.gateway_topology.get_or_insert_default();
        topology.num_trusted_proxies = trusted.try_into().unwrap();
    }
    settings
}

fn shown(case: &Path) -> Value {
    let yaml = std::fs::read_to_string(case.join("in.yaml")).unwrap();
    let Ok(text) = std::fs::read_to_string(case.join("remotes.json")) else {
        return Edge::of(&loaded_in(stated(case), &yaml, Vec::new())).shown();
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
