//! The workload that a pod is an instance of.
// Istio: pkg/kube/util.go GetDeployMetaFromPod, 1.32.

use model::kinds::kube::{WorkloadKind, workload_of};
use serde_json::Value;

use crate::pod::Pod;

/// A workload, as templates name it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: String,
    /// The version of its API, with the group.
    pub api_version: String,
}

impl Workload {
    /// The workload that made a pod, as its owner references and labels tell.
    pub(crate) fn of(pod: &Pod) -> Self {
        let mut of = Self {
            name: pod.meta("name").to_owned(),
            namespace: pod.meta("namespace").to_owned(),
            kind: "Pod".to_owned(),
            api_version: "v1".to_owned(),
        };
        let owners = pod.0["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        if !pod.meta("generateName").is_empty()
            && let Some(owner) = owners.find(|owner| owner["controller"] == true)
        {
            of.made_by(owner, pod);
        }
        if of.name.is_empty() {
            pod.meta("name").clone_into(&mut of.name);
        }
        of
    }

    /// The same with other texts.
    pub(crate) fn map(&self, mut text: impl FnMut(&str) -> String) -> Self {
        Self {
            name: text(&self.name),
            namespace: text(&self.namespace),
            kind: text(&self.kind),
            api_version: text(&self.api_version),
        }
    }

    fn made_by(&mut self, owner: &Value, pod: &Pod) {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        text("kind").clone_into(&mut self.kind);
        text("apiVersion").clone_into(&mut self.api_version);
        let (kind, name) = workload_of(text("kind"), text("name"), |label| pod.label(label));
        name.clone_into(&mut self.name);
        match kind {
            WorkloadKind::Owner => {}
            WorkloadKind::Deployment => "Deployment".clone_into(&mut self.kind),
            WorkloadKind::DeploymentConfig => "DeploymentConfig".clone_into(&mut self.kind),
            WorkloadKind::Rollout => {
                "Rollout".clone_into(&mut self.kind);
                "v1alpha1".clone_into(&mut self.api_version);
            }
            WorkloadKind::CronJob => {
                "CronJob".clone_into(&mut self.kind);
                "batch/v1".clone_into(&mut self.api_version);
            }
        }
    }
}
