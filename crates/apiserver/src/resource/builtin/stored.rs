//! Kinds of Kubernetes that clients need and that generation does not read. They are stored, and nothing obeys them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{age, made, path, printed};
use crate::resource::{Column, Resource, Version};
use crate::schema;
use crate::store::ResourceName;

/// A kind that is stored.
struct Stored {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    /// Whether it has a status of its own and a generation.
    runs: bool,
}

/// A kind whose objects live in namespaces.
const fn namespaced(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
) -> Stored {
    Stored {
        group,
        version,
        kind,
        plural,
        short,
        namespaced: true,
        runs: false,
    }
}

impl Stored {
    const fn of_cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// What a controller would act on: it has a status and a generation.
    const fn run(mut self) -> Self {
        self.runs = true;
        self
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

const STORED: &[Stored] = &[
    namespaced("", "v1", "Endpoints", "endpoints", &["ep"]),
    namespaced("", "v1", "Event", "events", &["ev"]),
    namespaced("", "v1", "LimitRange", "limitranges", &["limits"]),
    namespaced(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        &["pvc"],
    )
    .run(),
    namespaced("", "v1", "ResourceQuota", "resourcequotas", &["quota"]).run(),
    namespaced("", "v1", "ServiceAccount", "serviceaccounts", &["sa"]),
    namespaced(
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        &[],
    ),
    namespaced("apps", "v1", "DaemonSet", "daemonsets", &["ds"]).run(),
    namespaced("apps", "v1", "ReplicaSet", "replicasets", &["rs"]).run(),
    namespaced("apps", "v1", "StatefulSet", "statefulsets", &["sts"]).run(),
    namespaced(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        &["hpa"],
    )
    .run(),
    namespaced("batch", "v1", "CronJob", "cronjobs", &["cj"]).run(),
    namespaced("batch", "v1", "Job", "jobs", &[]).run(),
    namespaced("coordination.k8s.io", "v1", "Lease", "leases", &[]),
    namespaced(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        &["netpol"],
    ),
    namespaced(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        &["pdb"],
    )
    .run(),
    namespaced(RBAC, "v1", "ClusterRole", "clusterroles", &[]).of_cluster(),
    namespaced(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", &[]).of_cluster(),
    namespaced(RBAC, "v1", "Role", "roles", &[]),
    namespaced(RBAC, "v1", "RoleBinding", "rolebindings", &[]),
    namespaced(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        &["pc"],
    )
    .of_cluster(),
];

/// Every kind that is stored.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    STORED.iter().map(resource)
}

fn resource(row: &Stored) -> Resource {
    let categories: &[&str] = match row.group {
        "apps" if row.kind != "ControllerRevision" => &["all"],
        "autoscaling" | "batch" => &["all"],
        _ => &[],
    };
    Resource {
        group: row.group.into(),
        versions: vec![Version {
            patterns: crate::schema::Patterns::default(),
            name: row.version.into(),
            schema: schema::builtin(row.kind),
            judge: None,
            columns: columns(row.kind),
        }],
        storage: row.version.into(),
        kind: row.kind.into(),
        list_kind: format!("{}List", row.kind).into(),
        plural: row.plural.into(),
        singular: row.kind.to_ascii_lowercase().into(),
        short_names: row.short.iter().map(|n| (*n).into()).collect(),
        categories: categories.iter().map(|c| (*c).into()).collect(),
        namespaced: row.namespaced,
        has_status: row.runs,
        has_generation: (row.runs && !row.group.is_empty()) || row.kind == "NetworkPolicy",
        native: true,
        custom: false,
        model: None,
        name: ResourceName::new(row.plural, row.group),
    }
}

/// What `kubectl get` shows besides the name.
// Kubernetes: pkg/printers/internalversion/printers.go, 1.36.
fn columns(kind: &str) -> Arc<[Column]> {
    let mut columns = match kind {
        "Event" => return printed::of_events().into(),
        "Endpoints" => vec![made("Endpoints", "string", printed::endpoints)],
        "NetworkPolicy" => vec![made("Pod-Selector", "string", printed::pod_selector)],
        "ControllerRevision" => vec![path("Revision", "integer", ".revision")],
        "LimitRange" | "Role" | "ClusterRole" => {
            let created = ".metadata.creationTimestamp";
            return [path("Created At", "date", created)].into();
        }
        "PersistentVolumeClaim" => vec![
            path("Status", "string", ".status.phase"),
            path("Volume", "string", ".spec.volumeName"),
            path("Capacity", "string", ".status.capacity.storage"),
            path("Access Modes", "string", ".status.accessModes[*]"),
            path("StorageClass", "string", ".spec.storageClassName"),
        ],
        "DaemonSet" | "ReplicaSet" | "StatefulSet" | "CronJob" | "Job" => workload_columns(kind),
        "HorizontalPodAutoscaler" => vec![
            made("Reference", "string", |o| {
                named(&o["spec"]["scaleTargetRef"])
            }),
            made("MinPods", "string", |o| {
                or(&o["spec"]["minReplicas"], "<unset>")
            }),
            path("MaxPods", "integer", ".spec.maxReplicas"),
            made("Replicas", "integer", |o| count(o, "currentReplicas")),
        ],
        "Lease" => vec![path("Holder", "string", ".spec.holderIdentity")],
        "PodDisruptionBudget" => vec![
            made("Min Available", "string", |o| {
                or(&o["spec"]["minAvailable"], "N/A")
            }),
            made("Max Unavailable", "string", |o| {
                or(&o["spec"]["maxUnavailable"], "N/A")
            }),
            made("Allowed Disruptions", "integer", |o| {
                count(o, "disruptionsAllowed")
            }),
        ],
        "RoleBinding" | "ClusterRoleBinding" => {
            vec![made("Role", "string", |o| named(&o["roleRef"]))]
        }
        "PriorityClass" => vec![
            path("Value", "integer", ".value"),
            made("Global-Default", "boolean", |o| {
                json!(o["globalDefault"] == true)
            }),
        ],
        _ => Vec::new(),
    };
    columns.push(age());
    columns.into()
}

/// The columns of what runs pods, but for its age.
fn workload_columns(kind: &str) -> Vec<Column> {
    match kind {
        "DaemonSet" => vec![
            made("Desired", "integer", |o| count(o, "desiredNumberScheduled")),
            made("Current", "integer", |o| count(o, "currentNumberScheduled")),
            made("Ready", "integer", |o| count(o, "numberReady")),
            made("Up-to-date", "integer", |o| {
                count(o, "updatedNumberScheduled")
            }),
            made("Available", "integer", |o| count(o, "numberAvailable")),
        ],
        "ReplicaSet" => vec![
            made("Desired", "integer", wanted),
            made("Current", "integer", |o| count(o, "replicas")),
            made("Ready", "integer", |o| count(o, "readyReplicas")),
        ],
        "StatefulSet" => vec![made("Ready", "string", ready)],
        "CronJob" => vec![
            path("Schedule", "string", ".spec.schedule"),
            made("Timezone", "string", |o| {
                or(&o["spec"]["timeZone"], "<none>")
            }),
            made("Suspend", "boolean", |o| {
                json!(o["spec"]["suspend"] == true)
            }),
            made("Active", "integer", |o| {
                json!(o["status"]["active"].as_array().map_or(0, Vec::len))
            }),
            path("Last Schedule", "date", ".status.lastScheduleTime"),
        ],
        "Job" => vec![made("Completions", "string", |o| {
            let wanted = or(&o["spec"]["completions"], "1");
            let wanted = wanted.as_str().map_or(wanted.to_string(), str::to_owned);
            format!("{}/{wanted}", count(o, "succeeded")).into()
        })],
        _ => Vec::new(),
    }
}

/// A number of the status; 0 where it is absent.
pub(super) fn count(object: &Value, field: &str) -> Value {
    json!(object["status"][field].as_i64().unwrap_or(0))
}

/// How many pods are wanted.
fn wanted(object: &Value) -> Value {
    json!(object["spec"]["replicas"].as_i64().unwrap_or(1))
}

/// How many pods are ready of those that are wanted.
pub(super) fn ready(object: &Value) -> Value {
    format!("{}/{}", count(object, "readyReplicas"), wanted(object)).into()
}

fn or(value: &Value, other: &str) -> Value {
    match value {
        Value::Null => other.into(),
        Value::String(text) => text.as_str().into(),
        some => some.to_string().into(),
    }
}

/// A reference as people write it.
fn named(reference: &Value) -> Value {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    format!("{}/{}", text("kind"), text("name")).into()
}
