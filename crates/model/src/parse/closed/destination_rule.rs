//! DestinationRules: what they say of TLS, also where that is misspelt.

use prost::Name;
use prost_reflect::{Kind, MessageDescriptor};
use proto_istio::descriptors;
use proto_istio::networking::DestinationRule;

use super::super::nearest::{distance, nearest};
use super::super::node::{Node, Path, Step, Value};
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

/// A rule for the same host whose TLS settings are those that are written, and one that trusts nobody.
pub(super) fn specs<'a>(document: &Node<'a>) -> Vec<Node<'a>> {
    let near = |field: &str, entries: &Node<'a>| {
        let mut entries = entries.entries().unwrap_or_default().iter();
        let found = entries.find(|entry| distance(&entry.key, field) <= 1);
        found.map(|entry| entry.value.clone())
    };
    let spec = document.get("spec").or_else(|| {
        let mut entries = document.entries()?.iter();
        let other = entries.find(|entry| distance(&entry.key, "spec") <= 2);
        other.map(|entry| &entry.value)
    });
    let Some(spec) = spec else {
        return Vec::new();
    };
    let host = spec.get("host").cloned().or_else(|| near("host", spec));
    let host = match host.map(|host| host.value) {
        Some(Value::Seq(mut hosts)) if !hosts.is_empty() => hosts.swap_remove(0),
        Some(value) => super::node(value),
        None => return Vec::new(),
    };
    if host.as_str().is_none() {
        return Vec::new();
    }
    let mut settings = Vec::new();
    tls_settings(spec, &mut settings);
    let is_unread = descriptors()
        .get_message_by_name(&DestinationRule::full_name())
        .is_some_and(|message| may_be_tls(spec, &message));
    let own = spec
        .get("trafficPolicy")
        .and_then(|policy| policy.get("tls"));
    let rule = |tls: Node<'a>, exports: bool| {
        let mut fields = vec![("host", host.clone())];
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
