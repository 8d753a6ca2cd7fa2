//! The Kubernetes API beside xDS: its flags, and starting it.

mod oidc;
mod reload;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver::access::Access;
use apiserver::access::oidc::Oidc;
use apiserver::api::Api;
use apiserver::audit::Audit;
use apiserver::http::Security;
use apiserver::limits::Limits;
use apiserver::pki::{Files, Given, server_names};
use apiserver::store::{Keep, Store};
use clap::Args;
use model::Owner;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{address, duration};
use crate::shadows::Shadows;
pub use oidc::OidcOptions;

/// Precedence of the store: folders win over it.
const STORE_RANK: u8 = 200;

/// Flags of the Kubernetes API.
#[derive(Args, Clone, Debug)]
pub struct ApiOptions {
    /// Folder of the store of the Kubernetes API, made where there is none. The API is served with this flag only. Where
    /// a folder of --config-dir holds the same object, the folder's is used.
    #[arg(long, env = "PILOTHOUSE_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Where the Kubernetes API listens.
    #[arg(long, env = "PILOTHOUSE_API_ADDR", value_name = "HOST:PORT", default_value = "127.0.0.1:6443", value_parser = address, requires = "data")]
    pub api_addr: SocketAddr,

    /// Serve the Kubernetes API over plain HTTP and let whoever reaches the port do everything. Loopback only.
    #[arg(long, env = "PILOTHOUSE_INSECURE_LOCAL", requires = "data")]
    pub insecure_local: bool,

    /// File of users, their tokens and groups, and what they may do. It is read anew when it changes.
    #[arg(
        long,
        env = "PILOTHOUSE_API_ACCESS",
        value_name = "FILE",
        requires = "data"
    )]
    pub api_access: Option<PathBuf>,

    /// File to which a line of JSON is added for each request of the API for objects or the ledger.
    #[arg(
        long,
        env = "PILOTHOUSE_API_AUDIT_LOG",
        value_name = "FILE",
        requires = "data"
    )]
    pub api_audit_log: Option<PathBuf>,

    /// Certificate chain of the API, in place of the one that is made in the data folder. It is read anew when it changes.
    #[arg(
        long,
        env = "PILOTHOUSE_API_TLS_CERT",
        value_name = "FILE",
        requires = "api_tls_key"
    )]
    pub api_tls_cert: Option<PathBuf>,

    /// Key of --api-tls-cert.
    #[arg(
        long,
        env = "PILOTHOUSE_API_TLS_KEY",
        value_name = "FILE",
        requires = "api_tls_cert"
    )]
    pub api_tls_key: Option<PathBuf>,

    /// Who signs certificates of clients, besides the CA of the data folder. Common name and organisations are user and
    /// groups. It is read anew when it changes.
    #[arg(
        long,
        env = "PILOTHOUSE_API_CLIENT_CA",
        value_name = "FILE",
        requires = "data"
    )]
    pub api_client_ca: Option<PathBuf>,

    /// Connections of the Kubernetes API at once.
    #[arg(long, env = "PILOTHOUSE_API_MAX_CONNECTIONS", value_name = "N", default_value_t = Limits::default().connections)]
    pub api_max_connections: usize,

    /// Connections of one address to the Kubernetes API at once; of IPv6 the first 64 bits are an address.
    #[arg(long, env = "PILOTHOUSE_API_MAX_CONNECTIONS_PER_PEER", value_name = "N", default_value_t = Limits::default().connections_per_peer)]
    pub api_max_connections_per_peer: usize,

    /// Requests of one user of the Kubernetes API at once, without watches. Members of system:masters are exempt.
    #[arg(long, env = "PILOTHOUSE_API_MAX_REQUESTS_PER_USER", value_name = "N", default_value_t = Limits::default().requests_per_user)]
    pub api_max_requests_per_user: usize,

    /// Watches of one user of the Kubernetes API at once. Members of system:masters are exempt.
    #[arg(long, env = "PILOTHOUSE_API_MAX_WATCHES_PER_USER", value_name = "N", default_value_t = Limits::default().watches_per_user)]
    pub api_max_watches_per_user: usize,

    /// Whose bearer tokens are taken besides.
    #[command(flatten)]
    pub oidc: OidcOptions,

    /// Revisions that the history keeps at most.
    #[arg(long, env = "PILOTHOUSE_HISTORY_REVISIONS", value_name = "N", default_value_t = Keep::default().revisions)]
    pub history_revisions: usize,

    /// How old revisions of the history get at most.
    #[arg(long, env = "PILOTHOUSE_HISTORY_AGE", value_name = "DURATION", default_value = "720h", value_parser = duration)]
    pub history_age: Duration,

    /// Bytes that the history keeps at most.
    #[arg(long, env = "PILOTHOUSE_HISTORY_BYTES", value_name = "BYTES", default_value_t = Keep::default().bytes)]
    pub history_bytes: u64,
}

