//! `pilothouse proxy-config`: what a proxy gets, as a table or as JSON or YAML.

pub(super) mod gather;
mod tables;

pub(crate) use gather::{ask_page, debug_page};

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;
use xds::TypeUrl;

use super::proxy::{ProxyOptions, UNNAMED};
use super::text::lines;

/// Flags of `pilothouse proxy-config`.
#[derive(Args, Debug)]
pub(crate) struct ProxyConfigOptions {
    /// What to print.
    #[arg(value_enum)]
    what: What,

    /// NAME.NAMESPACE, NAME or a whole node id: a connected proxy or, with --config-dir, one described by flags.
    #[arg(value_name = "PROXY")]
    name_of_proxy: Option<String>,

    /// The node id, if PROXY is not given.
    #[arg(
        long,
        value_name = "NODE_ID",
        hide = true,
        conflicts_with = "name_of_proxy"
    )]
    id: Option<String>,

    /// Connect to this xDS server as the proxy that the flags describe, and print what it sends. Default without PROXY:
    /// 127.0.0.1:15010.
    #[arg(
        long,
        alias = "server",
        value_name = "HOST:PORT",
        conflicts_with = "config_dir"
    )]
    pub(super) xds_addr: Option<String>,

    /// Node template in JSON for --xds-addr, instead of flags that describe a proxy.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name_of_proxy", "id"])]
    node: Option<PathBuf>,

    /// Use the state-of-the-world variant of the protocol.
    #[arg(long)]
    sotw: bool,

    /// Bearer token for --xds-addr.
    #[arg(long, env = "XDS_TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// How long to wait for --xds-addr to send everything.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    timeout: f64,

    /// Only resources whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,

    /// Output format.
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Output,

    #[command(flatten, next_help_heading = "The proxy")]
    proxy: ProxyOptions,

    #[command(flatten, next_help_heading = "The connection of --xds-addr")]
    secure: client::SecureOptions,
}

/// Types of resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    /// Clusters.
    #[value(alias = "cluster", alias = "c")]
    Clusters,
    /// Listeners.
    #[value(alias = "listener", alias = "l")]
    Listeners,
    /// Routes.
    #[value(alias = "route", alias = "r")]
    Routes,
    /// Endpoints.
    #[value(alias = "endpoint", alias = "ep")]
    Endpoints,
    /// All of them.
    All,
}

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Output {
    /// For a terminal.
    Table,
    /// Protobuf JSON.
    Json,
    /// The same as YAML.
    Yaml,
}

impl ProxyConfigOptions {
    /// The proxy, if it is not connected.
    pub(super) fn described(&self) -> anyhow::Result<client::NodeOptions> {
        if self.node.is_some() {
            let node = self.node.clone();
            return Ok(client::NodeOptions {
                node,
                ..client::NodeOptions::default()
            });
        }
        self.proxy.described(self.name_or_id(), None)
    }

    fn name_or_id(&self) -> &str {
        let stated = self.name_of_proxy.as_ref().or(self.id.as_ref());
        stated.map_or(UNNAMED, String::as_str)
    }

    /// What to say where nobody named a proxy: what is printed is sent to none that is connected.
    fn imagined(&self) -> Option<String> {
        let named = self.name_of_proxy.is_some() || self.id.is_some() || self.node.is_some();
        (!named).then(|| {
            format!(
                "No proxy is named. This is what a {} {UNNAMED}.{} would get; name a connected one as NAME.NAMESPACE.",
                self.proxy.role.word(),
                self.proxy.namespace
            )
        })
    }

    async fn gather(&self) -> anyhow::Result<gather::Gathered> {
        let types = self.what.types();
        let connected = self.name_of_proxy.is_some() && self.xds_addr.is_none();
        if connected || !self.proxy.config_dir.is_empty() {
            return self.proxy.resources(self.name_or_id(), types).await;
        }
        let defaults = client::FetchOptions::default();
        let options = client::FetchOptions {
            address: self.xds_addr.clone().unwrap_or(defaults.address),
            sotw: self.sotw,
            token: self.token.clone(),
            secure: self.secure.clone(),
            timeout: self.timeout,
            node: self.described()?,
        };
        gather::fetched(&options, types).await
    }
}

impl What {
    fn types(self) -> &'static [TypeUrl] {
        match self {
            What::Clusters => &[TypeUrl::Cluster],
            What::Listeners => &[TypeUrl::Listener],
            What::Routes => &[TypeUrl::Route],
            What::Endpoints => &[TypeUrl::Endpoint],
            What::All => &[
                TypeUrl::Cluster,
                TypeUrl::Endpoint,
                TypeUrl::Listener,
                TypeUrl::Route,
            ],
        }
    }
}

/// Prints it.
pub(crate) async fn run(options: ProxyConfigOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(remark) = options.imagined() {
        eprintln!("{remark}");
    }
    let mut all = options.gather().await?;
    for (_, resources) in &mut all {
        if let Some(part) = &options.name {
            resources.retain(|r| gather::name(r).contains(part.as_str()));
        }
    }
    match options.output {
        Output::Table => {
            for (at, (ty, resources)) in all.iter().enumerate() {
                if at > 0 {
                    writeln!(out)?;
                }
                if all.len() > 1 {
                    writeln!(out, "{}", ty.short())?;
                }
                for line in lines(&tables::table(*ty, resources)) {
                    writeln!(out, "{line}")?;
                }
            }
        }
        Output::Json => {
            let flat: Vec<&Value> = all.iter().flat_map(|(_, list)| list).collect();
            serde_json::to_writer_pretty(&mut *out, &flat)?;
            writeln!(out)?;
        }
        Output::Yaml => {
            for value in all.iter().flat_map(|(_, list)| list) {
                writeln!(out, "---")?;
                crate::yaml::write_yaml(out, value, 0)?;
            }
        }
    }
    Ok(())
}
