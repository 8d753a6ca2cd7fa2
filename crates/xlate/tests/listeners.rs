//! Listeners: golden cases of our own, and recordings of the real control plane where those are at hand.
//!
//! `UPDATE_GOLDEN=1` rewrites the golden files. `RECORDED=base-shop` names scenarios, and prints their differences.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_xlate::TypeUrl;
use serde_json::Value;
use testkit::{Scenario, World, decode, differences, node, settings};

/// Scenarios of services, Sidecars and what listeners read besides; those of policies and patches are scored elsewhere.
const GROUPS: &[&str] = &[
    "base-",
    "dr-",
    "istio-bookinfo",
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
    "se-",
    "sidecar-",
    "tel-",
    "vs-",
];

#[test]
fn sidecars_get_the_listeners_that_were_recorded() {
    let only = std::env::var("RECORDED").ok();
    let (mut equal, mut all) = (0, 0);
    for name in Scenario::names() {
        let wanted = match &only {
            Some(part) => name.contains(part.as_str()),
            None => GROUPS.iter().any(|group| name.starts_with(group)),
        };
        if !wanted {
            continue;
        }
        let (e, a) = score(&name, only.is_some());
        println!("{e:4}/{a:<4} {name}");
        equal += e;
        all += a;
    }
    println!("{equal}/{all} listeners equal");
    assert!(only.is_some() || equal * 100 >= all * 95);
}

fn score(name: &str, explain: bool) -> (usize, usize) {
    let ty = TypeUrl::Listener;
    let Some(scenario) = Scenario::recorded(name) else {
        return (0, 0);
    };
    let (mut equal, mut all) = (0, 0);
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
                (Some(wanted), Some(got)) => differences(wanted, got),
                (None, _) => vec!["too much".to_owned()],
                (_, None) => vec!["missing".to_owned()],
            };
            all += 1;
            equal += usize::from(differences.is_empty());
            for line in differences.iter().take(if explain { 6 } else { 0 }) {
                let line: String = line.chars().take(700).collect();
                println!("{name} {proxy} {listener}: {line}");
            }
        }
    }
    (equal, all)
}

/// Every case is a folder with objects (`in.yaml`), maybe `mesh.yaml`, a proxy (`node.json`) and what it gets
/// (`out.json`).
#[test]
fn golden_cases_give_the_listeners_that_stand_beside_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/listeners");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .collect();
    cases.sort();
    for case in cases {
        let read = |name: &str| std::fs::read_to_string(case.join(name)).unwrap_or_default();
        let mut world = World::new(settings(&read("mesh.yaml")));
        world.put(&read("in.yaml"));
        let view = world.view(&node(&serde_json::from_str(&read("node.json")).unwrap()));
        let ty = TypeUrl::Listener;
        let set = world.set(&view, ty);
        let shown = |r: &Arc<pilothouse_xlate::Resource>| decode(ty.as_str(), &r.body);
        let list: Vec<Value> = set.iter().map(shown).collect();
        let text = serde_json::to_string_pretty(&list).unwrap() + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(case.join("out.json"), &text).unwrap();
        }
        assert!(
            read("out.json") == text,
            "{}: UPDATE_GOLDEN=1",
            case.display()
        );
    }
}
