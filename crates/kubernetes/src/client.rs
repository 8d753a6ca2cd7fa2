//! Which API there is, and how it is asked.

mod limit;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Flags of the cluster whose objects configure the mesh.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Kubeconfig of the cluster to read objects from: all kinds that a folder of --config-dir may hold. An object in such a
    /// folder takes precedence over the same object in the cluster. $KUBECONFIG is not read.
    #[arg(long, env = "PILOTHOUSE_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of --kubeconfig; by default its current one.
    #[arg(
        long = "context",
        env = "PILOTHOUSE_KUBE_CONTEXT",
        value_name = "NAME",
        requires = "kubeconfig"
    )]
    pub context: Option<String>,

    /// Read the cluster that this process runs in, as its service account. Default in a pod where none of --kubeconfig,
    /// --config-dir and --data is given.
    #[arg(long, env = "PILOTHOUSE_IN_CLUSTER", conflicts_with = "kubeconfig")]
    pub in_cluster: bool,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A kubeconfig that cannot be read or says nothing usable.
    #[error("cannot use the kubeconfig {0}")]
    Kubeconfig(PathBuf, #[source] KubeconfigError),
    /// A kubeconfig that came as text.
    #[error("cannot use the kubeconfig")]
    Text(#[source] KubeconfigError),
    /// No pod, or one without a service account.
    #[error("cannot use the service account of this pod (--in-cluster)")]
    InCluster(#[source] InClusterError),
    /// Credentials or certificates that cannot be used.
    #[error("cannot make a client of the Kubernetes API")]
    Client(#[source] kube::Error),
}

/// Whether this process runs in a pod of a cluster.
fn is_in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

impl Options {
    /// Whether a cluster is to be read, where there are other sources or not.
    pub fn is_wanted(&self, has_others: bool) -> bool {
        self.kubeconfig.is_some() || self.in_cluster || (!has_others && is_in_pod())
    }

    /// A client of the cluster that is to be read. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be read, or has no meaning.
    pub async fn connect(&self) -> Result<Client, ClientError> {
        let config = match &self.kubeconfig {
            Some(path) => self.of_file(path).await?,
            None => Config::incluster().map_err(ClientError::InCluster)?,
        };
        build(config)
    }

    async fn of_file(&self, path: &Path) -> Result<Config, ClientError> {
        let wrong = |error| ClientError::Kubeconfig(path.to_owned(), error);
        let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options);
        config.await.map_err(wrong)
    }
}

/// A client by a kubeconfig.
///
/// # Errors
///
/// When it cannot be read, or has no meaning.
pub async fn connect(kubeconfig: Kubeconfig) -> Result<Client, ClientError> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    build(config.map_err(ClientError::Text)?)
}

fn build(mut config: Config) -> Result<Client, ClientError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Whoever asks knows better when to ask again.
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config).map_err(ClientError::Client)?;
    Ok(builder.with_layer(&limit::Limit).build())
}
