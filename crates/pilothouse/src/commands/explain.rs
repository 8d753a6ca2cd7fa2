//! `pilothouse explain`: which objects made a resource, and which resources an object takes part in.

mod print;
mod source;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use explain::{Explanation, Target};
use xds::TypeUrl;

use super::proxy::{ProxyOptions, UNNAMED};
pub(super) use source::Explanations;

/// Flags of `pilothouse explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainOptions {
    /// The type of the resource.
    #[arg(value_enum, required_unless_present = "object", requires = "name")]
    what: Option<What>,

    /// The name of the resource, as `proxy-config` prints it: 'outbound|80||carts.shop.svc.cluster.local'.
    name: Option<String>,

    /// List the resources that this object takes part in, in place of the objects that made a resource.
    #[arg(
        long,
        value_name = "KIND/NAMESPACE/NAME",
        conflicts_with_all = ["what", "name"]
    )]
    object: Option<String>,

    /// The proxy, NAME.NAMESPACE, NAME or a whole node id: a connected one, or with --config-dir one that the flags
    /// describe.
    #[arg(long, alias = "from", value_name = "PROXY", required_unless_present_any = ["config_dir", "node"])]
    proxy: Option<String>,

    /// Alias of --http-addr.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["config_dir", "http_addr"])]
    server: Option<String>,

    /// Node in JSON for --config-dir, in place of the flags that describe a proxy.
    #[arg(
        long,
        value_name = "FILE",
        requires = "config_dir",
        conflicts_with = "proxy"
    )]
    node: Option<PathBuf>,

    /// How long to try with --config-dir what happens without an object.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,

    /// Output format.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Output,

    #[command(flatten, next_help_heading = "The proxy")]
    described: ProxyOptions,
}

/// Types of resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    /// A cluster.
    #[value(alias = "clusters", alias = "c")]
    Cluster,
    /// A listener.
    #[value(alias = "listeners", alias = "l")]
    Listener,
    /// A route configuration.
    #[value(alias = "routes", alias = "r")]
    Route,
    /// The endpoints of a cluster.
    #[value(alias = "endpoints", alias = "ep")]
    Endpoint,
    /// A TLS secret.
    #[value(alias = "secrets", alias = "s")]
    Secret,
}

impl What {
    fn type_url(self) -> TypeUrl {
        match self {
            What::Cluster => TypeUrl::Cluster,
            What::Listener => TypeUrl::Listener,
            What::Route => TypeUrl::Route,
            What::Endpoint => TypeUrl::Endpoint,
            What::Secret => TypeUrl::Secret,
        }
    }
}

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Output {
    /// For a terminal.
    Text,
    /// JSON.
    Json,
}

/// Explains and prints.
pub(crate) async fn run(options: ExplainOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let proxy = options.proxy.as_deref().unwrap_or(UNNAMED);
    match (&options.object, options.what, &options.name) {
        (Some(object), ..) => {
            let found = options.source(proxy)?.participation(object).await?;
            match options.output {
                Output::Text => print::participation(out, proxy, &found)?,
                Output::Json => json(out, &found)?,
            }
        }
        (None, Some(what), Some(name)) => {
            let found = options.explanation(what.type_url(), name, proxy).await?;
            match options.output {
                Output::Text => print::explanation(out, proxy, &found)?,
                Output::Json => json(out, &found)?,
            }
        }
        _ => bail!("which resource? give its type and name, or --object"),
    }
    Ok(())
}

fn json(out: &mut dyn Write, value: &impl serde::Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

impl ExplainOptions {
    async fn explanation(
        &self,
        ty: TypeUrl,
        name: &str,
        proxy: &str,
    ) -> anyhow::Result<Explanation> {
        let targets = [Target::whole(name)];
        let mut found = self.source(proxy)?.explain(ty, &targets).await?;
        found.pop().context("the server does not answer")
    }

    /// Where answers come from.
    fn source(&self, proxy: &str) -> anyhow::Result<Explanations> {
        let described = &self.described;
        if described.config_dir.is_empty() {
            let address = self.server.as_ref().unwrap_or(&described.http_addr);
            return Ok(Explanations::of_server(
                address,
                &described.full_name(proxy),
            ));
        }
        let time = Duration::try_from_secs_f64(self.timeout).context("--timeout is no time")?;
        described.explanations(proxy, self.node.as_deref(), time)
    }
}
