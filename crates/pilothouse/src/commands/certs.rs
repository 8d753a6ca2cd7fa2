//! `pilothouse certs`: certificates that a running server orders by ACME.

use std::io::Write;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use http::Method;
use serde_json::Value;

use super::proxy_config::{ask_page, debug_page};
use super::text::{lines, wrapped};

/// The width of what is not a terminal.
const WIDTH: u16 = 80;
/// Width of what stands before an error.
const INDENT: usize = 2;

/// Flags of `pilothouse certs`.
#[derive(Args, Debug)]
pub(crate) struct CertsOptions {
    /// HTTP address of the server.
    #[arg(
        long,
        alias = "server",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8080",
        global = true
    )]
    http_addr: String,

    /// How to print.
    #[arg(long, short = 'o', value_enum, default_value = "table", global = true)]
    output: Format,

    /// What to do. Default: list.
    #[command(subcommand)]
    what: Option<What>,
}

/// How certificates are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// What to do with certificates.
#[derive(Subcommand, Clone, Debug)]
enum What {
    /// List them: until when each is valid, when it is renewed, and why one could not be ordered.
    List,
    /// Order the certificate of a host anew.
    Renew {
        /// A host that it names.
        host: String,
    },
    /// Revoke the certificate of a host, and order another.
    Revoke {
        /// A host that it names.
        host: String,
    },
}

/// Lists certificates, or has something done about one.
///
/// # Errors
///
/// When the server does not answer, or cannot do it.
pub(crate) async fn run(options: &CertsOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let address = &options.http_addr;
    let (what, host) = match options.what.clone().unwrap_or(What::List) {
        What::List => {
            let page = debug_page(address, "/debug/certs").await?;
            return match options.output {
                Format::Json => Ok(writeln!(out, "{}", serde_json::to_string_pretty(&page)?)?),
                Format::Table => {
                    let now = super::text::now();
                    list(out, &page, width(), &now).context("cannot print")
                }
            };
        }
        What::Renew { host } => ("renew", host),
        What::Revoke { host } => ("revoke", host),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.*".contains(&b);
    anyhow::ensure!(host.bytes().all(plain), "{host:?} is no host");
    let path = format!("/debug/certs/{what}?host={host}");
    let answer = ask_page(Method::POST, address, &path).await?;
    match options.output {
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?,
        Format::Table => {
            let said = answer["said"].as_str().unwrap_or_default();
            writeln!(out, "{host}: {said}")?;
        }
    }
    Ok(())
}

fn width() -> u16 {
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| width.0.max(40))
}

/// Lists what a page has; `now` as RFC 3339.
fn list(out: &mut dyn Write, page: &Value, width: u16, now: &str) -> std::io::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    if page["leads"] == false {
        let holder = text(&page["holder"]);
        return writeln!(out, "Another replica keeps the certificates: {holder}.");
    }
    let Some(rows) = page["certificates"].as_array().filter(|r| !r.is_empty()) else {
        let directory = text(&page["directory"]);
        writeln!(out, "No certificates are ordered.")?;
        let how = format!(
            "An entry of the ConfigMap higress-https with tlsIssuer letsencrypt, or --acme-host, has them ordered from {directory}."
        );
        return wrapped(&how, 0)
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"));
    };
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(["HOST", "ISSUER", "SECRET", "STATE", "NOT AFTER", "NEXT"]);
    let hosts = |row: &Value| {
        let hosts = row["hosts"].as_array().into_iter().flatten();
        let hosts: Vec<&str> = hosts.filter_map(Value::as_str).collect();
        hosts.join(" ")
    };
    for row in rows {
        table.add_row([
            hosts(row),
            issuer(&row["issuer"]).to_owned(),
            text(&row["secret"]),
            text(&row["state"]),
            day(&row["notAfter"], now),
            day(&row["next"], now),
        ]);
    }
    for line in lines(&table) {
        writeln!(out, "{line}")?;
    }
    for row in rows {
        if let Some(error) = row["error"].as_str() {
            writeln!(out, "{}:", hosts(row))?;
            for line in wrapped(error, INDENT) {
                writeln!(out, "{:INDENT$}{line}", "")?;
            }
        }
    }
    Ok(())
}

/// The short name of an issuer.
fn issuer(host: &Value) -> &str {
    match host.as_str() {
        Some("acme-v02.api.letsencrypt.org") => "letsencrypt",
        Some("acme-staging-v02.api.letsencrypt.org") => "letsencrypt (staging)",
        Some(host) => host,
        None => "-",
    }
}

/// The day of a time in RFC 3339, or of today's the time.
fn day(time: &Value, now: &str) -> String {
    let Some((day, clock)) = time.as_str().and_then(|time| time.split_once('T')) else {
        return "-".to_owned();
    };
    match now.starts_with(day) {
        true => clock.to_owned(),
        false => day.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(page: &Value) -> String {
        let mut out = Vec::new();
        list(&mut out, page, WIDTH, "2026-11-30T09:00:00Z").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_table_fits_a_terminal_and_errors_stand_below() {
        let row = |host: &str, error: Value| {
            json!({
                "hosts": [host], "issuer": "acme-v02.api.letsencrypt.org", "secret": format!("higress-system/{host}-tls"),
                "state": "failed", "notAfter": "2026-12-01T10:00:00Z", "next": null, "serial": null, "error": error,
            })
        };
        let long = "the directory refuses ".repeat(8);
        let page = json!({"leads": true, "certificates": [
            row("shop.a-rather-long-name.example", json!(null)), row("b.example", json!(long)),
        ]});
        let text = listed(&page);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            text.contains("\nb.example:\n  the directory refuses"),
            "{text}"
        );
        assert!(
            text.contains("letsencrypt ") && text.contains(" 2026-12-01"),
            "{text}"
        );
        let hosts: String = text.split_whitespace().collect();
        assert!(hosts.contains("b.example"), "{text}");
    }

    #[test]
    fn today_is_told_by_the_clock() {
        let day = |time| day(&json!(time), "2026-11-30T09:00:00Z");
        assert_eq!(day("2026-11-30T10:11:12Z"), "10:11:12Z");
        assert_eq!(day("2026-12-30T10:11:12Z"), "2026-12-30");
        assert_eq!(
            listed(&json!({"leads": false, "holder": "b", "certificates": []})),
            "Another replica keeps the certificates: b.\n"
        );
    }

    #[test]
    fn a_server_that_orders_nothing_says_how_it_would() {
        let text =
            listed(&json!({"directory": "https://acme.example/directory", "certificates": []}));
        assert!(text.starts_with("No certificates are ordered.\n"), "{text}");
        assert!(text.contains("--acme-host"), "{text}");
        assert!(text.contains("https://acme.example/directory"), "{text}");
    }
}
