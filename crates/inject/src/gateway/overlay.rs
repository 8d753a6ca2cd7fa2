//! What ConfigMaps lay over the objects of a template, as strategic merge patches.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go applyOverlay, 1.32.

use serde_json::Value;

use super::Overlay;
use crate::Fault;
use crate::config::document;
use crate::types::Known;

/// The keys of such ConfigMaps, each with the kind that it is about.
pub const KEYS: [(&str, &str); 5] = [
    ("deployment", "Deployment"),
    ("horizontalPodAutoscaler", "HorizontalPodAutoscaler"),
    ("podDisruptionBudget", "PodDisruptionBudget"),
    ("service", "Service"),
    ("serviceAccount", "ServiceAccount"),
];

/// Kinds that are deployed only where something is laid over them.
const ON_DEMAND: [&str; 2] = ["HorizontalPodAutoscaler", "PodDisruptionBudget"];

/// What of the metadata no overlay may change: who the object is and whose.
const FIXED: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// An object with the overlays over it; `None` where it is not wanted without one.
pub(super) fn applied(mut object: Value, overlays: &[Overlay<'_>]) -> Result<Option<Value>, Fault> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let known = KEYS.iter().find(|(_, of)| *of == kind);
    let (Some((key, _)), Some(shape)) = (known, Known::deployed(&kind)) else {
        return Err(Fault::new(format!(
            "the template makes a {kind:?}, which is not among what may be deployed"
        )));
    };
    let before = object["metadata"].clone();
    let mut is_wanted = !ON_DEMAND.contains(&kind.as_str());
    for Overlay { data, .. } in overlays {
        if let Some(odd) = data
            .keys()
            .find(|k| KEYS.iter().all(|(of, _)| *of != &***k))
        {
            let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
            return Err(Fault::new(format!(
                "the ConfigMap has the key {odd:?}, which is none of {}",
                known.join(", ")
            )));
        }
        let Some(text) = data.get(*key) else {
            continue;
        };
        let wrong = |why: String| Fault::new(format!("key {key} of the ConfigMap: {why}"));
        let patch = document(text).map_err(wrong)?;
        if !patch.is_null() {
            strategic::merge(&mut object, &patch, Some(shape)).map_err(|e| wrong(e.to_string()))?;
        }
        is_wanted = true;
    }
    if let Some(field) = FIXED
        .iter()
        .find(|f| object["metadata"][**f] != before[**f])
    {
        return Err(Fault::new(format!(
            "key {key} of the ConfigMap changes metadata.{field}, which it must not"
        )));
    }
    Ok(is_wanted.then_some(object))
}
