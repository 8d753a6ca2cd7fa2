//! The metadata of an object, as its manifest states it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::civil;
use crate::kinds::{Kind, Scope};
use crate::labels::Labels;
use crate::object::{Maker, ObjectName, Timestamp};

use super::check::{Fault, Finding};
use super::head::{is_near, near};
use super::node::{Entry, Node, Path, Value};

/// What a manifest says of the object itself.
#[derive(Default)]
pub(super) struct RawMeta {
    pub(super) name: ObjectName,
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    pub(super) created: Option<Timestamp>,
    pub(super) maker: Option<Arc<Maker>>,
    pub(super) uid: Arc<str>,
    pub(super) resource_version: Arc<str>,
    pub(super) generation: i64,
}

/// Reads `metadata`; `None` where the object has no name, or a namespace that cannot be read.
pub(super) fn read(
    document: &Node<'_>,
    kind: Kind,
    default_namespace: &str,
    findings: &mut Vec<Finding>,
) -> Option<RawMeta> {
    let path = Path::of("metadata");
    let mut report = |path: Path, node: &Node<'_>, message: String, help: Option<&str>| {
        findings.push(Finding {
            fault: Fault::Invalid,
            path,
            span: node.span,
            message,
            help: help.map(str::to_owned),
        });
    };
    let stated = document.get("metadata");
    let stated = stated.filter(|m| m.entries().is_some());
    let metadata = stated.or_else(|| {
        let misspelt = misspelt_metadata(document);
        let help = misspelt.map(|entry| format!("did you mean `metadata` by `{}`?", entry.key));
        let message = "the object has no metadata".to_owned();
        report(path.clone(), document, message, help.as_deref());
        // What is refused is called as it was to be.
        misspelt.map(|entry| &entry.value)
    })?;
    let mut text = |field: &str| match metadata.get(field).map(|n| (n, &n.value)) {
        None | Some((_, Value::Null)) => String::new(),
        Some((_, Value::String(text))) => text.to_string(),
        Some((node, other)) => {
            let message = format!("expected text, found {other}");
            let help = Some("put the value in quotes");
            report(path.with(field), node, message, help);
            String::new()
        }
    };
    let name = text("name");
    let (uid, resource_version) = (shared(text("uid")), shared(text("resourceVersion")));
    let generated = !text("generateName").is_empty();
    let time = text("creationTimestamp");
    let created = timestamp(&time);
    if let Some(message) = untimely(&time, created) {
        let node = metadata.get("creationTimestamp").unwrap_or(metadata);
        let help = Some("expected a time such as 2006-01-02T15:04:05Z");
        report(path.with("creationTimestamp"), node, message, help);
    }
    // A misspelt one is reported below, too, and what protects is to close the namespace that was meant.
    let stated = near(metadata, "namespace");
    if let Some(node) = stated.filter(|node| !node.is_null() && node.as_str().is_none()) {
        let message = format!("expected text, found {}", node.value);
        let help = Some("put the value in quotes");
        report(path.with("namespace"), node, message, help);
    }
    if name.is_empty() {
        report(path, metadata, "the object has no name".to_owned(), None);
        return None;
    }
    let namespace = match kind.scope() {
        Scope::Cluster => Cow::Borrowed(""),
        Scope::Namespaced => namespace_of(metadata, default_namespace)?,
    };
    let unknown = unknown_fields(metadata, &path);
    let mut pairs = |field: &str| pairs(metadata, field, &path, &mut report);
    let (labels, annotations) = (pairs("labels"), pairs("annotations"));
    check_names(kind, metadata, [&name, &namespace], &path, findings);
    findings.extend(unknown);
    Some(RawMeta {
        labels,
        annotations,
        name: ObjectName::new(&*namespace, name),
        created,
        maker: generated.then(|| maker(metadata)).flatten(),
        uid,
        resource_version,
        generation: metadata.get("generation").map_or(0, generation),
    })
}

