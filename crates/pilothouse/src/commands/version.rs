//! `pilothouse version`: of this program, of a server, and of the proxies that are connected to it.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::proxy_config::debug_page;
use super::proxy_config::gather::text_page;

/// Flags of `pilothouse version`.
#[derive(Args, Debug)]
pub(crate) struct VersionOptions {
    /// Also of the server with this HTTP address, and of its proxies.
    #[arg(long, alias = "http-addr", value_name = "HOST:PORT")]
    server: Option<String>,
}

/// Prints the versions.
///
/// # Errors
///
/// When the server does not answer.
pub(crate) async fn run(options: &VersionOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "pilothouse {}", env!("CARGO_PKG_VERSION"))?;
    let Some(server) = &options.server else {
        return Ok(());
    };
    let version = text_page(server, "/version").await?;
    let proxies = debug_page(server, "/debug/syncz").await?;
    writeln!(out, "server {}", version.trim())?;
    for (version, count) in versions(&proxies) {
        let proxies = match count {
            1 => "1 proxy".to_owned(),
            _ => format!("{count} proxies"),
        };
        match version.as_str() {
            "" => writeln!(out, "{proxies} without a version of Istio")?,
            version => writeln!(out, "{proxies} of Istio {version}")?,
        }
    }
    Ok(())
}

/// How many proxies there are of each version that they state.
fn versions(proxies: &Value) -> BTreeMap<String, usize> {
    let mut versions = BTreeMap::new();
    for proxy in proxies.as_array().into_iter().flatten() {
        let version = proxy["istio_version"].as_str().unwrap_or_default();
        *versions.entry(version.to_owned()).or_default() += 1;
    }
    versions
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::versions;

    #[test]
    fn proxies_are_counted_by_version() {
        let page = json!([
            {"istio_version": "1.32.1"}, {"istio_version": null}, {"istio_version": "1.32.1"},
        ]);
        let counted: Vec<(String, usize)> = versions(&page).into_iter().collect();
        assert_eq!(counted, [(String::new(), 1), ("1.32.1".to_owned(), 2)]);
        assert!(versions(&json!(null)).is_empty());
    }
}
