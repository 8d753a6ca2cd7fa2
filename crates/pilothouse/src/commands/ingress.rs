//! `pilothouse ingress`: an ingress in one command, on this machine.
//!
//! It starts a server on manifests, a cluster or a store, and a real Envoy that serves the Ingresses with their annotations.
//! The terminal shows what is served, what is wrong, and each request. A cluster is only read: nothing is written into it.

mod access;
mod nginx;
mod overview;
mod reasons;
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
use super::local::{EnvoyOptions, RunDir, until_asked_to_end};
use crate::log::say;
use access::Requests;
use overview::Overview;

/// The classes that are served unless others are stated.
const CLASSES: [&str; 2] = ["nginx", "higress"];
/// How often is looked whether something was edited.
const LOOK: Duration = Duration::from_secs(1);
/// How long is waited for a further line when Envoy has ended: all that it wrote is there.
const LAST_LINE: Duration = Duration::from_millis(100);

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

    /// Mesh configuration.
    #[arg(long, alias = "meshConfig", value_name = "FILE")]
    mesh_config: Option<PathBuf>,

    /// How many proxies before this one are trusted, such as a load balancer that ends TLS: the client's address is that of
    /// x-forwarded-for, and requests with `x-forwarded-proto: https` are not redirected. It goes before numTrustedProxies of the mesh
    /// configuration, and is what use-forwarded-headers is to ingress-nginx.
    #[arg(long, value_name = "N")]
    trusted_proxies: Option<u32>,

    /// How requests are shown.
    #[arg(long, value_enum, default_value = "text")]
    access_log: AccessLog,

    /// What to log of the server: error, warn, info, debug. Findings are shown in any case.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "warn,pilothouse_server::serve::report=off"
    )]
    pub(crate) log: String,

    /// Which Ingresses are served, and how. Default classes: nginx and higress, and Ingresses without a class.
    #[command(flatten, next_help_heading = "Ingresses with annotations")]
    annotations: server::settings::IngressOptions,

    /// Envoy.
    #[command(flatten, next_help_heading = "Envoy")]
    envoy: EnvoyOptions,
}

/// How requests are shown on the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum AccessLog {
    /// A line for people.
    Text,
    /// A line of JSON.
    Json,
    /// The line that ingress-nginx logs, its log format upstreaminfo; what Envoy does not know is `-`.
    Nginx,
    /// As the mesh configuration says, otherwise Istio's line.
    Istio,
    /// Not at all.
    Off,
}

/// Runs until Ctrl-C, SIGTERM, or the end of Envoy.
///
/// # Errors
///
/// When there is nothing to read, a port cannot be had, something cannot start, or Envoy ends by itself.
pub(crate) async fn run(options: IngressOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut running = None;
    let work = start_and_watch(&options, out, &mut running);
    let result = until_asked_to_end(work).await;
    match running {
        Some(running) => result.and(running.end(out).await),
        None => result,
    }
}

/// What runs, and has to end in order.
struct Running {
    proxy: Proxy,
    requests: Option<Requests>,
    server: OwnServer,
    /// Where Envoy's files lie.
    kept: RunDir,
}

impl Running {
    /// Ends Envoy, then the server, and shows the requests that Envoy had not told yet.
    async fn end(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let Self {
            proxy,
            mut requests,
            server,
            kept,
        } = self;
        {
            let mut stopping = std::pin::pin!(process::stop(vec![proxy.into_process()]));
            loop {
                tokio::select! {
                    line = Requests::next(&mut requests) => show(&line?, out)?,
                    () = &mut stopping => break,
                }
            }
        }
        while requests.is_some()
            && let Ok(line) = tokio::time::timeout(LAST_LINE, Requests::next(&mut requests)).await
        {
            show(&line?, out)?;
        }
        drop(server);
        drop(kept);
        Ok(())
    }
}

fn show(line: &str, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}

async fn start_and_watch(
    options: &IngressOptions,
    out: &mut dyn Write,
    running: &mut Option<Running>,
) -> anyhow::Result<()> {
    source::check(options)?;
    let annotations = stated(options);
    let features = annotations.features();
    check_ports(&features, options.envoy.address())?;
    let kept = options.envoy.run_dir()?;
    let requests = match options.access_log {
        AccessLog::Off => None,
        _ => Some(Requests::new(kept.path(), options.access_log)?),
    };
    let flags = source::flags(options, kept.path(), requests.as_ref())?;
    let envoy = options.envoy.find()?;
    say!("Reading {}.", source::name(options));
    let adjust = |serve: &mut server::config::ServeOptions| serve.ingress = annotations;
    let server = OwnServer::start(flags, adjust).await?;
    let pages = server.pages.clone();
    let settings = bootstrap(&features, &server)?.listening_at(options.envoy.address());
    let mut overview = Overview::read(
        &pages,
        settings.proxy_name(),
        &features,
        options.envoy.reached_at(),
        options.kubeconfig.is_some(),
    )
    .await?;
    // What is logged shows at once, not after Envoy's usual ten seconds.
    let at_once = ["--file-flush-interval-msec", "100"];
    let proxy = Proxy::start(&envoy, &settings, kept.path(), &at_once)?;
    say!("Envoy: {}.", envoy.from);
    let Running {
        proxy,
        requests,
        server,
        ..
    } = running.insert(Running {
        proxy,
        requests,
        server,
        kept,
    });
    let shown = async {
        let open = proxy.listening(&overview.ports()).await?;
        overview.print(out, &pages, &open).await?;
        writeln!(out, "\nCtrl-C ends it.")?;
        out.flush()?;
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                line = Requests::next(requests) => show(&line?, out)?,
                _ = look.tick() => overview.refresh(out, &pages).await?,
                ended = proxy.ended() => return ended,
            }
        }
    };
    tokio::select! {
        result = shown => result,
        result = server.ended() => result,
    }
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
