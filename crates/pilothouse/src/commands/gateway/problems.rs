//! What statuses say is wrong with a Gateway and what belongs to it, in words.

use std::collections::BTreeSet;
use std::io::{self, Write};

use model::ObjectName;
use serde_json::Value;

use super::super::proxy_config::debug_page;
use super::listeners::{Wanted, name_of, text};

/// What the statuses of the Gateway, its ListenerSets and the routes that name either say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Problems {
    /// What is wrong.
    said: Vec<String>,
    /// The listeners that are not served.
    pub(super) not_served: BTreeSet<ListenerName>,
}

/// A listener: the ListenerSet that it is in, if it is not in the Gateway itself, and its name.
pub(super) type ListenerName = (Option<ObjectName>, String);

/// Asks the server.
///
/// # Errors
///
/// When it does not answer.
pub(super) async fn read(pages: &str, wanted: &Wanted) -> anyhow::Result<Problems> {
    let page = debug_page(pages, "/debug/status").await?;
    Ok(of(&page, wanted))
}

/// Prints them.
pub(super) fn print(out: &mut dyn Write, problems: &Problems) -> io::Result<()> {
    if !problems.said.is_empty() {
        writeln!(out, "\nWhat is wrong:")?;
    }
    let mut said = problems.said.iter();
    said.try_for_each(|problem| writeln!(out, "  {problem}"))
}

/// What a page of statuses says.
pub(super) fn of(page: &Value, wanted: &Wanted) -> Problems {
    let mut problems = Vec::new();
    let mut not_served = BTreeSet::new();
    let mut has_status = false;
    for item in page["items"].as_array().into_iter().flatten() {
        let (kind, name, status) = (text(&item["kind"]), name_of(item), &item["status"]);
        match kind.as_str() {
            "Gateway" if name == wanted.gateway => {
                has_status = true;
                problems.extend(of_owner("The Gateway", status));
                problems.extend(listeners("", status));
                not_served.extend(names_not_served(None, status));
            }
            "ListenerSet" if wanted.sets.contains(&name) => {
                let who = format!("ListenerSet {name}");
                problems.extend(of_owner(&who, status));
                problems.extend(listeners(&format!(" of {who}"), status));
                not_served.extend(names_not_served(Some(&name), status));
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
    Problems { said, not_served }
}

/// A condition that is not as it should be.
struct Problem {
    reason: String,
    text: String,
}

/// What is wrong with a Gateway or ListenerSet as a whole. No Service leads to it, and clients need none: they reach Envoy on
/// this machine.
fn of_owner(who: &str, status: &Value) -> impl Iterator<Item = Problem> {
    let own = conditions(who, &status["conditions"]).into_iter();
    own.filter(|problem| !problem.reason.starts_with("Address"))
}

/// The listeners that a status says are not served.
fn names_not_served(
    set: Option<&ObjectName>,
    status: &Value,
) -> impl Iterator<Item = ListenerName> {
    let all = status["listeners"].as_array().into_iter().flatten();
    let refused = all.filter(|listener| {
        let list = listener["conditions"].as_array();
        list.into_iter().flatten().any(|condition| {
            condition["status"] == "False"
                && (condition["type"] == "Accepted" || condition["type"] == "Programmed")
        })
    });
    refused.map(move |listener| (set.cloned(), text(&listener["name"])))
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
    let name = ObjectName::new(namespace, name.as_str());
    match reference["kind"].as_str().unwrap_or("Gateway") {
        "Gateway" => name == wanted.gateway,
        "ListenerSet" => wanted.sets.contains(&name),
        _ => false,
    }
}
