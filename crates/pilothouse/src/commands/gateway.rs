//! `pilothouse gateway`: the real Envoy for a Gateway of the Gateway API, on this machine.
//!
//! It starts a server on a folder, or takes a running one, writes a bootstrap and starts Envoy with it. The proxy says in
//! its metadata for which Gateway it runs, so it gets its listeners without a Service (`mesh::gateways::Runs`).

mod listeners;
mod problems;
mod running;

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use envoy::process;
use model::ObjectName;

use super::bootstrap::secure::SecureOptions;
use super::bootstrap::{self, BootstrapOptions};
use super::local::proxy::Proxy;
use super::local::{EnvoyOptions, RunDir, until_asked_to_end};
use crate::log::say;
use listeners::Wanted;
use running::Server;

/// Flags of `pilothouse gateway`.
#[derive(Args, Debug)]
pub(crate) struct GatewayOptions {
    /// Name of the Gateway.
    #[arg(value_name = "NAME")]
    name: String,

    /// Its namespace.
    #[arg(long, short = 'n', value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// A folder of manifests, on which a server is started; edits take effect at once. May be given several times.
    #[arg(
        long,
        alias = "configDir",
        value_name = "DIR",
        required_unless_present = "server"
    )]
    config_dir: Vec<PathBuf>,

    /// Mesh configuration for --config-dir.
    #[arg(
        long,
        alias = "meshConfig",
        value_name = "FILE",
        requires = "config_dir"
    )]
    mesh_config: Option<PathBuf>,

    /// The pages of a running server (`serve --http-addr`), which serves the Gateway.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "config_dir", value_parser = pages)]
    server: Option<String>,

    /// Plaintext xDS of that server (`serve --grpc-addr`).
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:15010", requires = "server", value_parser = bootstrap::authority)]
    xds: (String, u16),

    /// Added to each port: with 8000, listeners on 80 and 443 are at 8080 and 8443, which need no privileges.
    #[arg(long, value_name = "PORTS", default_value_t = 0)]
    port_offset: u16,

    /// What to log of the server: error, warn, info, debug.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log: String,

    /// How the connection to that server is secured: it gives Secrets only to proxies that prove who they are.
    #[command(flatten, next_help_heading = "The connection of --server")]
    secure: SecureOptions,

    /// Envoy.
    #[command(flatten, next_help_heading = "Envoy")]
    envoy: EnvoyOptions,
}

/// The pages of a server, `http://` before them or not.
fn pages(text: &str) -> Result<String, String> {
    let text = text.strip_prefix("http://").unwrap_or(text);
    let text = text.trim_end_matches('/');
    bootstrap::authority(text).map(|(host, port)| format!("{host}:{port}"))
}

/// Runs until Ctrl-C, SIGTERM, or the end of Envoy.
///
/// # Errors
///
/// When there is no such Gateway, something cannot start, or Envoy ends by itself.
pub(crate) async fn run(options: GatewayOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut running = None;
    let result = until_asked_to_end(start_and_watch(&options, out, &mut running)).await;
    if let Some(running) = running {
        running.end().await;
    }
    result
}

/// What runs, and has to end in order.
struct Running {
    proxy: Proxy,
    server: Server,
    /// Where Envoy's files lie.
    kept: RunDir,
}

impl Running {
    /// Ends Envoy, which writes what it has still to log, then the server.
    async fn end(self) {
        process::stop(vec![self.proxy.into_process()]).await;
        drop(self.server);
        drop(self.kept);
    }
}

async fn start_and_watch(
    options: &GatewayOptions,
    out: &mut dyn Write,
    running: &mut Option<Running>,
) -> anyhow::Result<()> {
    if options.server.is_none() && options.secure.is_used() {
        bail!("--root-cert is for --server: the server on a folder knows its Envoy");
    }
    let server = Server::of(options).await?;
    let name = ObjectName::new(options.namespace.as_str(), options.name.as_str());
    let pages = server.pages.clone();
    let reached_at = options.envoy.reached_at();
    let wanted = Wanted::read(&pages, &name, options.port_offset, reached_at).await?;
    wanted.check_ports(options.envoy.address())?;
    // Only now: it may have to be downloaded.
    let envoy = options.envoy.find()?;
    let kept = options.envoy.run_dir()?;
    let settings = BootstrapOptions::of_gateway(
        &name,
        wanted.service_account(),
        options.port_offset,
        server.xds.clone(),
        server.token(),
        options.secure.clone(),
    )
    .listening_at(options.envoy.address());
    let is_known = server.is_own() || options.secure.proves_identity();
    let proxy = Proxy::start(&envoy, &settings, kept.path(), &[])?;
    say!("Envoy: {}.", envoy.from);
    let Running { proxy, server, .. } = running.insert(Running {
        proxy,
        server,
        kept,
    });
    let shown = async {
        let open = proxy.listening(&wanted.ports()).await?;
        let problems = problems::read(&pages, &wanted).await?;
        wanted.print(out, &open, is_known, &problems.not_served)?;
        problems::print(out, &problems)?;
        writeln!(out, "\nCtrl-C ends it.")?;
        out.flush()?;
        proxy.ended().await
    };
    tokio::select! {
        result = shown => result,
        result = server.ended() => result,
    }
}

#[cfg(test)]
mod tests {
    use super::pages;

    #[test]
    fn a_server_is_named_by_url_or_address() {
        for text in [
            "http://127.0.0.1:8080/",
            "127.0.0.1:8080",
            "http://127.0.0.1:8080",
        ] {
            assert_eq!(pages(text).as_deref(), Ok("127.0.0.1:8080"), "{text}");
        }
        assert!(pages("https://example.com/").is_err());
    }
}
