//! The server and the Envoy of `pilothouse gateway`, from start to end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use envoy::process::Process;
use envoy::program::Envoy;
use server::config::ServeOptions;
use server::own::OwnProxies;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::bootstrap::{self, BootstrapOptions};
use super::super::proxy_config::debug_page;
use super::GatewayOptions;
use super::listeners::Wanted;

/// How often is looked whether Envoy still runs, and while it starts, what it listens on.
const LOOK: Duration = Duration::from_millis(100);
/// How long Envoy may take to listen.
const PATIENCE: Duration = Duration::from_secs(15);

/// The server that Envoy connects to.
pub(super) struct Server {
    /// Its pages.
    pub(super) pages: String,
    /// Its xDS.
    pub(super) xds: (String, u16),
    own: Option<Own>,
}

/// A server in this process.
struct Own {
    serving: JoinHandle<anyhow::Result<()>>,
    /// By which it knows our Envoy, which so gets the Secrets of the Gateway.
    proxies: OwnProxies,
    // Ends it.
    _stop: DropGuard,
}

/// The flags of `serve`, read as it reads them.
#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

impl Server {
    /// The server that the options name, or a new one on their folders.
    pub(super) async fn of(options: &GatewayOptions) -> anyhow::Result<Self> {
        if let Some(pages) = &options.server {
            return Ok(Self {
                pages: pages.clone(),
                xds: options.xds.clone(),
                own: None,
            });
        }
        let folders: Vec<String> = options
            .config_dir
            .iter()
            .map(|dir| dir.display().to_string())
            .collect();
        for dir in &options.config_dir {
            if !dir.is_dir() {
                bail!("{} is no folder", dir.display());
            }
        }
        eprintln!("Serving {}.", folders.join(", "));
        let mut flags: Vec<&str> = "serve --grpc-addr 127.0.0.1:0 --http-addr 127.0.0.1:0 \
            --secure-grpc-addr off --shutdown-duration 1s"
            .split_whitespace()
            .collect();
        flags.extend(
            folders
                .iter()
                .flat_map(|dir| ["--config-dir", dir.as_str()]),
        );
        let mesh = options
            .mesh_config
            .as_ref()
            .map(|f| f.display().to_string());
        flags.extend(
            mesh.iter()
                .flat_map(|file| ["--mesh-config", file.as_str()]),
        );
        let mut serve =
            Serve::try_parse_from(flags).context("the environment of the server is wrong")?;
        let proxies = OwnProxies::new()?;
        serve.options.own_proxies = Some(proxies.clone());
        let stop = CancellationToken::new();
        let (tell, ready) = oneshot::channel();
        // Nobody listens any more where this fails: the command ends.
        let told = move |addresses| _ = tell.send(addresses);
        let serving = server::serve::serve_until(serve.options, stop.clone(), told);
        let mut serving = tokio::spawn(serving);
        let addresses = tokio::select! {
            ready = ready => ready.context("the server has not started")?,
            ended = &mut serving => {
                ended.context("the server panicked")??;
                bail!("the server ended before it was ready");
            }
        };
        Ok(Self {
            pages: addresses.http.to_string(),
            xds: (addresses.xds.ip().to_string(), addresses.xds.port()),
            own: Some(Own {
                serving,
                proxies,
                _stop: stop.drop_guard(),
            }),
        })
    }

    /// Whether it is a server in this process.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// What a server in this process knows our Envoy by.
    pub(super) fn token(&self) -> Option<String> {
        self.own.as_ref().map(|own| own.proxies.token().to_owned())
    }

    /// Resolves when a server in this process has ended.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        match &mut self.own {
            Some(own) => (&mut own.serving).await.context("the server panicked")?,
            None => std::future::pending().await,
        }
    }
}

/// A running Envoy.
pub(super) struct Proxy {
    process: Process,
    /// The file that Envoy writes the address of its admin page to.
    admin: PathBuf,
}

impl Proxy {
    /// Starts Envoy with files in a folder.
    pub(super) fn start(
        envoy: &Envoy,
        settings: &BootstrapOptions,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let file = dir.join("envoy.json");
        let text = serde_json::to_string_pretty(&bootstrap::bootstrap(settings)?)?;
        // It holds the secret.
        let _ = std::fs::remove_file(&file);
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file);
        written
            .and_then(|mut out| out.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let admin = dir.join("admin-address");
        let _ = std::fs::remove_file(&admin);
        let text = |path: &Path| path.display().to_string();
        let args = [
            "-c".to_owned(),
            text(&file),
            "--disable-hot-restart".to_owned(),
            "--log-level".to_owned(),
            "warning".to_owned(),
            "--admin-address-path".to_owned(),
            text(&admin),
        ];
        let log = dir.join("envoy.log");
        let process = Process::start("Envoy", &envoy.program, &args, &log)?;
        Ok(Self { process, admin })
    }

    /// Waits until Envoy listens on all that is wanted, or would have long since; says on which ports it does.
    pub(super) async fn listening(&mut self, wanted: &Wanted) -> anyhow::Result<BTreeSet<u16>> {
        let start = Instant::now();
        loop {
            self.process.check()?;
            let open = self.open().await.unwrap_or_default();
            if wanted.all_in(&open) || start.elapsed() > PATIENCE {
                return Ok(open);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The ports that Envoy listens on.
    async fn open(&self) -> anyhow::Result<BTreeSet<u16>> {
        let admin = std::fs::read_to_string(&self.admin)?;
        let page = debug_page(admin.trim(), "/listeners?format=json").await?;
        let listeners = page["listener_statuses"].as_array().into_iter().flatten();
        let ports = listeners.filter_map(|listener| {
            let port = listener["local_address"]["socket_address"]["port_value"].as_u64()?;
            u16::try_from(port).ok()
        });
        Ok(ports.collect())
    }

    /// Resolves when Envoy has ended, with what it said last.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        loop {
            self.process.check()?;
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(super) fn into_process(self) -> Process {
        self.process
    }
}
