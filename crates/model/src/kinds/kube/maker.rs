//! What a pod was made by, behind what made it at once.
// Istio: pkg/kube/util.go GetDeployMetaFromPod and GetWorkloadMetaFromPod, 1.32.

/// Who stands behind the owner of a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    /// The owner itself.
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

/// Who stands behind an owner of this kind and name, with the name of that, as the labels of the pod tell.
pub fn maker<'a>(
    kind: &str,
    name: &'a str,
    label: impl Fn(&str) -> Option<&'a str>,
) -> (Maker, &'a str) {
    let stated = |of: &str| label(of).filter(|value| !value.is_empty());
    // A Deployment or a Rollout names its ReplicaSets after itself and the hash of the template.
    let without_hash = |of: &str| {
        let rest = name.strip_suffix(stated(of)?)?;
        Some(rest.strip_suffix('-').unwrap_or(name))
    };
    let found = match kind {
        "ReplicaSet" => {
            let deployment =
                without_hash("pod-template-hash").map(|name| (Maker::Deployment, name));
            let rollout = || without_hash("rollouts-pod-template-hash");
            deployment.or_else(|| rollout().map(|name| (Maker::Rollout, name)))
        }
        "ReplicationController" => {
            stated("deploymentconfig").map(|name| (Maker::DeploymentConfig, name))
        }
        "Job" => without_time(name).map(|name| (Maker::CronJob, name)),
        _ => None,
    };
    found.unwrap_or((Maker::Owner, name))
}

/// The name of a CronJob, from that of a Job that it made: a time of 8 to 10 digits follows it.
fn without_time(job: &str) -> Option<&str> {
    let (name, time) = job.rsplit_once('-')?;
    let is_time = (8..=10).contains(&time.len()) && time.bytes().all(|b| b.is_ascii_digit());
    (is_time && !name.is_empty()).then_some(name)
}
