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
use apiserver::api::{Api, Reach};
use apiserver::audit::Audit;
use apiserver::http::Security;
use apiserver::limits::Limits;
use apiserver::pki::{Files, Given, server_names};
use apiserver::store::{Keep, Store};
use clap::Args;
use model::Owner;
use model::settings::Features;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{Cidrs, address, cidrs, duration};
use crate::shadows::Shadows;
use crate::{judged, watched, welcome};
pub use oidc::OidcOptions;

/// Precedence of the store: folders win over it.
pub(crate) const STORE_RANK: u8 = 200;

/// Flags of the Kubernetes API.
#[derive(Args, Clone, Debug)]
pub struct ApiOptions {
    /// Data folder of the Kubernetes API, created if missing. The API is served only with this flag. An object in a folder
    /// of --config-dir takes precedence over the same object in the store.
    #[arg(long, env = "PILOTHOUSE_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Address on which the Kubernetes API listens.
    #[arg(long, env = "PILOTHOUSE_API_ADDR", value_name = "HOST:PORT", default_value = "127.0.0.1:6443", value_parser = address, requires = "data")]
    pub api_addr: SocketAddr,

    /// Serve the Kubernetes API over plain HTTP and let anyone who reaches the port do anything. Loopback only.
    #[arg(long, env = "PILOTHOUSE_INSECURE_LOCAL", requires = "data")]
    pub insecure_local: bool,

    /// File of users with their tokens, groups and grants. Reloaded when it changes.
    #[arg(
        long,
        env = "PILOTHOUSE_API_ACCESS",
        value_name = "FILE",
        requires = "data"
    )]
    pub api_access: Option<PathBuf>,

    /// Audit log: one line of JSON for each API request for objects or the ledger.
    #[arg(
        long,
        env = "PILOTHOUSE_API_AUDIT_LOG",
        value_name = "FILE",
        requires = "data"
    )]
    pub api_audit_log: Option<PathBuf>,

    /// Certificate chain of the API, instead of the generated one in the data folder. Reloaded when it changes.
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

    /// CA of client certificates, besides the CA of the data folder. The common name is the user, organisations are the
    /// groups. Reloaded when it changes.
    #[arg(
        long,
        env = "PILOTHOUSE_API_CLIENT_CA",
        value_name = "FILE",
        requires = "data"
    )]
    pub api_client_ca: Option<PathBuf>,

    /// Most connections to the Kubernetes API at once.
    #[arg(long, env = "PILOTHOUSE_API_MAX_CONNECTIONS", value_name = "N", default_value_t = Limits::default().connections)]
    pub api_max_connections: usize,

    /// Most connections from one address (IPv6: one /64) to the Kubernetes API at once.
    #[arg(long, env = "PILOTHOUSE_API_MAX_CONNECTIONS_PER_PEER", value_name = "N", default_value_t = Limits::default().connections_per_peer)]
    pub api_max_connections_per_peer: usize,

    /// Most requests of one user to the Kubernetes API at once, without watches. Members of system:masters are exempt.
    #[arg(long, env = "PILOTHOUSE_API_MAX_REQUESTS_PER_USER", value_name = "N", default_value_t = Limits::default().requests_per_user)]
    pub api_max_requests_per_user: usize,

    /// Most watches of one user of the Kubernetes API at once. Members of system:masters are exempt.
    #[arg(long, env = "PILOTHOUSE_API_MAX_WATCHES_PER_USER", value_name = "N", default_value_t = Limits::default().watches_per_user)]
    pub api_max_watches_per_user: usize,

    /// Address ranges at which admission webhooks of the store are called although they are blocked by default: link-local
    /// addresses and the metadata services of clouds. Comma-separated.
    #[arg(
        long,
        env = "PILOTHOUSE_WEBHOOK_ALLOWED_CIDRS",
        value_name = "CIDRS",
        default_value = "",
        value_parser = cidrs
    )]
    pub webhook_allowed_cidrs: Cidrs,

    /// OpenID Connect.
    #[command(flatten)]
    pub oidc: OidcOptions,

    /// The issuer that tokens of service accounts name. Verifiers that discover keys ask below it, so for them it is the URL of
    /// this API. Tokens of another issuer are void.
    #[arg(long, env = "PILOTHOUSE_SERVICE_ACCOUNT_ISSUER", value_name = "URL", default_value = apiserver::access::service_accounts::ISSUER)]
    pub service_account_issuer: String,

    /// Most revisions that the history keeps.
    #[arg(long, env = "PILOTHOUSE_HISTORY_REVISIONS", value_name = "N", default_value_t = Keep::default().revisions)]
    pub history_revisions: usize,

    /// Longest time that the history keeps a revision.
    #[arg(long, env = "PILOTHOUSE_HISTORY_AGE", value_name = "DURATION", default_value = "720h", value_parser = duration)]
    pub history_age: Duration,

    /// Most bytes that the history keeps.
    #[arg(long, env = "PILOTHOUSE_HISTORY_BYTES", value_name = "BYTES", default_value_t = Keep::default().bytes)]
    pub history_bytes: u64,
}

async fn open_store(data: &Path, options: &ApiOptions) -> anyhow::Result<Store> {
    let keep = Keep {
        revisions: options.history_revisions,
        age: options.history_age,
        bytes: options.history_bytes,
    };
    let folder = data.to_owned();
    tokio::task::spawn_blocking(move || Store::open(&folder, keep))
        .await?
        .with_context(|| cannot_open(data))
}

