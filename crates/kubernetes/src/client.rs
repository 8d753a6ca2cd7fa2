//! Which API there is, and how it is asked.

mod limit;
mod rate;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use tower::{BoxError, ServiceBuilder};

use crate::source::{self, Resources};
use rate::Rate;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long nothing may come on a connection on which something is awaited. A server sends a bookmark to every watch each
/// minute; with one that does not, the watch is taken up again where it was.
const SILENCE: Duration = Duration::from_secs(75);

/// How long a request may take to be sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Idle time after which the other end of a connection is asked whether it is there, how often, and how many times: one
/// that is gone without a word is noticed within half a minute.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);

/// Istio's defaults of --kubernetes-api-qps and --kubernetes-api-burst.
const RATE: Rate = Rate {
    qps: 80.0,
    burst: 160.0,
};

/// What is asked and written is done at another rate than what is read, so that neither waits for the other: 1,000
/// machines that register themselves at once are 1,000 writes.
const WRITE_RATE: Rate = Rate {
    qps: 200.0,
    burst: 400.0,
};

/// Flags of the cluster whose objects configure the mesh.
#[derive(Args, Clone, Debug)]
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

    /// Requests a second with which the API of the cluster is read; 0 means no limit. A watch is one request.
    #[arg(long, alias = "kubernetesApiQPS", env = "PILOTHOUSE_KUBERNETES_API_QPS", value_name = "N", default_value_t = RATE.qps)]
    pub kubernetes_api_qps: f64,

    /// Requests with which the API of the cluster may be read at once before --kubernetes-api-qps holds.
    #[arg(long, alias = "kubernetesApiBurst", env = "PILOTHOUSE_KUBERNETES_API_BURST", value_name = "N", default_value_t = RATE.burst)]
    pub kubernetes_api_burst: f64,

    /// Requests a second that write to the API of the cluster or ask it for reviews of tokens and of access; 0 means no limit.
    /// They do not count with --kubernetes-api-qps.
    #[arg(long, env = "PILOTHOUSE_KUBERNETES_WRITE_QPS", value_name = "N", default_value_t = WRITE_RATE.qps)]
    pub kubernetes_write_qps: f64,

    /// Such requests that may go at once before --kubernetes-write-qps holds.
    #[arg(long, env = "PILOTHOUSE_KUBERNETES_WRITE_BURST", value_name = "N", default_value_t = WRITE_RATE.burst)]
    pub kubernetes_write_burst: f64,

    /// Namespaces whose objects are read from the cluster; all by default. Objects that are in no namespace are read in any
    /// case. Comma-separated.
    #[arg(
        long,
        env = "ISTIO_WATCH_NAMESPACE",
        value_name = "NAMESPACES",
        value_delimiter = ','
    )]
    pub watch_namespaces: Vec<String>,

    /// Custom resources that are not read from the cluster: names of definitions (`wasmplugins.extensions.istio.io`), or `*.`
    /// and how they end (`*.istio.io`). Comma-separated.
    #[arg(
        long,
        env = "PILOT_IGNORE_RESOURCES",
        value_name = "NAMES",
        default_value = ""
    )]
    pub ignore_resources: Resources,

    /// Custom resources that are read although --ignore-resources names them.
    #[arg(
        long,
        env = "PILOT_INCLUDE_RESOURCES",
        value_name = "NAMES",
        default_value = ""
    )]
    pub include_resources: Resources,
}

/// Clients of one API, each with a rate and connections of its own.
#[derive(Clone)]
pub struct Clients {
    /// Lists and watches, and leases, which must not wait for what they allow to be written.
    pub read: Client,
    /// Writes, and what is asked of the API.
    pub write: Client,
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
    /// An API that is to be reached through a proxy.
    #[error("the kubeconfig names a proxy ({0}), and APIs are reached directly only")]
    Proxy(String),
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

    /// What is read of the cluster, by these options and else by default.
    pub fn of_source(&self) -> source::Options {
        let namespaces = self.watch_namespaces.iter().map(|n| n.trim());
        let namespaces = namespaces.filter(|n| !n.is_empty()).map(Into::into);
        source::Options {
            kinds: self.ignore_resources.without(&self.include_resources),
            namespaces: namespaces.collect(),
            ..source::Options::default()
        }
    }

    /// Clients of the cluster that is to be read. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be read, or has no meaning.
    pub async fn connect(&self) -> Result<Clients, ClientError> {
        let config = match &self.kubeconfig {
            Some(path) => self.of_file(path).await?,
            None => Config::incluster().map_err(ClientError::InCluster)?,
        };
        let read = Rate {
            qps: self.kubernetes_api_qps,
            burst: self.kubernetes_api_burst,
        };
        let write = Rate {
            qps: self.kubernetes_write_qps,
            burst: self.kubernetes_write_burst,
        };
        Ok(Clients {
            read: build(config.clone(), read)?,
            write: build(config, write)?,
        })
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

/// A client that reads, by a kubeconfig.
///
/// # Errors
///
/// When it cannot be read, or has no meaning.
pub async fn connect(kubeconfig: Kubeconfig) -> Result<Client, ClientError> {
    by(kubeconfig, RATE).await
}

/// A client that writes and asks, by a kubeconfig.
///
/// # Errors
///
/// When it cannot be read, or has no meaning.
pub async fn connect_to_write(kubeconfig: Kubeconfig) -> Result<Client, ClientError> {
    by(kubeconfig, WRITE_RATE).await
}

async fn by(kubeconfig: Kubeconfig, rate: Rate) -> Result<Client, ClientError> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    build(config.map_err(ClientError::Text)?, rate)
}

fn build(mut config: Config, rate: Rate) -> Result<Client, ClientError> {
    if let Some(proxy) = config.proxy_url {
        return Err(ClientError::Proxy(
            proxy.host().unwrap_or_default().to_owned(),
        ));
    }
    if CryptoProvider::get_default().is_none() {
        // Somebody else was faster if this fails.
        let _ = aws_lc_rs::default_provider().install_default();
    }
    let agent = concat!("pilothouse/", env!("CARGO_PKG_VERSION"));
    let agent = (USER_AGENT, HeaderValue::from_static(agent));
    config.headers.push(agent);
    let mut tcp = HttpConnector::new();
    let (idle, interval, times) = KEEPALIVE;
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(idle));
    tcp.set_keepalive_interval(Some(interval));
    tcp.set_keepalive_retries(Some(times));
    let tls = config.rustls_https_connector_with_connector(tcp);
    let mut connector = TimeoutConnector::new(tls.map_err(ClientError::Client)?);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_read_timeout(Some(SILENCE));
    connector.set_write_timeout(Some(WRITE_TIMEOUT));
    // A connection that was idle before has all the time again.
    connector.set_reset_reader_on_write(true);
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(rate)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(ClientError::Client)?)
        .layer(config.extra_headers_layer().map_err(ClientError::Client)?)
        .map_err(BoxError::from)
        .service(client);
    let builder = ClientBuilder::new(service, config.default_namespace);
    Ok(builder.with_layer(&limit::Limit::default()).build())
}
