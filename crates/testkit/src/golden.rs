//! Golden cases: objects, a proxy, and what it gets.

use std::path::Path;

use serde_json::Value;
use xds::TypeUrl;

use crate::message::decode;
use crate::world::{World, node, settings};

/// Runs every case of a folder. A case is a folder with objects (`in.yaml`), maybe a mesh config (`mesh.yaml`), a proxy
/// (`node.json`) and the resources it gets of a type (`out.json`); `UPDATE_GOLDEN=1` rewrites the latter.
///
/// # Panics
///
/// When a case gives something else, or is none.
pub fn golden(folder: &Path, ty: TypeUrl) {
    golden_cases(folder, |case| {
        let mesh = match case.join("mesh.yaml").exists() {
            true => read(case, "mesh.yaml"),
            false => String::new(),
        };
        let mut world = World::new(settings(&mesh));
        world.put(&read(case, "in.yaml"));
        let description: Value = serde_json::from_str(&read(case, "node.json"))
            .unwrap_or_else(|e| panic!("{}: {e}", case.display()));
        let set = world.set(&world.view(&node(&description)), ty);
        set.iter().map(|r| decode(ty.as_str(), &r.body)).collect()
    });
}

/// Holds what each case of a folder is `shown` as against its `out.json`; `UPDATE_GOLDEN=1` rewrites that.
///
/// # Panics
///
/// When a case is shown as something else, or there is none.
pub fn golden_cases(folder: &Path, shown: impl Fn(&Path) -> Value) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut cases: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    cases.sort();
    assert!(!cases.is_empty(), "{} has no cases", folder.display());
    let different: Vec<String> = cases
        .iter()
        .filter(|case| !stands(case, &shown(case)))
        .map(|case| case.display().to_string())
        .collect();
    assert!(
        different.is_empty(),
        "not as it stands there (see the difference with UPDATE_GOLDEN=1): {different:?}"
    );
}

fn read(case: &Path, name: &str) -> String {
    let path = case.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn stands(case: &Path, shown: &Value) -> bool {
    let mut text = serde_json::to_string_pretty(shown).expect("JSON is text");
    text.push('\n');
    let golden = case.join("out.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).unwrap_or_else(|e| panic!("{}: {e}", golden.display()));
    }
    std::fs::read_to_string(golden).is_ok_and(|stands| stands == text)
}
