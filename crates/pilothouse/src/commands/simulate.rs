//! `pilothouse simulate`: where a request goes, step by step.

mod left_out;
mod made_by;
mod print;
mod request;

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use simulate::Resources;
use xds::TypeUrl;

use super::explain::Explanations;
use super::proxy::ProxyOptions;
use made_by::MadeBy;

/// Flags of `pilothouse simulate`.
#[derive(Args, Debug)]
pub(crate) struct SimulateOptions {
    /// The proxy that sends or receives the request, NAME.NAMESPACE, NAME or a whole node id: a connected one or, with
    /// --config-dir, one described by flags.
    #[arg(long, value_name = "PROXY")]
    pub(super) from: String,

    /// HTTP method, GET unless one is stated, and URL of the request: http://, https://, grpc:// or tcp://, host, port and path.
    #[arg(num_args = 1..=2, required = true, value_names = ["METHOD", "URL"])]
    request: Vec<String>,

    /// A header of the request, NAME: VALUE; Host sets the authority. May be repeated.
    #[arg(long = "header", short = 'H', value_name = "HEADER")]
    headers: Vec<String>,

    /// Alias of --http-addr.
    #[arg(long, value_name = "HOST:PORT", hide = true, conflicts_with_all = ["config_dir", "http_addr"])]
    pub(super) server: Option<String>,

    /// The request is inbound: the port of the URL is the workload's.
    #[arg(long)]
    inbound: bool,

    /// Destination address of the request, if the host does not determine it.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<IpAddr>,

    /// The client is a proxy of the mesh and uses mutual TLS.
    #[arg(long)]
    mtls: bool,

    /// Who the client is, for AuthorizationPolicies: a service account, or a whole identity (spiffe://...). Implies --mtls.
    #[arg(long = "as", value_name = "NAMESPACE/ACCOUNT")]
    identity: Option<String>,

    /// The client's address, for AuthorizationPolicies.
    #[arg(long, value_name = "ADDRESS")]
    client_ip: Option<IpAddr>,

    /// Use HTTP/2.
    #[arg(long)]
    http2: bool,

    /// Output format.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Output,

    #[command(flatten, next_help_heading = "The proxy")]
    pub(super) proxy: ProxyOptions,
}

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Output {
    /// For a terminal.
    Text,
    /// The steps as JSON.
    Json,
}

/// How long may be tried for each type what happens without an object.
const TIME: Duration = Duration::from_secs(20);

/// Everything that a walk passes.
const TYPES: [TypeUrl; 4] = [
    TypeUrl::Listener,
    TypeUrl::Route,
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
];

/// Walks and prints.
pub(crate) async fn run(mut options: SimulateOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(server) = options.server.take() {
        options.proxy.http_addr = server;
    }
    let mut explanations = options.explanations()?;
    let mut resources = options.resources(&mut explanations).await?;
    if let Some(held) = explanations.held(resources.asked_secrets()).await {
        resources.set_secrets(held);
    }
    let call = request::call(&options, &resources)?;
    let walk = simulate::walk(&resources, &call);
    let made_by = MadeBy::of(&walk, &mut explanations).await;
    match options.output {
        Output::Text => print::text(out, &options.from, &call, &walk, &made_by)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &print::json(&walk, &made_by))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

impl SimulateOptions {
    /// What the proxy has.
    async fn resources(&self, explanations: &mut Explanations) -> anyhow::Result<Resources> {
        let mut resources = Resources::default();
        if self.proxy.config_dir.is_empty() {
            let gathered = self.proxy.resources(&self.from, &TYPES).await?;
            for (ty, list) in &gathered {
                for resource in list {
                    let body = descriptors::json::to_bytes(ty.as_str(), resource);
                    resources.add(ty.as_str(), &body.context("a resource cannot be read")?)?;
                }
            }
            return Ok(resources);
        }
        for ty in TYPES {
            for resource in explanations.resources(ty).iter().flatten() {
                resources.add(ty.as_str(), &resource.body)?;
            }
        }
        Ok(resources)
    }

    /// Who explains what made the steps.
    fn explanations(&self) -> anyhow::Result<Explanations> {
        let proxy = &self.proxy;
        if proxy.config_dir.is_empty() {
            let name = proxy.full_name(&self.from);
            return Ok(Explanations::of_server(&proxy.http_addr, &name));
        }
        proxy.explanations(&self.from, None, TIME)
    }
}