/// Opens the store, listens, and returns the store, and as whose its objects are told.
///
/// # Errors
///
/// When the store cannot be opened, or the API not be served as asked.
pub async fn start(
    data: &Path,
    options: &ApiOptions,
    namespace: &str,
    shadows: &Arc<Shadows>,
    stop: &CancellationToken,
) -> anyhow::Result<(Owner, Store)> {
    let loopback = options.api_addr.ip().to_canonical().is_loopback();
    anyhow::ensure!(
        loopback || !options.insecure_local,
        "--insecure-local is for loopback only, and --api-addr is {}",
        options.api_addr
    );
    let listener = TcpListener::bind(options.api_addr)
        .await
        .with_context(|| format!("cannot listen on {} (--api-addr)", options.api_addr))?;
    let keep = Keep {
        revisions: options.history_revisions,
        age: options.history_age,
        bytes: options.history_bytes,
    };
    let folder = data.to_owned();
    let store = tokio::task::spawn_blocking(move || Store::open(&folder, keep))
        .await?
        .with_context(|| format!("cannot open the store in {}", data.display()))?;
    let mut access = match &options.api_access {
        Some(file) => Access::read(file).context("cannot use --api-access")?,
        None => Access::default(),
    };
    if let Some(settings) = options.oidc.settings()? {
        let issuer = Oidc::new(settings).context("cannot take tokens of the issuer")?;
        access = access.with_issuer(issuer);
    }
    let audit = match &options.api_audit_log {
        Some(file) => Audit::to_file(file)
            .with_context(|| format!("cannot write {} (--api-audit-log)", file.display()))?,
        None => Audit::default(),
    };
    let mut admin = None;
    let security = if options.insecure_local {
        tracing::warn!(
            address = %listener.local_addr()?,
            "The Kubernetes API is served over plain HTTP, and whoever reaches the port may do everything (--insecure-local)."
        );
        Security::InsecureLocal
    } else {
        let files = Files::of(data);
        let token = files.prepare(&server_names(options.api_addr.ip()))?;
        access = access
            .with_admin(&token)
            .context("cannot use the token of the operator")?;
        admin = Some(token);
        let given = Given {
            certificate: options.api_tls_cert.clone(),
            key: options.api_tls_key.clone(),
            client_ca: options.api_client_ca.clone(),
        };
        let config = files.server(&given)?;
        let (every, stop) = (reload::EVERY, stop.clone());
        Security::Reloaded(reload::certificates(files, given, config, every, stop))
    };
    let owner = Owner::new(STORE_RANK, format!("api:{}", data.display()));
    let api = Api::start(store.clone(), access, audit, &["default", namespace]).await?;
    api.set_limits(Limits {
        connections: options.api_max_connections,
        connections_per_peer: options.api_max_connections_per_peer,
        requests_per_user: options.api_max_requests_per_user,
        watches_per_user: options.api_max_watches_per_user,
        ..Limits::default()
    });
    if let Some(file) = &options.api_access {
        let watching = reload::access(
            file.clone(),
            admin,
            api.clone(),
            reload::EVERY,
            stop.clone(),
        );
        tokio::spawn(watching);
    }
    let (shadows, own) = (shadows.clone(), owner.clone());
    api.set_elsewhere(move |key| {
        let other = shadows.instead_of(&own, key)?;
        Some(other.to_string())
    });
    let local = apiserver::http::serve_local(data, api.clone(), stop.clone());
    local.with_context(|| format!("cannot make the socket in {}", data.display()))?;
    tracing::info!(address = %listener.local_addr()?, "The Kubernetes API is served.");
    tokio::spawn(apiserver::http::serve(
        listener,
        security,
        api,
        stop.clone(),
    ));
    Ok((owner, store))
}