/// The namespace that `metadata` states, misspelt or not, or else the default. `None` where nobody can say which it was to be:
/// such an object is nobody's, and closes nothing in the default namespace, which is another's.
pub(super) fn namespace_of<'n>(
    metadata: &'n Node<'_>,
    default_namespace: &'n str,
) -> Option<Cow<'n, str>> {
    match near(metadata, "namespace").map(|node| &node.value) {
        None | Some(Value::Null) => Some(default_namespace.into()),
        Some(Value::String(text)) if text.is_empty() => Some(default_namespace.into()),
        Some(Value::String(text)) => Some(Cow::Borrowed(&**text)),
        // Without quotes YAML takes such a name for another value.
        Some(Value::Bool(value)) => Some(value.to_string().into()),
        Some(Value::Int(value)) => Some(value.to_string().into()),
        Some(Value::UInt(value)) => Some(value.to_string().into()),
        Some(Value::Float(_) | Value::Seq(_) | Value::Map(_)) => None,
    }
}

/// A text to keep. Empty ones take no room.
fn shared(text: String) -> Arc<str> {
    match text.is_empty() {
        true => Arc::default(),
        false => text.into(),
    }
}

/// What is wrong with a time that cannot be read.
fn untimely(time: &str, read: Option<Timestamp>) -> Option<String> {
    (read.is_none() && !time.is_empty()).then(|| format!("{time:?} is not a time"))
}

/// The field that is called nearly as `metadata`, if it holds a map.
fn misspelt_metadata<'n, 'a>(document: &'n Node<'a>) -> Option<&'n Entry<'a>> {
    let mut entries = document.entries()?.iter();
    entries.find(|entry| is_near(&entry.key, "metadata") && entry.value.entries().is_some())
}

/// Fields that say what an object is or does.
const OF_OBJECT: [&str; 4] = ["annotations", "labels", "name", "namespace"];

/// Fields that others read, or that an API writes.
const OF_API: [&str; 11] = [
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
];

/// Fields that are not known. One that is near to a field that says what an object is or does is misspelt; others may come from
/// newer versions.
fn unknown_fields(metadata: &Node<'_>, path: &Path) -> Vec<Finding> {
    let is_known = |key: &str| OF_OBJECT.contains(&key) || OF_API.contains(&key) || key == "uid";
    let entries = metadata.entries().unwrap_or_default().iter();
    let unknown = entries.filter(|entry| !is_known(&entry.key));
    unknown
        .map(|entry| {
            let near = OF_OBJECT
                .into_iter()
                .find(|field| is_near(&entry.key, field));
            Finding {
                fault: near.map_or(Fault::Newer, |_| Fault::UnknownField),
                path: path.with(&entry.key),
                span: entry.at,
                message: format!("unknown field `{}`", entry.key),
                help: near.map(|field| format!("did you mean `{field}`?")),
            }
        })
        .collect()
}

/// Written by an API alone: what is no number tells nothing.
fn generation(node: &Node<'_>) -> i64 {
    match node.value {
        Value::Int(number) => number,
        _ => 0,
    }
}

/// The first owner that is the controller. What cannot be read is no owner: the API that wrote it has judged it.
fn maker(metadata: &Node<'_>) -> Option<Arc<Maker>> {
    let Value::Seq(owners) = &metadata.get("ownerReferences")?.value else {
        return None;
    };
    let is_controller = |o: &&Node<'_>| {
        o.get("controller")
            .is_some_and(|c| matches!(c.value, Value::Bool(true)))
    };
    let owner = owners.iter().find(is_controller)?;
    let text = |field: &str| owner.get(field).and_then(Node::as_str).map(Arc::from);
    Some(Arc::new(Maker {
        kind: text("kind")?,
        name: text("name").filter(|name| !name.is_empty())?,
    }))
}

