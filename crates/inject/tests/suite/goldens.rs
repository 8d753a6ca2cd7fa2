//! Pods that Istio's own tests inject, and what becomes of them there and here.
//!
//! Templates are not recorded: they are read from Istio's charts, in `../istio-src` beside the repository or where
//! `PILOTHOUSE_ISTIO_SOURCE` says.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Labels;
use model::mesh::MeshConfig;
use pilothouse_inject::workload::{self, Object};
use pilothouse_inject::{Injection, Outcome, Request, Settings, effective_proxy_config, inject};
use serde_json::{Map, Value, json};
use testkit::{Score, Table, differences, recording};

const TEMPLATES: [(&str, &str); 8] = [
    ("sidecar", "injection-template"),
    ("gateway", "gateway-injection-template"),
    ("grpc-simple", "grpc-simple"),
    ("grpc-agent", "grpc-agent"),
    ("waypoint", "waypoint"),
    ("kube-gateway", "kube-gateway"),
    ("agentgateway", "agentgateway"),
    ("agentgateway-waypoint", "agentgateway-waypoint"),
];

/// What the cases refer to.
struct Recorded {
    cases: Vec<Value>,
    values: Value,
    meshes: Value,
    templates: Map<String, Value>,
    folder: PathBuf,
}

fn charts() -> Option<PathBuf> {
    let stated = std::env::var_os("PILOTHOUSE_ISTIO_SOURCE").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../istio-src");
    let source = stated.unwrap_or(beside);
    let files = source.join("manifests/charts/istio-control/istio-discovery/files");
    files.is_dir().then_some(files)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

impl Recorded {
    /// `None` where there are no recordings or no charts.
    fn load() -> Option<Self> {
        let cases = Table::load("inject-cases")?.cases;
        let Some(charts) = charts() else {
            eprintln!(
                "skipped: Istio's charts are not beside the repository, see PILOTHOUSE_ISTIO_SOURCE"
            );
            return None;
        };
        let document = |name: &str| {
            let path = recording(&format!("istio-tables/{name}.json"))?;
            serde_json::from_str(&read(&path)).ok()
        };
        let templates = TEMPLATES.iter().map(|(name, file)| {
            let text = read(&charts.join(file).with_extension("yaml"));
            ((*name).to_owned(), format!("{}\n", text.trim()).into())
        });
        Some(Self {
            cases,
            values: document("inject-values")?,
            meshes: document("inject-meshconfigs")?,
            templates: templates.collect(),
            folder: recording("istio/pkg/kube/inject/testdata/inject")?,
        })
    }

    /// What holds in a case; the defaults where the case itself is not recorded.
    fn settings(&self, case: Option<&Value>, revision: &str) -> Settings {
        let named = |all: &Value, reference: &str, default: &str| {
            let reference = case.and_then(|c| c[reference].as_str()).unwrap_or(default);
            assert!(all[reference].is_object(), "{reference} is not recorded");
            all[reference].clone()
        };
        let values = named(&self.values, "valuesRef", "3dd4d1dc1b");
        let mesh = named(&self.meshes, "meshConfigRef", "166697d3f0");
        let webhook = &values["sidecarInjectorWebhook"];
        let mut templates = self.templates.clone();
        templates.extend(
            webhook["templates"]
                .as_object()
                .cloned()
                .unwrap_or_default(),
        );
        let config = json!({
            "policy": values["global"]["proxy"]["autoInject"],
            "templates": templates,
            "defaultTemplates": webhook["defaultTemplates"],
            "injectedAnnotations": webhook["injectedAnnotations"],
            "alwaysInjectSelector": webhook["alwaysInjectSelector"],
            "neverInjectSelector": webhook["neverInjectSelector"],
        });
        let injection = Injection::read(&config.to_string(), &values.to_string(), BTreeMap::new());
        let wanted = case.and_then(|c| c["want"].as_str()).unwrap_or_default();
        let fips = wanted.contains("fips-140-3");
        Settings {
            injection: Arc::new(injection.unwrap_or_else(|e| panic!("{e}"))),
            mesh: Arc::new(testkit::message::<MeshConfig>(&mesh).unwrap()),
            revision: revision.to_owned(),
            compliance_policy: if fips {
                "fips-140-3".to_owned()
            } else {
                String::new()
            },
            openshift: wanted.contains("openshift"),
        }
    }

    /// The documents of a file; none where the file itself is not recorded.
    fn documents(&self, name: &Value) -> Option<Vec<Value>> {
        let path = self.folder.join(name.as_str()?);
        let documents = path.exists().then(|| model::parse::to_json(&read(&path)))?;
        let documents = documents.into_iter();
        let read =
            |d: Result<Value, String>| d.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Some(documents.map(read).collect())
    }
}

/// Whether the nodes of a test keep sidecars running.
fn has_native_sidecars(test: &str, case: Option<&Value>) -> bool {
    let disabled = case.is_some_and(|c| c["features"]["EnableNativeSidecars"] == "1");
    !disabled && !test.starts_with("TestInjectionOlderVersion")
}

/// The pods of an object.
fn pods(object: &Value) -> Vec<Value> {
    let (meta, spec) = match object["kind"].as_str().unwrap_or_default() {
        "List" => {
            return object["items"]
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(pods)
                .collect();
        }
        "Pod" => ("/metadata", "/spec"),
        "CronJob" => (
            "/spec/jobTemplate/metadata",
            "/spec/jobTemplate/spec/template/spec",
        ),
        _ => ("/spec/template/metadata", "/spec/template/spec"),
    };
    let part = |path: &str| object.pointer(path).cloned().unwrap_or_default();
    vec![json!({"metadata": part(meta), "spec": part(spec)})]
}

#[test]
fn files_are_injected_as_recorded() {
    let Some(recorded) = Recorded::load() else {
        return;
    };
    let mut score = Score::default();
    for case in recorded
        .cases
        .iter()
        .filter(|c| c["skipKubeInject"] != true)
    {
        let test = case["test"].as_str().unwrap();
        let settings = recorded.settings(Some(case), "");
        let native = has_native_sidecars(test, Some(case));
        let wanted = recorded.documents(&case["want"]);
        let Some(input) = recorded.documents(&case["in"]) else {
            continue;
        };
        if wanted.is_none() && case["expectedError"].is_null() {
            continue;
        }
        let done: Result<Vec<Value>, _> = input
            .iter()
            .map(|object| {
                let done = workload::inject(object, native, &settings, &mut Vec::new())?;
                Ok(match done {
                    Object::Pods(object) => object,
                    Object::Kept => object.clone(),
                })
            })
            .collect();
        let different = match (done, case["expectedError"].as_str()) {
            (Err::<_, pilothouse_inject::Fault>(e), Some(wanted)) => {
                let found = e.to_string().to_lowercase().contains(wanted);
                if found {
                    Vec::new()
                } else {
                    vec![e.to_string()]
                }
            }
            (Err(e), None) => vec![e.to_string()],
            (Ok(_), Some(wanted)) => vec![format!("no error about {wanted}")],
            (Ok(got), None) => {
                let wanted: Vec<Value> = wanted.iter().flatten().flat_map(pods).collect();
                let got: Vec<Value> = got.iter().flat_map(pods).collect();
                differences(&wanted.into(), &got.into())
            }
        };
        score.count(test, &different);
    }
    score.all_as_recorded();
}

fn patched(pod: &Value, patch: &Value) -> Value {
    let mut pod = pod.clone();
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
    json_patch::patch(&mut pod, &patch).unwrap();
    pod
}

#[test]
fn the_webhook_patches_as_recorded() {
    let (Some(recorded), Some(calls)) = (Recorded::load(), Table::load("inject-webhook")) else {
        return;
    };
    let mut score = Score::default();
    for call in &calls.cases {
        let test = call["test"].as_str().unwrap();
        let Some((name, _)) = test.split_once("/webhook/") else {
            // Tests with templates of their own: ours are in `cases`.
            continue;
        };
        let case = recorded.cases.iter().find(|c| c["test"] == name);
        let mut settings = recorded.settings(case, "default");
        settings.openshift |= name.contains("openshift");
        let namespace = call["namespace"].as_str().unwrap_or_default();
        let range = "1000620000/10000";
        let annotations: Labels = [
            ("openshift.io/sa.scc.uid-range", range),
            ("openshift.io/sa.scc.supplemental-groups", range),
        ]
        .into_iter()
        .collect();
        let labels = |field: &str| -> Labels {
            let map = call["pod"]["metadata"][field].as_object();
            let map = map.into_iter().flatten();
            map.filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
                .collect()
        };
        let annotation = labels("annotations");
        let annotation = annotation.get("proxy.istio.io/config");
        let none = std::iter::empty();
        let proxy = effective_proxy_config(
            &settings.mesh,
            none,
            namespace,
            &labels("labels"),
            annotation,
        );
        let request = Request {
            namespace,
            namespace_annotations: (namespace == "test-ns").then_some(&annotations),
            path: "",
            native_sidecars: has_native_sidecars(name, case),
            proxy_config: Some(&proxy),
        };
        let is_skipped = call["patch"].is_null();
        let different = match inject(&call["pod"], &request, &settings) {
            Ok(Outcome::Injected(_)) if is_skipped => vec!["is injected".to_owned()],
            Ok(Outcome::Injected(injected)) => differences(
                &patched(&call["pod"], &call["patch"]),
                &patched(&call["pod"], &injected.patch.into()),
            ),
            Ok(Outcome::Skipped { .. }) if is_skipped => Vec::new(),
            Ok(Outcome::Skipped { reason, .. }) => vec![format!("skipped: {reason}")],
            Err(e) => vec![e.to_string()],
        };
        score.count(test, &different);
    }
    score.as_listed(include_str!("../differences/webhook.txt"));
}
