//! Golden cases: objects, a proxy, and what it gets.

use std::path::Path;

use serde_json::Value;
use xds::TypeUrl;

use crate::message::decode;
use crate::world::{World, node};

/// Runs every case of a folder. A case is a folder with objects (`in.yaml`), a proxy (`node.json`) and the resources it
/// gets of a type (`out.json`); `UPDATE_GOLDEN=1` rewrites the latter.
///
/// # Panics
///
/// When a case gives something else, or is none.
pub fn golden(folder: &Path, ty: TypeUrl) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut cases: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    cases.sort();
    let different: Vec<String> = cases
        .iter()
        .filter(|case| !run(case, ty))
        .map(|case| case.display().to_string())
        .collect();
    assert!(
        different.is_empty(),
        "not as it stands there (see the difference with UPDATE_GOLDEN=1): {different:?}"
    );
}

fn run(case: &Path, ty: TypeUrl) -> bool {
    let read = |name: &str| {
        let path = case.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let world = World::of(&read("in.yaml"));
    let description: Value = serde_json::from_str(&read("node.json"))
        .unwrap_or_else(|e| panic!("{}: {e}", case.display()));
    let set = world.set(&world.view(&node(&description)), ty);
    let list: Vec<Value> = set.iter().map(|r| decode(ty.as_str(), &r.body)).collect();
    let mut text = serde_json::to_string_pretty(&list).expect("JSON is text");
    text.push('\n');
    let golden = case.join("out.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).unwrap_or_else(|e| panic!("{}: {e}", golden.display()));
    }
    std::fs::read_to_string(golden).is_ok_and(|stands| stands == text)
}
