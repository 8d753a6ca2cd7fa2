//! Injection of files: pods, and the templates of pods in whatever makes them.
// Istio: pkg/kube/inject/inject.go IntoResourceFile, IntoObject, 1.32.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::mesh::MeshConfig;
use serde_json::{Value, json};

use crate::config::Policy;
use crate::pod::Pod;
use crate::policy::{self, Skipped};
use crate::{Fault, SIDECAR, Settings, Task, Workload, mesh_proxy_config, proxy_config};

/// The most items of a List, those in Lists within it too.
const MOST_ITEMS: usize = 10_000;

/// An object of a file.
#[derive(Clone, PartialEq, Debug)]
pub enum Object {
    /// It is, or makes, pods: as Kubernetes' types hold them, and injected unless they are left out.
    Pods(Value),
    /// It stays as it is.
    Kept,
}

/// Injects an object as `istioctl kube-inject` does: every pod that does not refuse gets the template [`crate::SIDECAR`].
/// What the author should know goes into `warnings`.
///
/// # Errors
///
/// When a pod of it cannot be injected.
pub fn inject(
    object: &Value,
    native_sidecars: bool,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Object, Fault> {
    let mut left = MOST_ITEMS;
    into(object, native_sidecars, settings, warnings, &mut left)
}

fn into(
    object: &Value,
    native: bool,
    settings: &Settings,
    warnings: &mut Vec<String>,
    left: &mut usize,
) -> Result<Object, Fault> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    // Istio goes by the kind alone, whatever its version.
    let (meta, spec) = match kind {
        "List" => return list(object, native, settings, warnings, left),
        "Pod" => ("/metadata", "/spec"),
        "CronJob" => (
            "/spec/jobTemplate/metadata",
            "/spec/jobTemplate/spec/template/spec",
        ),
        "ReplicationController"
        | "Job"
        | "Deployment"
        | "DaemonSet"
        | "ReplicaSet"
        | "StatefulSet"
        | "DeploymentConfig" => ("/spec/template/metadata", "/spec/template/spec"),
        _ => return Ok(Object::Kept),
    };
    let part = |path: &str| object.pointer(path).cloned().unwrap_or_default();
    let pod = Pod::read(&json!({"metadata": part(meta), "spec": part(spec)}))?;
    let workload = match kind {
        "Pod" => Workload::of(&pod),
        _ => Workload {
            name: text(&object["metadata"]["name"]),
            namespace: text(&object["metadata"]["namespace"]),
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
        },
    };
    let mut settings = settings.clone();
    let mut config = mesh_proxy_config(&settings);
    if let Some(annotated) = pod.annotation(proxy_config::ANNOTATION)
        && !matches!(skipped(&pod), Some(Skipped::HostNetwork))
    {
        config = proxy_config::apply(config, annotated)?;
        let mesh = (*settings.mesh).clone();
        settings.mesh = Arc::new(MeshConfig {
            default_config: Some(config.clone()),
            ..mesh
        });
    }
    if let Some(reason) = skipped(&pod) {
        let name = match pod.meta("name") {
            "" => workload.name.as_str(),
            name => name,
        };
        let name = match workload.namespace.as_str() {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        };
        let why = match reason {
            Skipped::HostNetwork => "has host networking enabled",
            _ => "has sidecar injection disabled",
        };
        warnings.push(format!("Skipping injection because {kind} {name:?} {why}"));
        return Ok(with_pod(object, meta, spec, pod.0));
    }
    let task = Task {
        workload,
        proxy: &config,
        namespace: None,
        native_sidecars: native,
        variables: BTreeMap::new(),
        default_templates: &[SIDECAR.to_owned()],
        aliases: &BTreeMap::new(),
        annotations: &BTreeMap::new(),
    };
    let mut injected = task.run(&pod, &settings, Vec::new())?;
    warnings.append(&mut injected.warnings);
    Ok(with_pod(object, meta, spec, injected.pod))
}

fn with_pod(object: &Value, meta: &str, spec: &str, mut pod: Value) -> Object {
    let mut object = object.clone();
    for (path, part) in [(meta, "metadata"), (spec, "spec")] {
        put(&mut object, path, pod[part].take());
    }
    Object::Pods(object)
}

/// Why a pod of a file gets nothing, if so: the operator's policy has no say in files.
fn skipped(pod: &Pod) -> Option<Skipped> {
    let mut ignored = Vec::new();
    policy::skipped_by(pod, &Policy::Enabled, &[], &[], &mut ignored)
}

fn list(
    object: &Value,
    native: bool,
    settings: &Settings,
    warnings: &mut Vec<String>,
    left: &mut usize,
) -> Result<Object, Fault> {
    let mut list = object.clone();
    let items = list["items"].as_array_mut();
    for item in items.into_iter().flatten() {
        *left = left
            .checked_sub(1)
            .ok_or_else(|| Fault::new(format!("the list has more than {MOST_ITEMS} items")))?;
        if let Object::Pods(injected) = into(item, native, settings, warnings, left)? {
            *item = injected;
        }
    }
    Ok(Object::Pods(list))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Puts a value at a path, and maps on the way where there are none.
fn put(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for key in path.split('/').skip(1) {
        if !at[key].is_object() {
            at[key] = json!({});
        }
        at = &mut at[key];
    }
    *at = value;
}
