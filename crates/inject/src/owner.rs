//! The workload that a pod is an instance of.
// Istio: pkg/kube/util.go GetDeployMetaFromPod, 1.32.

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

    fn made_by(&mut self, owner: &Value, pod: &Pod) {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let name = text("name");
        name.clone_into(&mut self.name);
        text("kind").clone_into(&mut self.kind);
        text("apiVersion").clone_into(&mut self.api_version);
        let label = |name: &str| pod.label(name).filter(|value| !value.is_empty());
        let without_hash = |of: &str| {
            let hash = label(of)?;
            let rest = name.strip_suffix(hash)?;
            Some(rest.strip_suffix('-').unwrap_or(name).to_owned())
        };
        match text("kind") {
            "ReplicaSet" => {
                if let Some(name) = without_hash("pod-template-hash") {
                    self.name = name;
                    "Deployment".clone_into(&mut self.kind);
                } else if let Some(name) = without_hash("rollouts-pod-template-hash") {
                    self.name = name;
                    "Rollout".clone_into(&mut self.kind);
                    "v1alpha1".clone_into(&mut self.api_version);
                }
            }
            "ReplicationController" => {
                if let Some(name) = label("deploymentconfig") {
                    name.clone_into(&mut self.name);
                    "DeploymentConfig".clone_into(&mut self.kind);
                }
            }
            "Job" => {
                if let Some(name) = without_time(name) {
                    name.clone_into(&mut self.name);
                    "CronJob".clone_into(&mut self.kind);
                    "batch/v1".clone_into(&mut self.api_version);
                }
            }
            _ => {}
        }
    }
}

/// The name of a CronJob, from that of a Job that it made: a time of 8 to 10 digits follows it.
fn without_time(job: &str) -> Option<&str> {
    let (name, time) = job.rsplit_once('-')?;
    let is_time = (8..=10).contains(&time.len()) && time.bytes().all(|b| b.is_ascii_digit());
    (is_time && !name.is_empty()).then_some(name)
}
