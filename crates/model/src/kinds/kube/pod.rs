//! `Pod`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{WorkloadKind, workload_of};
use crate::object::Object;

/// What a Pod asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Containers.
    pub containers: Vec<Container>,
    /// Containers that run first, or for as long as the pod does where they restart always.
    pub init_containers: Vec<Container>,
    /// The account it runs as.
    pub service_account_name: Arc<str>,
    /// The node it runs on; empty while it waits.
    pub node_name: Arc<str>,
    /// Host name, for headless names.
    pub hostname: Arc<str>,
    /// Subdomain, for headless names.
    pub subdomain: Arc<str>,
    /// Shares the addresses of its node.
    pub host_network: bool,
    /// The user that its containers run as.
    pub security_context: SecurityContext,
}

impl Object<Pod> {
    /// The name of the workload that it is an instance of: what its label says, else the Deployment, Rollout, CronJob or
    /// whatever else made it, else its own.
    ///
    /// Istio: pkg/kube/util.go GetWorkloadMetaFromPod, 1.32.
    pub fn workload(&self) -> Arc<str> {
        let labels = &self.meta.labels;
        if let Some(stated) = labels.get("service.istio.io/workload-name") {
            return Arc::from(stated);
        }
        let Some(maker) = &self.meta.maker else {
            return self.meta.name.name.as_arc().clone();
        };
        match workload_of(&maker.kind, &maker.name, |label| labels.get(label)) {
            (WorkloadKind::Owner, _) => maker.name.clone(),
            (_, name) => Arc::from(name),
        }
    }
}

/// The user that processes run as.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityContext {
    /// Its number, where one is stated.
    pub run_as_user: Option<i64>,
}

/// A variable in the environment of a container.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    /// Its name.
    pub name: Arc<str>,
    /// Its value; empty where another object holds it.
    pub value: Arc<str>,
}

/// A container.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: Arc<str>,
    /// Ports it states.
    pub ports: Vec<ContainerPort>,
    /// `Always` on an init container that runs beside the others.
    pub restart_policy: Arc<str>,
    /// The image it runs.
    pub image: Arc<str>,
    /// Its environment.
    pub env: Vec<EnvVar>,
    /// The user that it runs as, where that is not the pod's.
    pub security_context: SecurityContext,
}

impl Container {
    /// Whether an init container keeps running beside the others.
    pub fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

/// A port that a container states.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Name; empty where it has none.
    pub name: Arc<str>,
    /// Number.
    pub container_port: i32,
    /// `TCP` (also when empty), `UDP`, `SCTP`.
    pub protocol: Arc<str>,
}

/// How a Pod fares.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    pub phase: Arc<str>,
    /// Primary address; empty while it has none.
    #[serde(rename = "podIP")]
    pub pod_ip: Arc<str>,
    /// Addresses of both families.
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// Address of its node.
    #[serde(rename = "hostIP")]
    pub host_ip: Arc<str>,
    /// Conditions, `Ready` among them.
    pub conditions: Vec<PodCondition>,
}

impl PodStatus {
    /// Whether the pod is ready.
    pub fn is_ready(&self) -> bool {
        self.conditions
            .iter()
            .any(|c| &*c.condition == "Ready" && &*c.status == "True")
    }

    /// Every address, the primary one first, each once.
    pub fn addresses(&self) -> impl Iterator<Item = &Arc<str>> {
        let primary = Some(&self.pod_ip).filter(|ip| !ip.is_empty());
        let others = self.pod_ips.iter().map(|ip| &ip.ip);
        primary
            .into_iter()
            .chain(others.filter(|ip| **ip != self.pod_ip && !ip.is_empty()))
    }
}

/// An address of a pod.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodIp {
    /// The address.
    pub ip: Arc<str>,
}

/// A condition of a pod.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// `Ready`, `PodScheduled`, ...
    #[serde(rename = "type")]
    pub condition: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
}
