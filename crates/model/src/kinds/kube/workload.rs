//! The workload of a pod, behind the object that owns it.
// Istio: pkg/kube/util.go GetDeployMetaFromPod and GetWorkloadMetaFromPod, 1.32.

/// The kind of a workload, as far as the owner of its pod does not say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkloadKind {
    /// That of the owner, which is the workload.
    Owner,
    /// A Deployment.
    Deployment,
    /// A Rollout of Argo's.
    Rollout,
    /// A DeploymentConfig of OpenShift's.
    DeploymentConfig,
    /// A CronJob.
    CronJob,
}

/// The workload of a pod whose owner has this kind and name: its kind and its name, as the labels of the pod tell.
pub fn workload_of<'a>(
    kind: &str,
    name: &'a str,
    label: impl Fn(&str) -> Option<&'a str>,
) -> (WorkloadKind, &'a str) {
    let stated = |of: &str| label(of).filter(|value| !value.is_empty());
    // A Deployment or a Rollout names its ReplicaSets after itself and the hash of the template.
    let without_hash = |of: &str| {
        let rest = name.strip_suffix(stated(of)?)?;
        Some(rest.strip_suffix('-').unwrap_or(name))
    };
    let found = match kind {
        "ReplicaSet" => {
            let deployment =
                without_hash("pod-template-hash").map(|name| (WorkloadKind::Deployment, name));
            let rollout = || without_hash("rollouts-pod-template-hash");
            deployment.or_else(|| rollout().map(|name| (WorkloadKind::Rollout, name)))
        }
        "ReplicationController" => {
            stated("deploymentconfig").map(|name| (WorkloadKind::DeploymentConfig, name))
        }
        "Job" => without_time(name).map(|name| (WorkloadKind::CronJob, name)),
        _ => None,
    };
    found.unwrap_or((WorkloadKind::Owner, name))
}

/// The name of a CronJob, from that of a Job that it made: a time of 8 to 10 digits follows it.
fn without_time(job: &str) -> Option<&str> {
    let (name, time) = job.rsplit_once('-')?;
    let is_time = (8..=10).contains(&time.len()) && time.bytes().all(|b| b.is_ascii_digit());
    (is_time && !name.is_empty()).then_some(name)
}
