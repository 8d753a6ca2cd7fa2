//! Flags of remote clusters.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use model::edge::RemoteIngress;
use model::names::ClusterId;

use super::ingress::{class_of, of_classes, status_of};
use crate::config::duration;

/// Flags of remote clusters.
#[derive(Args, Clone, Debug)]
pub struct RemoteOptions {
    /// Namespace of the Secrets that hold kubeconfigs of remote clusters. Default: the namespace of the control plane.
    #[arg(
        long = "remote-secrets-namespace",
        alias = "clusterRegistriesNamespace",
        env = "PILOTHOUSE_REMOTE_SECRETS_NAMESPACE",
        value_name = "NAMESPACE"
    )]
    pub secrets_namespace: Option<String>,

    /// Folder of kubeconfigs (*.yaml, *.yml) of remote clusters, watched for changes, in place of Secrets. A cluster's id is
    /// the name that its kubeconfig gives it.
    #[arg(
        long = "remote-kubeconfigs",
        env = "PILOT_MULTICLUSTER_KUBECONFIG_PATH",
        value_name = "DIR"
    )]
    pub kubeconfigs: Option<PathBuf>,

    /// Serve the Ingresses of a remote cluster that are of these classes (`CLUSTER=CLASS,CLASS`), as the annotation
    /// pilothouse.io/ingress-class of its Secret does, which it goes before. Repeatable.
    #[arg(
        long,
        env = "PILOTHOUSE_REMOTE_INGRESS_CLASS",
        value_name = "CLUSTER=CLASS",
        value_delimiter = ';',
        value_parser = class_of
    )]
    pub remote_ingress_class: Vec<(ClusterId, Arc<str>)>,

    /// Whether the status of Ingresses is written into a remote cluster (`CLUSTER=false`), as the annotation
    /// pilothouse.io/ingress-status says, which it goes before. Repeatable.
    #[arg(
        long,
        env = "PILOTHOUSE_REMOTE_INGRESS_STATUS",
        value_name = "CLUSTER=BOOL",
        value_delimiter = ';',
        value_parser = status_of
    )]
    pub remote_ingress_status: Vec<(ClusterId, bool)>,

    /// How long the start waits for a remote cluster to be read, and a request for new credentials to be answered; 0 waits
    /// for clusters without limit.
    #[arg(long = "remote-cluster-timeout", env = "PILOT_REMOTE_CLUSTER_TIMEOUT", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub timeout: Duration,

    /// Most remote clusters. Further ones are left out.
    #[arg(
        long = "max-remote-clusters",
        env = "PILOTHOUSE_MAX_REMOTE_CLUSTERS",
        value_name = "N",
        default_value_t = 256
    )]
    pub limit: usize,

    /// What kubeconfigs of remote clusters may use although it reads files of this machine or runs programs on it:
    /// certificateAuthority, clientCertificate, clientKey, tokenFile, exec, and names of authentication providers.
    /// Comma-separated.
    #[arg(
        long = "insecure-remote-kubeconfig-options",
        env = "PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub allowed: Vec<String>,
}

impl RemoteOptions {
    /// What is served of the Ingresses of a cluster, by what its Secret says and the flags say of it.
    pub(super) fn ingresses(
        &self,
        cluster: &ClusterId,
        said: Option<&RemoteIngress>,
    ) -> Option<RemoteIngress> {
        let mut classes = self
            .remote_ingress_class
            .iter()
            .filter(|(id, _)| id == cluster);
        let mut served = match (classes.next_back(), said) {
            (Some((_, classes)), Some(said)) => RemoteIngress {
                classes: (**classes).into(),
                ..said.clone()
            },
            (Some((_, classes)), None) => of_classes(classes),
            (None, said) => said?.clone(),
        };
        let mut statuses = self
            .remote_ingress_status
            .iter()
            .filter(|(id, _)| id == cluster);
        if let Some((_, writes)) = statuses.next_back() {
            served.writes_status = *writes;
        }
        Some(served)
    }
}