/// Finds a name and a namespace in `metadata` that such an object cannot have.
fn check_names(
    kind: Kind,
    metadata: &Node<'_>,
    [name, namespace]: [&str; 2],
    path: &Path,
    findings: &mut Vec<Finding>,
) {
    let named = [
        ("name", name, name_fault(kind, name)),
        ("namespace", namespace, label_fault(namespace)),
    ];
    for (field, text, fault) in named {
        if let (Some(fault), Some(node)) = (fault, metadata.get(field)) {
            findings.push(Finding {
                fault: Fault::BadName,
                path: path.with(field),
                span: node.span,
                message: format!("{text:?} {fault}"),
                help: None,
            });
        }
    }
}

/// Labels or annotations. Plain numbers and booleans count as the text they were written with.
fn pairs(
    metadata: &Node<'_>,
    field: &str,
    path: &Path,
    report: &mut impl FnMut(Path, &Node<'_>, String, Option<&str>),
) -> Labels {
    let Some(node) = metadata.get(field).filter(|n| !n.is_null()) else {
        return Labels::default();
    };
    let Some(entries) = node.entries() else {
        report(
            path.with(field),
            node,
            format!("expected a map, found {}", node.value),
            None,
        );
        return Labels::default();
    };
    let pairs = entries.iter().filter_map(|entry| {
        let value = match &entry.value.value {
            Value::String(text) => text.to_string(),
            Value::Null => String::new(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::UInt(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Seq(_) | Value::Map(_) => {
                let message = format!("expected text, found {}", entry.value.value);
                report(
                    path.with(field).with(&entry.key),
                    &entry.value,
                    message,
                    None,
                );
                return None;
            }
        };
        Some((entry.key.to_string(), value))
    });
    pairs.collect()
}

/// Why `name` cannot be the name of such an object.
fn name_fault(kind: Kind, name: &str) -> Option<&'static str> {
    match kind {
        Kind::Service | Kind::Namespace => label_fault(name),
        _ if name.len() > 253 => Some("is longer than 253 characters"),
        _ if !name.split('.').all(is_label) => Some(
            "is no name: it needs lower-case letters, digits, - and ., with a letter or digit at both ends of each part",
        ),
        _ => None,
    }
}

fn label_fault(name: &str) -> Option<&'static str> {
    match name {
        "" => None,
        _ if name.len() > 63 => Some("is longer than 63 characters"),
        _ if !is_label(name) => Some(
            "is no name: it needs lower-case letters, digits and -, with a letter or digit at both ends",
        ),
        _ => None,
    }
}

/// Whether a text is a label of DNS in lower case, however long.
pub(crate) fn is_label(part: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = part.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| edge(Some(b)) || *b == b'-')
}

/// Reads RFC 3339; fractions of a second are dropped.
pub(super) fn timestamp(text: &str) -> Option<Timestamp> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let bytes = text.as_bytes();
    let separators = [(4, "-"), (7, "-"), (10, "Tt"), (13, ":"), (16, ":")]
        .iter()
        .all(|(at, any)| bytes.get(*at).is_some_and(|b| any.as_bytes().contains(b)));
    if !separators {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut zone = text.get(19..)?;
    if let Some(fraction) = zone.strip_prefix('.') {
        let rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == fraction.len() {
            return None;
        }
        zone = rest;
    }
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let seconds = number(at..at + 2)? * 3600 + number(at + 3..at + 5)? * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let days = civil::days(year, month, day);
    Some(Timestamp(
        days * 86_400 + hour * 3600 + minute * 60 + second - offset,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_epoch() {
        let at = |text| timestamp(text).map(|t| t.0);
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(at("2024-02-29T12:00:00Z"), Some(1_709_208_000));
        assert_eq!(at("2024-02-29T12:00:00.5+02:00"), Some(1_709_200_800));
        assert_eq!(at("1969-12-31T23:59:59Z"), Some(-1));
        assert_eq!(at("2023-02-29T12:00:00Z"), None);
        assert_eq!(at("2023-02-28 12:00:00"), None);
        assert_eq!(at("2023-02-28T12:00:00"), None);
        assert_eq!(at("é023-02-28T12:00:00Z"), None);
    }
}
