//! `pilothouse status`: objects with the status that they get.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::proxy_config::debug_page;
use super::proxy_config::gather::snapshot;
use crate::yaml::write_yaml;

/// Flags of `pilothouse status`.
#[derive(Args, Debug)]
pub(crate) struct StatusOptions {
    /// A folder of manifests. May be given several times.
    #[arg(long, value_name = "DIR", required_unless_present = "server")]
    config_dir: Vec<PathBuf>,

    /// Mesh configuration.
    #[arg(long, value_name = "FILE")]
    mesh_config: Option<PathBuf>,

    /// Ask a running server instead, through its debug pages.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["config_dir", "mesh_config"])]
    server: Option<String>,

    /// How to print.
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Format,
}

/// How statuses are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

/// Prints the objects with the status that they get.
///
/// # Errors
///
/// When something cannot be read, or the server does not answer.
pub(crate) async fn run(options: &StatusOptions) -> anyhow::Result<()> {
    let list = match &options.server {
        Some(address) => debug_page(address, "/debug/status").await?,
        None => {
            let snapshot = snapshot(&options.config_dir, options.mesh_config.as_deref())?;
            let derived = convert::status::all(&snapshot);
            convert::status::list(&server::writing::wanted::documents(&snapshot, derived))
        }
    };
    let Some(items) = list["items"].as_array() else {
        bail!("the server's answer is no list of objects");
    };
    let mut out = std::io::stdout().lock();
    match options.output {
        Format::Table => table(&mut out, items),
        Format::Json => {
            let text = serde_json::to_string_pretty(&list)?;
            writeln!(out, "{text}")
        }
        Format::Yaml => items.iter().enumerate().try_for_each(|(index, item)| {
            if index > 0 {
                writeln!(out, "---")?;
            }
            write_yaml(&mut out, item, 0)
        }),
    }
    .context("cannot print")
}

fn table(out: &mut dyn Write, items: &[Value]) -> std::io::Result<()> {
    if items.is_empty() {
        return writeln!(out, "No object gets a status.");
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = items.iter().map(|item| {
        let metadata = &item["metadata"];
        [
            text(&item["kind"]),
            text(&metadata["namespace"]),
            text(&metadata["name"]),
            summary(&item["status"]),
        ]
    });
    let titles = ["KIND", "NAMESPACE", "NAME", "STATUS"].map(str::to_owned);
    let rows: Vec<[String; 4]> = std::iter::once(titles).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|r| r[column].len()).max().unwrap_or(0);
    let (kind, namespace, name) = (width(0), width(1), width(2));
    for [of_kind, of_namespace, of_name, status] in &rows {
        writeln!(
            out,
            "{of_kind:kind$}  {of_namespace:namespace$}  {of_name:name$}  {status}"
        )?;
    }
    Ok(())
}

/// A status on one line.
fn summary(status: &Value) -> String {
    let Some(addresses) = status["loadBalancer"]["ingress"].as_array() else {
        return status.to_string();
    };
    let address = |at: &Value| {
        at["ip"]
            .as_str()
            .or(at["hostname"].as_str())
            .map(str::to_owned)
    };
    let addresses: Vec<String> = addresses.iter().filter_map(address).collect();
    if addresses.is_empty() {
        "no address".to_owned()
    } else {
        addresses.join(", ")
    }
}
