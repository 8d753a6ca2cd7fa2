//! `Deployment`: analysis reads the pods that it will make.

use serde::{Deserialize, Serialize};

use super::Pod;
use crate::labels::Labels;

/// What a Deployment asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deployment {
    /// The pods that it makes.
    pub template: PodTemplate,
}

/// Pods to be made.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplate {
    /// Their labels and annotations.
    pub metadata: TemplateMeta,
    /// What they ask for.
    pub spec: Pod,
}

/// Labels and annotations of pods to be made.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMeta {
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
}
