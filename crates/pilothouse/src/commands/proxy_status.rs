//! `pilothouse proxy-status`: which proxies are connected, and whether each has taken what it was sent.

use std::io::Write;

use anyhow::bail;
use clap::{Args, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;
use xds::TypeUrl;

use super::flags::ServerFlag;
use super::proxy_config::debug_page;
use super::text::lines;

/// The types that have a column.
const TYPES: [TypeUrl; 5] = [
    TypeUrl::Cluster,
    TypeUrl::Listener,
    TypeUrl::Endpoint,
    TypeUrl::Route,
    TypeUrl::Secret,
];

/// Flags of `pilothouse proxy-status`.
#[derive(Args, Debug)]
pub(crate) struct ProxyStatusOptions {
    /// Show this proxy alone, NAME.NAMESPACE or NAME. Default: every connected one.
    #[arg(value_name = "PROXY")]
    proxy: Option<String>,

    /// Show the proxies of this namespace alone.
    #[arg(long, short = 'n', value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// The server that is asked.
    #[command(flatten)]
    server: ServerFlag,

    /// How to print.
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Format,
}

/// How proxies are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Prints the proxies.
///
/// # Errors
///
/// When the server does not answer, or a proxy that is named is not connected.
pub(crate) async fn run(options: &ProxyStatusOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let page = debug_page(&options.server.http_addr, "/debug/syncz").await?;
    let Some(rows) = page.as_array() else {
        bail!("the server's answer is no list of proxies");
    };
    let rows: Vec<&Value> = rows.iter().filter(|row| options.shows(row)).collect();
    if let (Some(proxy), true) = (&options.proxy, rows.is_empty()) {
        bail!("no proxy {proxy} is connected: `pilothouse proxy-status` lists those that are");
    }
    match options.output {
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?,
        Format::Table => table(out, &rows)?,
    }
    Ok(())
}

impl ProxyStatusOptions {
    fn shows(&self, row: &Value) -> bool {
        let full = row["proxy"].as_str().unwrap_or_default();
        let (name, namespace) = full.rsplit_once('.').unwrap_or((full, ""));
        let is_named = |wanted: &String| wanted == full || wanted == name;
        let is_in = |wanted: &String| wanted == namespace;
        self.proxy.as_ref().is_none_or(is_named) && self.namespace.as_ref().is_none_or(is_in)
    }
}

fn table(out: &mut dyn Write, rows: &[&Value]) -> std::io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "No proxy is connected.");
    }
    let mut table = Table::new();
    let head = ["NAME", "TYPE"].into_iter();
    let head = head.chain(TYPES.map(TypeUrl::short)).chain(["VERSION"]);
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    for row in rows {
        let mut cells = vec![text(&row["proxy"]), text(&row["proxy_type"])];
        cells.extend(TYPES.map(|ty| state(&row["resources"][ty.as_str()]).to_owned()));
        cells.push(text(&row["istio_version"]));
        table.add_row(cells);
    }
    for line in lines(&table) {
        writeln!(out, "{line}")?;
    }
    for row in rows {
        for ty in TYPES {
            if let Some(reason) = row["resources"][ty.as_str()]["lastError"].as_str() {
                let name = text(&row["proxy"]);
                writeln!(out, "{name} rejects {}: {reason}", ty.short())?;
            }
        }
    }
    Ok(())
}

/// How far a proxy is with a type, in istioctl's words.
fn state(of: &Value) -> &'static str {
    let acked = of["acked"].as_str().is_some_and(|acked| !acked.is_empty());
    match (of.is_null(), of["lastError"].is_string(), acked) {
        (true, ..) => "NOT SENT",
        (_, true, _) => "ERROR",
        (_, _, true) => "SYNCED",
        _ => "STALE",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Format, ProxyStatusOptions, table};

    fn rows() -> Vec<Value> {
        let url = |ty: &str| format!("type.googleapis.com/envoy.config.{ty}");
        let (cds, lds) = (url("cluster.v3.Cluster"), url("listener.v3.Listener"));
        let taken = json!({"sent": "1a", "acked": "1a"});
        vec![
            json!({"proxy": "front.shop", "proxy_type": "sidecar", "istio_version": null, "resources": {
                &cds: taken, &lds: {"sent": "2", "acked": "", "lastError": "no such filter"},
            }}),
            json!({"proxy": "gw.edge", "proxy_type": "router", "istio_version": "1.32.1", "resources": {
                &cds: {"sent": "1a", "acked": ""},
            }}),
        ]
    }

    #[test]
    fn a_table_says_how_far_each_proxy_is_and_why_one_rejects() {
        let rows = rows();
        let mut out = Vec::new();
        table(&mut out, &rows.iter().collect::<Vec<_>>()).expect("a list of bytes takes all");
        let text = String::from_utf8(out).expect("it is text");
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|w| !w.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(
            words,
            [
                vec!["NAME", "TYPE", "CDS", "LDS", "EDS", "RDS", "SDS", "VERSION"],
                vec![
                    "front.shop",
                    "sidecar",
                    "SYNCED",
                    "ERROR",
                    "NOT SENT",
                    "NOT SENT",
                    "NOT SENT",
                    "-"
                ],
                vec![
                    "gw.edge", "router", "STALE", "NOT SENT", "NOT SENT", "NOT SENT", "NOT SENT",
                    "1.32.1"
                ],
                vec!["front.shop rejects LDS: no such filter"],
            ]
        );
    }

    #[test]
    fn proxies_are_chosen_by_name_and_namespace() {
        let shown = |proxy: Option<&str>, namespace: Option<&str>| {
            let options = ProxyStatusOptions {
                proxy: proxy.map(str::to_owned),
                namespace: namespace.map(str::to_owned),
                server: crate::commands::flags::ServerFlag {
                    http_addr: String::new(),
                },
                output: Format::Table,
            };
            rows().iter().filter(|row| options.shows(row)).count()
        };
        assert_eq!(shown(None, None), 2);
        assert_eq!(shown(Some("front"), None), 1);
        assert_eq!(shown(Some("front.shop"), Some("shop")), 1);
        assert_eq!(shown(Some("front"), Some("edge")), 0);
        assert_eq!(shown(None, Some("edge")), 1);
    }
}
