//! `pilothouse status`: objects with the status that they get.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;
use server::settings::IngressOptions;

use super::flags::OfflineFlags;
use super::proxy_config::debug_page;
use super::proxy_config::gather::{Setting, snapshot};
use crate::out::out;
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

    /// What a server would be started with.
    #[command(flatten)]
    offline: OfflineFlags,

    /// Ask a running server instead, through its debug pages.
    #[arg(long, alias = "http-addr", value_name = "HOST:PORT", conflicts_with_all = ["config_dir", "mesh_config"])]
    server: Option<String>,

    /// How to print.
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Format,

    /// Ingresses with annotations.
    #[command(flatten, next_help_heading = "Ingresses with annotations")]
    ingress: IngressOptions,
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
            let setting = Setting {
                mesh_config: options.mesh_config.as_deref(),
                ingress: &options.ingress,
                offline: &options.offline,
            };
            let snapshot = snapshot(&options.config_dir, setting)?;
            let derived = convert::status::all(&snapshot);
            convert::status::list(&server::writing::wanted::documents(&snapshot, derived))
        }
    };
    let Some(items) = list["items"].as_array() else {
        bail!("the server's answer is no list of objects");
    };
    let mut out = std::io::BufWriter::new(out());
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
    .and_then(|()| out.flush())
    .context("cannot print")
}

fn table(out: &mut dyn Write, items: &[Value]) -> std::io::Result<()> {
    if items.is_empty() {
        return writeln!(out, "No object gets a status.");
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = vec![["KIND", "NAMESPACE", "NAME", "STATUS"].map(str::to_owned)];
    for item in items {
        let metadata = &item["metadata"];
        let mut parts = summary(&item["status"]).into_iter();
        rows.push([
            text(&item["kind"]),
            text(&metadata["namespace"]),
            name_of(metadata),
            parts.next().unwrap_or_default(),
        ]);
        // Each listener and each parent on a line of its own.
        let below = |part| [String::new(), String::new(), String::new(), part];
        rows.extend(parts.map(below));
    }
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

/// The name of an object, with the remote cluster that it is in.
fn name_of(metadata: &Value) -> String {
    let name = text(&metadata["name"]);
    match &metadata["annotations"][convert::status::CLUSTER] {
        Value::String(cluster) => format!("{name} (cluster {cluster})"),
        _ => name.to_owned(),
    }
}

/// A status in a few words: what it says of the object, and of each of its listeners and parents.
fn summary(status: &Value) -> Vec<String> {
    if let Some(addresses) = status["loadBalancer"]["ingress"].as_array() {
        let addresses = of_addresses(addresses, &["ip", "hostname"]);
        return vec![match addresses.is_empty() {
            true => "no address".to_owned(),
            false => addresses,
        }];
    }
    let Some(fields) = status.as_object() else {
        return vec![status.to_string()];
    };
    let list = |field: &str| fields.get(field).and_then(Value::as_array);
    let addresses = list("addresses").map(|all| of_addresses(all, &["value"]));
    let conditions = list("conditions").map(|all| of_conditions(all));
    let own: Vec<String> = addresses.into_iter().chain(conditions).collect();
    let own = own.into_iter().filter(|part| !part.is_empty());
    let mut parts = vec![own.collect::<Vec<_>>().join("; ")];
    for listener in list("listeners").into_iter().flatten() {
        let routes = listener["attachedRoutes"].as_u64().unwrap_or_default();
        let routes = match routes {
            1 => "1 route".to_owned(),
            many => format!("{many} routes"),
        };
        let conditions = listener["conditions"].as_array().into_iter().flatten();
        let shown: Vec<String> = std::iter::once(routes)
            .chain(of_bad(conditions.filter(|condition| !is_good(condition))))
            .collect();
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
    if parts.is_empty() {
        parts.push("nothing serves it".to_owned());
    }
    parts
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
    let shown = conditions
        .iter()
        .filter(|condition| !(is_good(condition) && condition["status"] == "False"));
    let (good, bad): (Vec<&Value>, Vec<&Value>) = shown.partition(|condition| is_good(condition));
    let good = good.iter().map(|condition| text(&condition["type"]));
    let all: Vec<String> = good.map(str::to_owned).chain(of_bad(bad)).collect();
    all.join(", ")
}

/// What is the matter with conditions; several often have one cause, which is told once.
fn of_bad<'a>(conditions: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let mut told = "";
    let mut shown = Vec::new();
    for condition in conditions {
        let (kind, status) = (text(&condition["type"]), text(&condition["status"]));
        let (reason, message) = (text(&condition["reason"]), text(&condition["message"]));
        shown.push(match message == told {
            true => format!("{kind}={status} ({reason})"),
            false => format!("{kind}={status} ({reason}: {message})"),
        });
        told = message;
    }
    shown
}

/// Whether a condition is as one wishes: true, or a conflict that there is not.
fn is_good(condition: &Value) -> bool {
    let wished = match text(&condition["type"]) {
        "Conflicted" | "OverlappingTLSConfig" => "False",
        _ => "True",
    };
    condition["status"] == wished
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_tells_in_a_few_words_what_is_the_matter() {
        let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "why"});
        let gateway = json!({
            "addresses": [{"type": "IPAddress", "value": "192.0.2.1"}],
            "conditions": [condition("Accepted", "True", "Accepted"), condition("Programmed", "False", "Invalid")],
            "listeners": [
                {"name": "http", "attachedRoutes": 1, "conditions": [condition("Conflicted", "False", "NoConflicts")]},
                {"name": "tls", "attachedRoutes": 0, "conditions": [
                    condition("Accepted", "False", "HostnameConflict"), condition("Conflicted", "True", "HostnameConflict"),
                ]},
            ],
        });
        assert_eq!(
            summary(&gateway),
            [
                "192.0.2.1; Accepted, Programmed=False (Invalid: why)",
                "http: 1 route",
                "tls: 0 routes, Accepted=False (HostnameConflict: why), Conflicted=True (HostnameConflict)",
            ]
        );
        let route = json!({"parents": [{
            "parentRef": {"name": "gate", "sectionName": "http"},
            "conditions": [condition("Accepted", "True", "Accepted"), condition("ResolvedRefs", "False", "BackendNotFound")],
        }]});
        assert_eq!(
            summary(&route),
            ["gate/http: Accepted, ResolvedRefs=False (BackendNotFound: why)"]
        );
        assert_eq!(summary(&json!({"parents": []})), ["nothing serves it"]);
        let ingress = json!({"loadBalancer": {"ingress": []}});
        assert_eq!(summary(&ingress), ["no address"]);
        let elsewhere = json!({"name": "web", "annotations": {"pilothouse.io/cluster": "east"}});
        assert_eq!(name_of(&elsewhere), "web (cluster east)");
    }
}
