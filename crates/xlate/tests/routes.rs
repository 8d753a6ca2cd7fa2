//! Route configurations against recordings of the real istiod, where those are there.

use std::collections::BTreeSet;

use pilothouse_xlate::TypeUrl;
use serde_json::Value;
use testkit::scenario::{Scenario, corpus, readable};

/// Lists whose order means nothing.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in ["virtual_hosts", "headers", "query_parameters", "domains"] {
                if let Some(Value::Array(list)) = map.get_mut(key) {
                    list.sort_by_key(Value::to_string);
                }
            }
            map.values_mut().for_each(normalise);
        }
        Value::Array(list) => list.iter_mut().for_each(normalise),
        _ => {}
    }
}

#[test]
fn scenarios() {
    let Some(corpus) = corpus() else { return };
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let (mut equal, mut all) = (0, 0);
    let mut folders: Vec<_> = std::fs::read_dir(corpus)
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .collect();
    folders.sort();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if !folder.is_dir() || !name.starts_with(&only) {
            continue;
        }
        let scenario = Scenario::load(&folder);
        for node in scenario.nodes.keys() {
            let recorded = scenario.recorded(node, "routes");
            let ours = scenario.generate(node, TypeUrl::Route);
            let names: BTreeSet<&String> = recorded.keys().collect();
            for route in names {
                all += 1;
                let mut theirs = recorded[route].clone();
                let Some(resource) = ours.get(route) else {
                    println!("{name}/{node} {route}: missing");
                    continue;
                };
                let mut ours = readable(TypeUrl::Route, &resource.body);
                normalise(&mut ours);
                normalise(&mut theirs);
                if ours == theirs {
                    equal += 1;
                } else {
                    println!("{name}/{node} {route}: different");
                    if std::env::var("SHOW").is_ok() {
                        let dir = format!("/tmp/routes/diff/{name}/{node}");
                        std::fs::create_dir_all(&dir).unwrap();
                        let write = |side: &str, value: &Value| {
                            let text = serde_json::to_string_pretty(value).unwrap();
                            std::fs::write(
                                format!("{dir}/{}.{side}.json", route.replace('/', "_")),
                                text,
                            )
                            .unwrap();
                        };
                        write("ours", &ours);
                        write("theirs", &theirs);
                    }
                }
            }
        }
    }
    println!("{equal} of {all} equal");
}
