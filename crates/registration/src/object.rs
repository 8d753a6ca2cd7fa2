//! WorkloadEntries as JSON: made of a group, and what their annotations and conditions say.
//!
//! Istio: pilot/pkg/autoregistration/controller.go workloadEntryFromGroup, and internal/health, 1.32.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Kind;
use model::kinds::istio::{WorkloadEntry, WorkloadGroup};
use model::object::Object;
use serde_json::{Map, Value, json};

use crate::claim::Claim;
use crate::wall::Wall;

/// The group that an entry was made of.
pub(crate) const GROUP: &str = "istio.io/autoRegistrationGroup";
/// The replica that the workload is, or was last, connected to.
pub const CONTROLLER: &str = "istio.io/workloadController";
/// Since when; absent when it is not connected.
pub(crate) const CONNECTED: &str = "istio.io/connectedAt";
/// Since when it is not; absent when it is.
pub(crate) const DISCONNECTED: &str = "istio.io/disconnectedAt";
/// Whether the entry gets traffic only while it is reported healthy.
pub(crate) const PROBED: &str = "proxy.istio.io/health-checks-enabled";
/// The type of the condition that tells its health.
pub(crate) const HEALTHY: &str = "Healthy";

/// What an entry says of its workload's connection and health.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// The group that it was made of; `None` if it was not.
    pub group: Option<Arc<str>>,
    /// The replica.
    pub controller: Option<Arc<str>>,
    /// Since when it is connected.
    pub connected: Option<Wall>,
    /// Since when it is not.
    pub disconnected: Option<Wall>,
    /// Whether health is reported for it.
    pub probed: bool,
    /// Its condition `Healthy`: status and message.
    pub health: Option<(Arc<str>, Arc<str>)>,
    /// Its address.
    pub address: Arc<str>,
    /// Its network.
    pub network: Arc<str>,
    /// Its service account.
    pub service_account: Arc<str>,
}

impl Seen {
    /// Reads a stored object.
    pub fn of_json(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(Arc::from);
        let annotations = &object["metadata"]["annotations"];
        let time = |key: &str| annotations[key].as_str().and_then(Wall::parse);
        let spec = &object["spec"];
        Self {
            group: text(&annotations[GROUP]).filter(|g: &Arc<str>| !g.is_empty()),
            controller: text(&annotations[CONTROLLER]),
            connected: time(CONNECTED),
            disconnected: time(DISCONNECTED),
            probed: !annotations[PROBED].is_null(),
            health: condition(object).map(|condition| {
                let part = |key: &str| text(&condition[key]).unwrap_or_default();
                (part("status"), part("message"))
            }),
            address: text(&spec["address"]).unwrap_or_default(),
            network: text(&spec["network"]).unwrap_or_default(),
            service_account: text(&spec["serviceAccount"]).unwrap_or_default(),
        }
    }

    /// Reads an object of the configuration.
    pub fn of(entry: &Object<WorkloadEntry>) -> Self {
        let annotations = &entry.meta.annotations;
        let time = |key: &str| annotations.get(key).and_then(Wall::parse);
        let mut conditions = entry.status.conditions.iter();
        let health = conditions.find(|c| c.r#type == HEALTHY);
        Self {
            group: annotations
                .get(GROUP)
                .filter(|g| !g.is_empty())
                .map(Arc::from),
            controller: annotations.get(CONTROLLER).map(Arc::from),
            connected: time(CONNECTED),
            disconnected: time(DISCONNECTED),
            probed: annotations.contains(PROBED),
            health: health.map(|c| (c.status.as_str().into(), c.message.as_str().into())),
            address: entry.spec.address.as_str().into(),
            network: entry.spec.network.as_str().into(),
            service_account: entry.spec.service_account.as_str().into(),
        }
    }

    /// Whether both tell of the same connection.
    pub fn same_connection(&self, other: &Self) -> bool {
        self.controller == other.controller
            && self.connected == other.connected
            && self.disconnected == other.disconnected
    }

    /// Why the entry is not that of a claim, if it is not.
    pub fn is_taken(&self, claim: &Claim) -> Option<&'static str> {
        let group = claim.group()?;
        if self.group.as_deref() != Some(&*group.name) {
            return Some("it was not registered for the same WorkloadGroup");
        }
        if self.address.parse() != Ok(claim.address) {
            return Some("it has another address");
        }
        // A network that the claim does not state comes from the group.
        if !claim.network.is_empty() && self.network != *claim.network.as_arc() {
            return Some("it is in another network");
        }
        None
    }
}

/// The condition that tells the health of a stored object.
fn condition(object: &Value) -> Option<&Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|c| c["type"] == HEALTHY)
}

/// What a workload's agent says of its health.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Whether the probe succeeds.
    pub healthy: bool,
    /// Why not.
    pub message: Arc<str>,
    /// When it was said.
    pub at: Wall,
}

