//! A real Envoy with a bootstrap of ours, from start to end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use envoy::process::Process;
use envoy::program::Envoy;

use super::super::bootstrap::{self, BootstrapOptions};
use super::super::proxy_config::debug_page;

/// How often is looked whether Envoy still runs, and while it starts, what it listens on.
const LOOK: Duration = Duration::from_millis(100);
/// How long Envoy may take to listen.
const PATIENCE: Duration = Duration::from_secs(15);

/// A running Envoy.
pub(in crate::commands) struct Proxy {
    process: Process,
    /// The file that Envoy writes the address of its admin page to.
    admin: PathBuf,
}

impl Proxy {
    /// Starts Envoy with files in a folder, and further flags.
    ///
    /// # Errors
    ///
    /// When a file cannot be written, or Envoy cannot be started.
    pub(in crate::commands) fn start(
        envoy: &Envoy,
        settings: &BootstrapOptions,
        dir: &Path,
        flags: &[&str],
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
        let ours = [
            "-c".to_owned(),
            text(&file),
            "--disable-hot-restart".to_owned(),
            "--log-level".to_owned(),
            "warning".to_owned(),
            "--admin-address-path".to_owned(),
            text(&admin),
        ];
        let more = envoy::FLAGS.iter().chain(flags);
        let more = more.map(|flag| (*flag).to_owned());
        let args: Vec<String> = ours.into_iter().chain(more).collect();
        let log = dir.join("envoy.log");
        let process = Process::start("Envoy", &envoy.program, &args, &log)?;
        Ok(Self { process, admin })
    }

    /// Waits until Envoy listens on all ports that are wanted, or would have long since; says on which it does.
    ///
    /// # Errors
    ///
    /// When Envoy ends.
    pub(in crate::commands) async fn listening(
        &mut self,
        wanted: &BTreeSet<u16>,
    ) -> anyhow::Result<BTreeSet<u16>> {
        let start = Instant::now();
        loop {
            self.process.check()?;
            let open = self.open().await.unwrap_or_default();
            if wanted.is_subset(&open) || start.elapsed() > PATIENCE {
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
    ///
    /// # Errors
    ///
    /// Always: it was not to end.
    pub(in crate::commands) async fn ended(&mut self) -> anyhow::Result<()> {
        loop {
            self.process.check()?;
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(in crate::commands) fn into_process(self) -> Process {
        self.process
    }
}
