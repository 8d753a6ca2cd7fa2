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
    if let Some(addresses) = status["loadBalancer"]["ingress"].as_array() {
        return match of_addresses(addresses, &["ip", "hostname"]) {
            none if none.is_empty() => "no address".to_owned(),
            addresses => addresses,
        };
    }
    let Some(fields) = status.as_object() else {
        return status.to_string();
    };
    let list = |field: &str| fields.get(field).and_then(Value::as_array);
    let mut parts = Vec::new();
    if let Some(addresses) = list("addresses") {
        parts.push(of_addresses(addresses, &["value"]));
    }
    if let Some(conditions) = list("conditions") {
        parts.push(of_conditions(conditions));
    }
    for listener in list("listeners").into_iter().flatten() {
        let routes = listener["attachedRoutes"].as_u64().unwrap_or_default();
        let routes = match routes {
            1 => "1 route".to_owned(),
            many => format!("{many} routes"),
        };
        let bad = listener["conditions"].as_array().into_iter().flatten();
        let bad: Vec<&Value> = bad.filter(|condition| !is_good(condition)).collect();
        let bad = bad.into_iter().map(of_condition).collect::<Vec<_>>();
        let shown = std::iter::once(routes).chain(bad).collect::<Vec<_>>();
        parts.push(format!("{}: {}", text(&listener["name"]), shown.join(", ")));
    }
    for (list_of, reference) in [("parents", "parentRef"), ("ancestors", "ancestorRef")] {
        for entry in list(list_of).into_iter().flatten() {
            let of = &entry[reference];
            let names = [&of["namespace"], &of["name"], &of["sectionName"]];
            let names: Vec<&str> = names.into_iter().filter_map(Value::as_str).collect();
            let conditions = entry["conditions"].as_array();
            let shown = of_conditions(conditions.map(Vec::as_slice).unwrap_or_default());
            parts.push(format!("{}: {shown}", names.join("/")));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn of_addresses(addresses: &[Value], fields: &[&str]) -> String {
    let address = |at: &Value| {
        fields
            .iter()
            .find_map(|field| at[*field].as_str().map(str::to_owned))
    };
    let all: Vec<String> = addresses.iter().filter_map(address).collect();
    all.join(", ")
}

/// Conditions: the types of those that are as one wishes, and what is the matter with others.
fn of_conditions(conditions: &[Value]) -> String {
    let one = |condition: &Value| match is_good(condition) {
        true => text(&condition["type"]).to_owned(),
        false => of_condition(condition),
    };
    conditions
        .iter()
        .filter(|condition| !(is_good(condition) && condition["status"] == "False"))
        .map(one)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Whether a condition is as one wishes: true, or a conflict that there is not.
fn is_good(condition: &Value) -> bool {
    let wished = match text(&condition["type"]) {
        "Conflicted" | "OverlappingTLSConfig" => "False",
        _ => "True",
    };
    condition["status"] == wished
}

fn of_condition(condition: &Value) -> String {
    let (kind, status) = (text(&condition["type"]), text(&condition["status"]));
    let (reason, message) = (text(&condition["reason"]), text(&condition["message"]));
    format!("{kind}={status} ({reason}: {message})")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_tells_on_one_line_what_is_the_matter() {
        let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "why"});
        let gateway = json!({
            "addresses": [{"type": "IPAddress", "value": "192.0.2.1"}],
            "conditions": [condition("Accepted", "True", "Accepted"), condition("Programmed", "False", "Invalid")],
            "listeners": [
                {"name": "http", "attachedRoutes": 1, "conditions": [condition("Conflicted", "False", "NoConflicts")]},
                {"name": "tls", "attachedRoutes": 0, "conditions": [condition("Conflicted", "True", "HostnameConflict")]},
            ],
        });
        assert_eq!(
            summary(&gateway),
            "192.0.2.1; Accepted, Programmed=False (Invalid: why); http: 1 route; tls: 0 routes, Conflicted=True (HostnameConflict: why)"
        );
        let route = json!({"parents": [{
            "parentRef": {"name": "gate", "sectionName": "http"},
            "conditions": [condition("Accepted", "True", "Accepted"), condition("ResolvedRefs", "False", "BackendNotFound")],
        }]});
        assert_eq!(
            summary(&route),
            "gate/http: Accepted, ResolvedRefs=False (BackendNotFound: why)"
        );
        let ingress = json!({"loadBalancer": {"ingress": []}});
        assert_eq!(summary(&ingress), "no address");
    }
}
