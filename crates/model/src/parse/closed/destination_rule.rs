//! DestinationRules: what they say of TLS, also where that is misspelt.

use std::collections::BTreeSet;

use prost::Name;
use prost_reflect::{Kind, MessageDescriptor};
use proto_istio::descriptors;
use proto_istio::networking::DestinationRule;

use super::super::head::near;
use super::super::nearest::{distance, nearest};
use super::super::node::{Entry, Node, Path, Step, Value};
use super::{map, text};
use crate::closed::NO_CREDENTIAL;

/// The fields that say whether there is TLS, and the way to them.
const PROTECTING: [&str; 5] = [
    "host",
    "portLevelSettings",
    "subsets",
    "tls",
    "trafficPolicy",
];

/// So many hosts of one rule are closed.
const MOST_HOSTS: usize = 1000;

/// The spec of a rule, misspelt or not.
fn spec_of<'n, 'a>(document: &'n Node<'a>) -> Option<&'n Node<'a>> {
    document.get("spec").or_else(|| {
        let mut entries = document.entries()?.iter();
        let other = entries.find(|entry| distance(&entry.key, "spec") <= 2);
        let other = other.map(|entry| &entry.value);
        other.or_else(|| near(document, "metadata")?.get("spec"))
    })
}

/// Whether what should stand in the spec and says something of TLS stands beside it.
fn is_beside(document: &Node<'_>) -> bool {
    const OF_OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
    let entries = document.entries().unwrap_or_default().iter();
    let mut others = entries
        .filter(|entry| !OF_OBJECT.contains(&&*entry.key))
        .peekable();
    if others.peek().is_none() {
        return false;
    }
    let names = names();
    others.any(|entry| is_like_tls(&entry.key, &names) || mentions_tls(&entry.value))
}

/// The specs for each host that a rule names, in any reading of its document: also where the field is misspelt or a list, or stands
/// twice. Without a host it is for none.
pub(super) fn by_host<'d, 'a: 'd>(
    specs: &[Node<'a>],
    documents: impl Iterator<Item = &'d Node<'a>>,
) -> Vec<Vec<Node<'a>>> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for document in documents {
        let entries = spec_of(document).and_then(Node::entries);
        let entries = entries.unwrap_or_default().iter();
        let mut fields: Vec<_> = entries
            .filter(|entry| distance(&entry.key, "host") <= 1)
            .collect();
        fields.sort_by_key(|entry| entry.key != "host");
        for field in fields {
            let hosts = match &field.value.value {
                Value::Seq(hosts) => hosts.as_slice(),
                _ => std::slice::from_ref(&field.value),
            };
            for host in hosts {
                let is_new = host.as_str().is_some_and(|text| seen.insert(text));
                if is_new && all.len() < MOST_HOSTS {
                    all.push(specs.iter().map(|spec| with_host(spec, host)).collect());
                }
            }
        }
    }
    all
}

fn with_host<'a>(spec: &Node<'a>, host: &Node<'a>) -> Node<'a> {
    let mut spec = spec.clone();
    if let Value::Map(entries) = &mut spec.value {
        entries.push(Entry {
            key: "host".into(),
            at: host.span,
            value: host.clone(),
        });
    }
    spec
}

/// A rule without its host whose TLS settings are those that are written, and one that trusts nobody.
pub(super) fn specs<'a>(document: &Node<'a>) -> Vec<Node<'a>> {
    let Some(spec) = spec_of(document) else {
        return Vec::new();
    };
    let mut settings = Vec::new();
    tls_settings(spec, &mut settings);
    let is_unread = descriptors()
        .get_message_by_name(&DestinationRule::full_name())
        .is_some_and(|message| may_be_tls(spec, &message))
        || is_beside(document);
    let own = spec
        .get("trafficPolicy")
        .and_then(|policy| policy.get("tls"));
    let rule = |tls: Node<'a>, exports: bool| {
        let mut fields = Vec::new();
        for field in ["exportTo", "workloadSelector"] {
            let value = spec.get(field).filter(|value| exports && !value.is_null());
            fields.extend(value.map(|value| (field, value.clone())));
        }
        fields.push(("trafficPolicy", map(vec![("tls", tls)])));
        map(fields)
    };
    let nobody = map(vec![
        ("mode", text("SIMPLE")),
        ("credentialName", text(NO_CREDENTIAL)),
    ]);
    match (settings.as_slice(), own) {
        ([], _) if !is_unread => Vec::new(),
        ([_], Some(own)) if !is_unread => vec![
            rule(own.clone(), true),
            rule(nobody.clone(), true),
            rule(nobody, false),
        ],
        _ => vec![rule(nobody.clone(), true), rule(nobody, false)],
    }
}

