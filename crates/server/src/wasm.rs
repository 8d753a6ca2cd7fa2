//! Wasm modules that are fetched for proxies without an agent: how, and within which limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use model::Owner;
use sources::modules::{LATE, ModuleFetcher, ModulesSource, Options};

use crate::config::{Cidrs, ServeOptions, cidrs, duration};
use crate::derive::Derive;
use crate::metrics::Metrics;
use crate::supervisor::Supervisor;

/// The folder of modules in that of the store.
const IN_DATA: &str = "wasm";
/// In place of a folder: none.
const OFF: &str = "off";
/// Modules are not fetched anew more often than this.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// Flags of Wasm modules.
#[derive(Args, Clone, Debug)]
pub struct WasmOptions {
    /// Folder for Wasm modules that were fetched for proxies without an agent, so that they are there after a restart. Default
    /// with --data: `wasm` in that folder; `off` disables it.
    #[arg(long, env = "PILOTHOUSE_WASM_DIR", value_name = "DIR")]
    pub wasm_dir: Option<PathBuf>,

    /// The largest Wasm module that is fetched, in MiB.
    #[arg(long, env = "PILOTHOUSE_WASM_MAX_MODULE", value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub wasm_max_module: u16,

    /// How large the Wasm modules in use may be together, in MiB, and those in the folder.
    #[arg(long, env = "PILOTHOUSE_WASM_MAX_TOTAL", value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub wasm_max_total: u16,

    /// How long fetching a Wasm module may take.
    #[arg(long, env = "PILOTHOUSE_WASM_FETCH_TIMEOUT", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub wasm_fetch_timeout: Duration,

    /// How often Wasm modules are fetched anew that are to be pulled always, or have the tag `latest`.
    #[arg(long, env = "PILOTHOUSE_WASM_REFRESH_INTERVAL", value_name = "DURATION", default_value = "30m", value_parser = duration)]
    pub wasm_refresh_interval: Duration,

    /// Address ranges from which Wasm modules are never fetched, besides this machine, link-local addresses and the metadata
    /// services of clouds. Comma-separated.
    #[arg(long, env = "BLOCKED_CIDRS_IN_WASM_FETCH", value_name = "CIDRS", default_value = "", value_parser = cidrs)]
    pub wasm_blocked_cidrs: Cidrs,

    /// Address ranges from which Wasm modules are fetched although they are blocked by default, for example 127.0.0.0/8 for
    /// a server on this machine. --wasm-blocked-cidrs takes precedence. Comma-separated.
    #[arg(long, env = "PILOTHOUSE_WASM_ALLOWED_CIDRS", value_name = "CIDRS", default_value = "", value_parser = cidrs)]
    pub wasm_allowed_cidrs: Cidrs,

    /// Registries of images, with their ports, that are asked without TLS, or `*`. Insecure. Comma-separated.
    #[arg(
        long,
        env = "WASM_INSECURE_REGISTRIES",
        value_name = "HOST",
        value_delimiter = ','
    )]
    pub wasm_plain_registries: Vec<String>,

    /// PEM file with more root certificates for fetching Wasm modules; ignored if missing.
    #[arg(
        long,
        env = "PILOTHOUSE_WASM_ROOTS",
        value_name = "FILE",
        default_value = "/cacerts/extra.pem"
    )]
    pub wasm_roots: PathBuf,
}

impl WasmOptions {
    fn dir(&self, options: &ServeOptions) -> Option<PathBuf> {
        match &self.wasm_dir {
            Some(path) if path.as_os_str() == OFF => None,
            Some(path) => Some(path.clone()),
            None => options.api.data.as_ref().map(|data| data.join(IN_DATA)),
        }
    }
}

/// Adds the source of modules.
pub(crate) fn add(
    options: &ServeOptions,
    derive: &Derive,
    metrics: &Arc<Metrics>,
    supervisor: &Supervisor,
) -> anyhow::Result<()> {
    let stated = &options.wasm;
    let metrics = metrics.clone();
    let options = Options {
        refresh: stated.wasm_refresh_interval.max(SHORTEST_REFRESH),
        blocked: stated.wasm_blocked_cidrs.0.clone(),
        allowed: stated.wasm_allowed_cidrs.0.clone(),
        plain_registries: stated.wasm_plain_registries.clone(),
        longest: stated.wasm_fetch_timeout,
        late: LATE,
        largest: usize::from(stated.wasm_max_module) << 20,
        total: usize::from(stated.wasm_max_total) << 20,
        extra_roots: Some(stated.wasm_roots.clone()),
        dir: stated.dir(options),
        attempted: Arc::new(move |succeeded| {
            let result = if succeeded { "fetched" } else { "failed" };
            metrics.modules.with_label_values(&[result]).inc();
        }),
    };
    // Roots that cannot be used are found out at the start.
    ModuleFetcher::new(&options).context("Wasm modules cannot be fetched (--wasm-roots)")?;
    let wanted = derive.wanted_modules();
    supervisor.add(Box::new(move |_| {
        Box::new(ModulesSource {
            owner: Owner::new(0, "wasm"),
            wanted: wanted.clone(),
            options: options.clone(),
        })
    }))?;
    Ok(())
}