/// Users and grants as the options state them; the admin token is added when certificates are.
fn configured_access(options: &ApiOptions) -> anyhow::Result<Access> {
    let access = match &options.api_access {
        Some(file) => Access::read(file).context("cannot use --api-access")?,
        None => Access::default(),
    };
    let Some(settings) = options.oidc.settings()? else {
        return Ok(access);
    };
    let issuer = Oidc::new(settings).context("cannot take tokens of the issuer")?;
    Ok(access.with_issuer(issuer))
}

/// What is asked of the API, found good before anything is written.
pub struct Asked {
    data: PathBuf,
    listener: TcpListener,
    access: Access,
    given: Given,
}

impl Asked {
    /// Checks what the options ask for; `None` where they ask for no API. Nothing is written into the data folder.
    ///
    /// # Errors
    ///
    /// When the API cannot be served as asked.
    pub async fn check(options: &ApiOptions) -> anyhow::Result<Option<Self>> {
        let Some(data) = options.data.clone() else {
            return Ok(None);
        };
        let loopback = options.api_addr.ip().to_canonical().is_loopback();
        anyhow::ensure!(
            loopback || !options.insecure_local,
            "--insecure-local is for loopback only, and --api-addr is {}",
            options.api_addr
        );
        Store::check(&data).with_context(|| cannot_open(&data))?;
        let given = Given {
            certificate: options.api_tls_cert.clone(),
            key: options.api_tls_key.clone(),
            client_ca: options.api_client_ca.clone(),
        };
        if !options.insecure_local {
            Files::of(&data).check(&given)?;
        }
        let access = configured_access(options)?;
        let listener = TcpListener::bind(options.api_addr)
            .await
            .with_context(|| format!("cannot listen on {} (--api-addr)", options.api_addr))?;
        Ok(Some(Self {
            data,
            listener,
            access,
            given,
        }))
    }
}

fn cannot_open(data: &Path) -> String {
    format!("cannot open the store in {}", data.display())
}

/// Certificates that are reloaded when their files change, and access for the operator; with the operator's token.
fn secured(
    data: &Path,
    options: &ApiOptions,
    (access, given): (Access, Given),
    stop: &CancellationToken,
) -> anyhow::Result<(Security, Access, String)> {
    let files = Files::of(data);
    let token = files.prepare(&server_names(options.api_addr.ip()))?;
    let access = access
        .with_admin(&token)
        .context("cannot use the token of the operator")?;
    let config = files.server(&given)?;
    let certificates = reload::certificates(files, given, config, watched::EVERY, stop.clone());
    Ok((Security::Reloaded(certificates), access, token))
}

/// Opens the store, starts the API, and returns it with the owner of its objects.
///
/// # Errors
///
/// When the store cannot be opened, or the API not be served as asked.
pub async fn start(
    asked: Asked,
    options: &ApiOptions,
    namespace: &str,
    (shadows, features): (&Arc<Shadows>, Arc<Features>),
    stop: &CancellationToken,
) -> anyhow::Result<(Owner, Arc<Api>)> {
    let Asked {
        data,
        listener,
        access,
        given,
    } = asked;
    let data = data.as_path();
    let store = open_store(data, options).await?;
    // Before the certificates, for which `pilothouse kubeconfig` waits.
    apiserver::pki::Files::of(data).keep_address(listener.local_addr()?)?;
    let audit = match &options.api_audit_log {
        Some(file) => Audit::to_file(file)
            .with_context(|| format!("cannot write {} (--api-audit-log)", file.display()))?,
        None => Audit::default(),
    };
    let (security, access, admin) = if options.insecure_local {
        tracing::warn!(
            address = %listener.local_addr()?,
            "The Kubernetes API is served over plain HTTP; anyone who can reach the port may do anything (--insecure-local)."
        );
        (Security::InsecureLocal, access, None)
    } else {
        let (security, access, token) = secured(data, options, (access, given), stop)?;
        (security, access, Some(token))
    };
    let owner = Owner::new(STORE_RANK, format!("api:{}", data.display()));
    let api = Api::start(store, access, audit, &["default", namespace]).await?;
    api.set_issuer(&options.service_account_issuer);
    api.set_limits(Limits {
        connections: options.api_max_connections,
        connections_per_peer: options.api_max_connections_per_peer,
        requests_per_user: options.api_max_requests_per_user,
        watches_per_user: options.api_max_watches_per_user,
        ..Limits::default()
    });
    api.set_reach(Reach::new(&options.webhook_allowed_cidrs.0, None));
    if let Some(file) = &options.api_access {
        let watching = reload::access(
            file.clone(),
            admin,
            api.clone(),
            watched::EVERY,
            stop.clone(),
        );
        tokio::spawn(watching);
    }
    let (shadows, own) = (shadows.clone(), owner.clone());
    api.set_elsewhere(move |key| {
        let other = shadows.instead_of(&own, key)?;
        Some(other.to_string())
    });
    api.set_further_rules(move |object| judged::of_one(&features, object));
    let local = apiserver::http::serve_local(data, api.clone(), stop.clone());
    local.with_context(|| format!("cannot make the socket in {}", data.display()))?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "Serving the Kubernetes API.");
    tracing::info!("{}", welcome::api(data, options, address));
    tokio::spawn(apiserver::http::serve(
        listener,
        security,
        api.clone(),
        stop.clone(),
    ));
    Ok((owner, api))
}