/// Whether a field that is not known, or stands twice, may have been to say something of TLS.
pub(super) fn leaves_unread(path: &Path, is_twice: bool) -> bool {
    let is_of_tls = path
        .0
        .iter()
        .any(|step| matches!(step, Step::Field(field) if &**field == "tls"));
    let is_way = |step: &Step| match step {
        Step::Field(field) => &**field == "spec" || PROTECTING.contains(&&**field),
        Step::Index(_) => true,
    };
    let Some((last, way)) = path.0.split_last() else {
        return true;
    };
    let Step::Field(field) = last else {
        return is_of_tls;
    };
    is_of_tls
        || way.iter().all(is_way)
            && match is_twice {
                true => is_way(last),
                false => !is_harmless(field, &names()),
            }
}

/// Whether what is not known in a rule may have been to say something of TLS.
fn may_be_tls(node: &Node<'_>, message: &MessageDescriptor) -> bool {
    let leads_on = |message: &MessageDescriptor| {
        matches!(
            message.name(),
            "TrafficPolicy" | "PortTrafficPolicy" | "Subset"
        )
    };
    match &node.value {
        Value::Seq(items) => items.iter().any(|item| may_be_tls(item, message)),
        Value::Map(entries) => entries.iter().any(|entry| {
            let by_json = message.get_field_by_json_name(&entry.key);
            match by_json.or_else(|| message.get_field_by_name(&entry.key)) {
                Some(field) => match field.kind() {
                    Kind::Message(within) if leads_on(&within) => may_be_tls(&entry.value, &within),
                    _ => false,
                },
                None => is_like_tls(&entry.key, &fields_of(message)) || mentions_tls(&entry.value),
            }
        }),
        _ => false,
    }
}

/// Whether an unknown field is, by all appearances, one that says something of TLS. Others come with newer versions of the kind.
fn is_like_tls(field: &str, known: &[String]) -> bool {
    let near = nearest(field, known.iter().map(String::as_str));
    near.is_some_and(|near| near != "host" && PROTECTING.contains(&near))
        || field.to_ascii_lowercase().contains("tls")
}

/// Whether an unknown field is, by all appearances, one that says nothing of TLS.
fn is_harmless(field: &str, known: &[String]) -> bool {
    let near = nearest(field, known.iter().map(String::as_str));
    near.is_some_and(|near| !PROTECTING.contains(&near))
}

/// The fields of a rule and of what may say something of TLS in it.
fn names() -> Vec<String> {
    let rule = descriptors().get_message_by_name(&DestinationRule::full_name());
    let Some(rule) = rule else {
        return Vec::new();
    };
    let mut names = fields_of(&rule);
    for field in rule.fields() {
        if let Kind::Message(within) = field.kind()
            && PROTECTING.contains(&field.json_name())
        {
            names.extend(fields_of(&within));
        }
    }
    names
}

fn fields_of(message: &MessageDescriptor) -> Vec<String> {
    message
        .fields()
        .map(|field| field.json_name().to_owned())
        .collect()
}

/// Fields of TLS settings that nothing else in a rule has.
const OF_TLS: [&str; 7] = [
    "caCertificates",
    "clientCertificate",
    "credentialName",
    "mode",
    "privateKey",
    "sni",
    "subjectAltNames",
];

/// Whether a key inside of a value may be one of TLS settings.
fn mentions_tls(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Seq(items) => items.iter().any(mentions_tls),
        Value::Map(entries) => entries.iter().any(|entry| {
            let key = &*entry.key;
            distance(key, "tls") <= 1 || OF_TLS.contains(&key) || mentions_tls(&entry.value)
        }),
        _ => false,
    }
}

/// All that asks for TLS to a backend.
fn tls_settings<'n, 'a>(node: &'n Node<'a>, found: &mut Vec<&'n Node<'a>>) {
    match &node.value {
        Value::Seq(items) => items.iter().for_each(|item| tls_settings(item, found)),
        Value::Map(entries) => {
            for entry in entries {
                let disabled =
                    |tls: &Node<'_>| tls.get("mode").and_then(Node::as_str) == Some("DISABLE");
                if entry.key != "tls" {
                    tls_settings(&entry.value, found);
                } else if !entry.value.is_null() && !disabled(&entry.value) {
                    found.push(&entry.value);
                }
            }
        }
        _ => {}
    }
}
