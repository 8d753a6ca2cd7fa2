//! What statuses say is wrong with a Gateway and what belongs to it, in words.

use std::io::{self, Write};

use serde_json::Value;

use super::super::proxy_config::debug_page;
use super::listeners::{Wanted, name_of, text};

/// Asks the server for the statuses of the Gateway, its ListenerSets and the routes that name either.
///
/// # Errors
///
/// When it does not answer.
pub(super) async fn read(pages: &str, wanted: &Wanted) -> anyhow::Result<Vec<String>> {
    let page = debug_page(pages, "/debug/status").await?;
    Ok(of(&page, wanted))
}

/// Prints them.
pub(super) fn print(out: &mut dyn Write, problems: &[String]) -> io::Result<()> {
    if !problems.is_empty() {
        writeln!(out, "\nWhat is wrong:")?;
    }
    problems
        .iter()
        .try_for_each(|problem| writeln!(out, "  {problem}"))
}

fn of(page: &Value, wanted: &Wanted) -> Vec<String> {
    let mut problems = Vec::new();
    let mut has_status = false;
    for item in page["items"].as_array().into_iter().flatten() {
        let (kind, name, status) = (text(&item["kind"]), name_of(item), &item["status"]);
        match kind.as_str() {
            "Gateway" if name == wanted.gateway => {
                has_status = true;
                let own = conditions("The Gateway", &status["conditions"]);
                // No Service leads to it, and clients need none: they reach Envoy on this machine.
                let is_address = |problem: &Problem| problem.reason.starts_with("Address");
                problems.extend(own.into_iter().filter(|problem| !is_address(problem)));
                problems.extend(listeners("", status));
            }
            "ListenerSet" if wanted.sets.contains(&name) => {
                let who = format!("ListenerSet {name}");
                problems.extend(conditions(&who, &status["conditions"]));
                problems.extend(listeners(&format!(" of {who}"), status));
            }
            _ => {
                for parent in status["parents"].as_array().into_iter().flatten() {
                    if is_ours(&parent["parentRef"], &name.namespace, wanted) {
                        let who = format!("{kind} {name}");
                        problems.extend(conditions(&who, &parent["conditions"]));
                    }
                }
            }
        }
    }
    let mut said: Vec<String> = Vec::new();
    if !has_status {
        said.push(format!(
            "The Gateway has no status: nobody here serves the class {}.",
            wanted.class
        ));
    }
    for problem in problems {
        if !said.contains(&problem.text) {
            said.push(problem.text);
        }
    }
    said
}

/// A condition that is not as it should be.
struct Problem {
    reason: String,
    text: String,
}

fn listeners(of: &str, status: &Value) -> Vec<Problem> {
    let listeners = status["listeners"].as_array().into_iter().flatten();
    let problems = listeners.flat_map(|listener| {
        let who = format!("Listener {}{of}", text(&listener["name"]));
        conditions(&who, &listener["conditions"])
    });
    problems.collect()
}

fn conditions(who: &str, list: &Value) -> Vec<Problem> {
    let list = list.as_array().into_iter().flatten();
    let problems = list.filter_map(|condition| {
        let kind = text(&condition["type"]);
        let holds = condition["status"] == "True";
        let what = match kind.as_str() {
            "Accepted" if !holds => "is not accepted",
            "Programmed" if !holds => "is not served",
            "ResolvedRefs" if !holds => "refers to something that cannot be used",
            "Conflicted" if holds => "conflicts with another",
            _ => return None,
        };
        let (message, reason) = (text(&condition["message"]), text(&condition["reason"]));
        Some(Problem {
            text: format!("{who} {what}: {} ({reason})", message.trim_end_matches('.')),
            reason,
        })
    });
    problems.collect()
}

/// Whether a reference of an object in that namespace is to the Gateway or one of its ListenerSets.
fn is_ours(reference: &Value, namespace: &str, wanted: &Wanted) -> bool {
    let name = text(&reference["name"]);
    let namespace = reference["namespace"].as_str().unwrap_or(namespace);
    let name = model::ObjectName::new(namespace, name.as_str());
    match reference["kind"].as_str().unwrap_or("Gateway") {
        "Gateway" => name == wanted.gateway,
        "ListenerSet" => wanted.sets.contains(&name),
        _ => false,
    }
}
