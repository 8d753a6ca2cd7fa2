//! Golden cases: `golden/<area>/<case>/` holds objects (`in.yaml`), a proxy (`proxy.json`), if need be a mesh config
//! (`mesh.yaml`), and in `out/` what the proxy gets, a file for each type.
//!
//! `UPDATE_GOLDEN=1` writes the outputs that are there anew; an empty file asks for its type.

use std::path::{Path, PathBuf};

use pilothouse_xlate::TypeUrl;
use serde_json::{Map, Value};
use testkit::World;

#[test]
fn every_case_gives_what_its_folder_holds() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    assert!(
        !(update && std::env::var_os("CI").is_some()),
        "golden files are not written in CI"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut wrong = Vec::new();
    for case in folders(&root).iter().flat_map(|area| folders(area)) {
        for out in files(&case.join("out")) {
            let got = generated(&case, &out);
            if update {
                std::fs::write(&out, got).expect("the output is writable");
            } else if std::fs::read_to_string(&out).expect("the output is text") != got {
                wrong.push(out.strip_prefix(&root).expect("below it").to_owned());
            }
        }
    }
    assert!(wrong.is_empty(), "differ (see UPDATE_GOLDEN): {wrong:?}");
}

fn generated(case: &Path, out: &Path) -> String {
    let read = |name: &str| std::fs::read_to_string(case.join(name)).unwrap_or_default();
    let mut world = World::new(testkit::settings(&read("mesh.yaml")));
    world.put(&read("in.yaml"));
    let proxy: Value = serde_json::from_str(&read("proxy.json")).expect("a proxy is JSON");
    let view = world.view(&testkit::node(&proxy));
    let stem = out.file_stem().expect("it has a name").to_string_lossy();
    let ty = TypeUrl::ALL
        .into_iter()
        .find(|ty| file_name(*ty) == stem)
        .unwrap_or_else(|| panic!("{stem} is no type"));
    let resources: Map<String, Value> = world
        .set(&view, ty)
        .iter()
        .map(|r| {
            let decoded = testkit::decode(ty.as_str(), &r.body);
            (r.name.to_string(), decoded)
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&resources).expect("JSON");
    text.push('\n');
    text
}

fn file_name(ty: TypeUrl) -> &'static str {
    match ty {
        TypeUrl::Cluster => "clusters",
        TypeUrl::Endpoint => "endpoints",
        TypeUrl::Listener => "listeners",
        TypeUrl::Route => "routes",
        TypeUrl::Secret => "secrets",
        TypeUrl::Extension => "extensions",
        TypeUrl::NameTable => "nametable",
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = read.map(|e| e.path()).collect();
    paths.sort();
    paths
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|p| p.is_dir()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    entries(folder)
        .into_iter()
        .filter(|p| p.is_file())
        .collect()
}