impl Report {
    fn status(&self) -> &'static str {
        if self.healthy { "True" } else { "False" }
    }

    /// Whether an entry says the same.
    pub fn is_told_by(&self, seen: &Seen) -> bool {
        let told = seen.health.as_ref();
        told.is_some_and(|(status, message)| **status == *self.status() && *message == self.message)
    }
}

/// A group, and whether it is an object of the place that entries are written to.
#[derive(Clone, Debug)]
pub struct Group {
    /// The group.
    pub object: Arc<Object<WorkloadGroup>>,
    /// If so, what the place deletes with the group: its entries.
    pub owns: bool,
}

/// An entry made of a group for a workload that connected to a replica.
pub(crate) fn made_of(group: &Group, claim: &Claim, controller: &str, connected: Wall) -> Value {
    let Group { object, owns } = group;
    let mut spec = object.spec.template.clone().unwrap_or_default();
    spec.address = claim.address.to_string();
    let of_group = object.spec.metadata.clone().unwrap_or_default();
    spec.labels.extend(of_group.labels);
    let stated = claim.labels.iter();
    let stated = stated.map(|(key, value)| (key.to_string(), value.to_string()));
    spec.labels.extend(stated);
    if !claim.network.is_empty() {
        spec.network = claim.network.to_string();
    }
    if !claim.locality.is_empty() {
        spec.locality = claim.locality.to_string();
    }
    let mut annotations: BTreeMap<String, String> = of_group.annotations.into_iter().collect();
    annotations.insert(GROUP.into(), object.meta.name.name.to_string());
    if claim.probed {
        annotations.insert(PROBED.into(), "true".into());
    }
    annotations.insert(CONTROLLER.into(), controller.to_owned());
    annotations.insert(CONNECTED.into(), connected.to_string());
    annotations.remove(DISCONNECTED);
    let kind = Kind::WorkloadEntry;
    let api_version = |kind: Kind| format!("{}/{}", kind.group(), kind.versions()[0]);
    let mut made = json!({
        "apiVersion": api_version(kind),
        "kind": kind.name(),
        "metadata": {
            "name": &*claim.entry.name,
            "namespace": &*claim.entry.namespace,
            "labels": spec.labels,
            "annotations": annotations,
        },
        "spec": spec,
    });
    if *owns && !object.meta.uid.is_empty() {
        let group = Kind::WorkloadGroup;
        made["metadata"]["ownerReferences"] = json!([{
            "apiVersion": api_version(group),
            "kind": group.name(),
            "name": &*object.meta.name.name,
            "uid": &*object.meta.uid,
            "controller": true,
        }]);
    }
    made
}

/// The object, saying that the workload is connected to a replica.
pub(crate) fn connected(object: &Value, controller: &str, at: Wall) -> Value {
    annotated(object, |annotations| {
        annotations.insert(CONTROLLER.into(), controller.into());
        annotations.insert(CONNECTED.into(), at.to_string().into());
        annotations.remove(DISCONNECTED);
    })
}

/// The object, saying that the workload is not connected.
pub(crate) fn disconnected(object: &Value, at: Wall) -> Value {
    annotated(object, |annotations| {
        annotations.remove(CONNECTED);
        annotations.insert(DISCONNECTED.into(), at.to_string().into());
    })
}

fn annotated(object: &Value, change: impl FnOnce(&mut Map<String, Value>)) -> Value {
    let mut object = object.clone();
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        change(annotations);
    }
    object
}

/// The object with the reported health, or without any. The time of a transition stays where there was none.
pub(crate) fn with_health(object: &Value, report: Option<&Report>) -> Value {
    let mut changed = object.clone();
    let before = condition(object);
    let mut conditions = match &object["status"]["conditions"] {
        Value::Array(conditions) => conditions.clone(),
        _ => Vec::new(),
    };
    conditions.retain(|c| c["type"] != HEALTHY);
    if let Some(report) = report {
        let since = before.filter(|c| c["status"] == report.status());
        let since = since.and_then(|c| c["lastTransitionTime"].as_str());
        let mut told = json!({
            "type": HEALTHY,
            "status": report.status(),
            "lastProbeTime": report.at.to_string(),
            "lastTransitionTime": since.map_or_else(|| report.at.to_string(), str::to_owned),
        });
        if !report.message.is_empty() {
            told["message"] = (*report.message).into();
        }
        conditions.push(told);
    }
    if !changed["status"].is_object() {
        changed["status"] = json!({});
    }
    changed["status"]["conditions"] = conditions.into();
    changed
}

/// The version of a stored object.
pub(crate) fn version(object: &Value) -> Option<&str> {
    object["metadata"]["resourceVersion"].as_str()
}

#[cfg(test)]
mod tests;
