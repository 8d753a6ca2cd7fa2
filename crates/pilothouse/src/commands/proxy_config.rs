//! `pilothouse proxy-config`: what a proxy gets, as a table or as JSON or YAML.

pub(super) mod gather;
mod tables;

pub(crate) use gather::debug_page;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;
use xlate::TypeUrl;

/// Flags of `pilothouse proxy-config`.
#[derive(Args, Debug)]
pub(crate) struct ProxyConfigOptions {
    /// What to print.
    #[arg(value_enum)]
    what: What,

    /// A connected proxy, NAME.NAMESPACE. Without one, the proxy that the flags below describe.
    #[arg(value_name = "PROXY", conflicts_with = "config_dir")]
    proxy: Option<String>,

    /// Where the server answers HTTP, for a connected proxy.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    http_addr: String,

    /// Derive offline from a folder of objects instead of asking a server. May be given several times.
    #[arg(long, alias = "configDir", value_name = "DIR")]
    config_dir: Vec<PathBuf>,

    /// Mesh configuration for an offline answer.
    #[arg(
        long,
        alias = "meshConfig",
        value_name = "FILE",
        requires = "config_dir"
    )]
    mesh_config: Option<PathBuf>,

    /// Only resources whose name contains this.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,

    /// How to print.
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Output,

    /// Which server and which proxy, without PROXY.
    #[command(flatten)]
    fetch: client::FetchOptions,
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
    let mut all = gather::gather(&options).await?;
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
                writeln!(out, "{}", tables::table(*ty, resources))?;
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
