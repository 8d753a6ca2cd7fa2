//! Cases of our own: a folder each, with the configuration, the values, a pod and what istiod makes of it.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::mesh::{apply_mesh_config, default_mesh_config};
use pilothouse_inject::{Injection, Outcome, Request, Settings, inject};
use serde_json::Value;

/// The one document of a file; `null` if there is no such file.
fn document(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut documents = model::parse::to_json(&text).into_iter();
    documents.next().map_or(Value::Null, Result::unwrap)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What becomes of the pod of a case: the pod, or a text that says why not. A pod that was injected is injected again,
/// and stays the same unless the case says what becomes of it.
fn outcome(folder: &Path) -> Value {
    let part = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let request_file = document(&folder.join("request.yaml"));
    let environment = [("STAGE".to_owned(), "test".to_owned())];
    let injection = Injection::read(
        &part("config.yaml"),
        &part("values.yaml"),
        BTreeMap::from(environment),
    );
    let file = folder.join("mesh.yaml").into();
    let mesh = apply_mesh_config(&part("mesh.yaml"), default_mesh_config(), &file);
    let settings = Settings {
        injection: Arc::new(injection.unwrap()),
        mesh: Arc::new(mesh.value.unwrap()),
        revision: request_file["revision"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        compliance_policy: String::new(),
        openshift: false,
    };
    let pod = document(&folder.join("pod.yaml"));
    let request = Request {
        namespace: "shop",
        path: request_file["path"].as_str().unwrap_or_default(),
        native_sidecars: request_file["nativeSidecars"] == true,
        ..Request::default()
    };
    match inject(&pod, &request, &settings) {
        Ok(Outcome::Injected(injected)) => {
            let mut patched = pod.clone();
            let patch: json_patch::Patch =
                serde_json::from_value(injected.patch.clone().into()).unwrap();
            json_patch::patch(&mut patched, &patch).unwrap();
            let again = inject(&patched, &request, &settings);
            let Ok(Outcome::Injected(again)) = again else {
                panic!(
                    "{}: the injected pod cannot be injected again",
                    folder.display()
                );
            };
            let wanted = match document(&folder.join("again.json")) {
                Value::Null => injected.pod.clone(),
                wanted => wanted,
            };
            let found = testkit::differences(&wanted, &again.pod);
            assert!(
                found.is_empty(),
                "{}, again: {}",
                folder.display(),
                found.join("; ")
            );
            injected.pod
        }
        Ok(Outcome::Skipped { reason, .. }) => format!("skipped: {reason}").into(),
        Err(fault) => fault.to_string().into(),
    }
}

#[test]
fn pods_become_what_is_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut cases: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    assert!(cases.len() >= 8);
    let mut wrong = Vec::new();
    for case in cases {
        let got = outcome(&case);
        let wanted = match document(&case.join("wanted.json")) {
            Value::Null => text(&case.join("refused.txt")).trim().into(),
            wanted => wanted,
        };
        let got = match got {
            Value::String(text) => text.trim().into(),
            got => got,
        };
        let found = testkit::differences(&wanted, &got);
        if !found.is_empty() {
            wrong.push(format!("{}: {}", case.display(), found.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
