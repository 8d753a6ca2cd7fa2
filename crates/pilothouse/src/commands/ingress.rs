//! `pilothouse ingress`: an ingress in one command, on this machine.
//!
//! It starts a server on manifests, a cluster or a store, and a real Envoy that serves the Ingresses with their annotations.
//! The terminal shows what is served, what is wrong, and each request. A cluster is only read: nothing is written into it.

mod access;
mod overview;
mod source;

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use envoy::process;
use model::settings::Features;

use super::bootstrap::BootstrapOptions;
use super::local::ports::{self, Fault};
use super::local::proxy::Proxy;
use super::local::server::OwnServer;
use super::local::{EnvoyOptions, until_asked_to_end};
use crate::log::say;
use access::Requests;
use overview::Overview;

/// The classes that are served unless others are stated.
const CLASSES: [&str; 2] = ["nginx", "higress"];
/// How often is looked whether something was edited.
const LOOK: Duration = Duration::from_secs(1);

/// Flags of `pilothouse ingress`.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct IngressOptions {
    /// A folder of manifests, or a file; edits take effect at once. May be given several times.
    #[arg(long, short = 'f', value_name = "DIR|FILE", required_unless_present_any = ["kubeconfig", "data"])]
    manifest: Vec<PathBuf>,

    /// Read the cluster of a kubeconfig: this one, or that of $KUBECONFIG or ~/.kube/config. Nothing is written into it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
    kubeconfig: Option<PathBuf>,

    /// Serve the Kubernetes API over a store in this folder, and the Ingresses that kubectl applies there.
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    data: Option<PathBuf>,

    /// Which Ingresses are served, and how. Default classes: nginx and higress, and Ingresses without a class.
    #[command(flatten)]
    annotations: server::settings::IngressOptions,

    /// Mesh configuration.
    #[arg(long, alias = "meshConfig", value_name = "FILE")]
    mesh_config: Option<PathBuf>,

    /// How requests are shown.
    #[arg(long, value_enum, default_value = "text")]
    access_log: AccessLog,

    /// Envoy.
    #[command(flatten)]
    envoy: EnvoyOptions,

    /// What to log of the server: error, warn, info, debug. Findings are shown in any case.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "warn,pilothouse_server::serve::report=off"
    )]
    pub(crate) log: String,
}

/// How requests are shown on the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum AccessLog {
    /// A line for people.
    Text,
    /// A line of JSON.
    Json,
    /// Not at all.
    Off,
}

/// Runs until Ctrl-C, SIGTERM, or the end of Envoy.
///
/// # Errors
///
/// When a port cannot be had, something cannot start, or Envoy ends by itself.
pub(crate) async fn run(options: IngressOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    until_asked_to_end(start_and_watch(&options, out)).await
}

async fn start_and_watch(options: &IngressOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let annotations = stated(options);
    let features = annotations.features();
    check_ports(&features, options.envoy.address())?;
    let envoy = options.envoy.find()?;
    let kept = options.envoy.run_dir()?;
    let mut requests = match options.access_log {
        AccessLog::Off => None,
        _ => Some(Requests::new(kept.path(), options.access_log)?),
    };
    let flags = source::flags(options, kept.path(), requests.as_ref())?;
    say!("Reading {}.", source::name(options));
    let adjust = |serve: &mut server::config::ServeOptions| serve.ingress = annotations;
    let mut server = OwnServer::start(flags, adjust).await?;
    let pages = server.pages.clone();
    let mut overview = Overview::read(
        &pages,
        &features,
        options.envoy.reached_at(),
        options.kubeconfig.is_some(),
    )
    .await?;
    let settings = bootstrap(&features, &server)?.listening_at(options.envoy.address());
    // What is logged shows at once, not after Envoy's usual ten seconds.
    let at_once = ["--file-flush-interval-msec", "100"];
    let mut proxy = Proxy::start(&envoy, &settings, kept.path(), &at_once)?;
    say!("Envoy: {}.", envoy.from);
    let shown = async {
        let open = proxy.listening(&overview.ports()).await?;
        overview.print(out, &open)?;
        writeln!(out, "\nCtrl-C ends it.")?;
        out.flush()?;
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                line = Requests::next(&mut requests) => {
                    writeln!(out, "{}", line?)?;
                    out.flush()?;
                }
                _ = look.tick() => overview.refresh(out, &pages).await?,
                ended = proxy.ended() => return ended,
            }
        }
    };
    let result = tokio::select! {
        result = shown => result,
        result = server.ended() => result,
    };
    process::stop(vec![proxy.into_process()]).await;
    result
}

/// The flags of Ingresses, with the classes that are served by default.
fn stated(options: &IngressOptions) -> server::settings::IngressOptions {
    let mut annotations = options.annotations.clone();
    if annotations.ingress_class.is_empty() {
        annotations.ingress_class = CLASSES.map(str::to_owned).to_vec();
    }
    annotations
}

/// Fails where a port cannot be bound, before Envoy does.
fn check_ports(features: &Features, address: IpAddr) -> anyhow::Result<()> {
    let (http, https) = (
        features.edge_http_port.get(),
        features.edge_https_port.get(),
    );
    if http == https {
        bail!("--http-port and --https-port are both {http}: each needs a port of its own");
    }
    let wanted = [("--http-port", http, 8080), ("--https-port", https, 8443)];
    let mut faults = Vec::new();
    for (flag, port, other) in wanted {
        match ports::check_tcp(address, port) {
            Ok(()) => {}
            Err(Fault::Privileged) => faults.push(format!(
                "port {port} is for root: use {flag} {other}, or allow it with `sysctl net.ipv4.ip_unprivileged_port_start={port}`"
            )),
            Err(Fault::Taken) => faults.push(format!(
                "another program listens on port {port} (`ss -ltnp 'sport = :{port}'` names it): end it, or use {flag} {other}"
            )),
            Err(Fault::Other(error)) => faults.push(format!("port {port}: {error}")),
        }
    }
    if !faults.is_empty() {
        bail!("Envoy could not listen.\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// The proxy that serves Ingresses with annotations.
fn bootstrap(features: &Features, server: &OwnServer) -> anyhow::Result<BootstrapOptions> {
    let selector = features.edge_selector.as_str();
    let (key, value) = selector
        .split_once('=')
        .with_context(|| format!("--ingress-selector {selector:?} is not KEY=VALUE"))?;
    Ok(BootstrapOptions::of_ingress(
        features.edge_namespace.to_string(),
        (key.to_owned(), value.to_owned()),
        server.xds.clone(),
        server.token(),
    ))
}

/// Whether lines may have colours.
fn has_colors() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
