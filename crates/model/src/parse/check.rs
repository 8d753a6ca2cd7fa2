//! The structure of Istio's kinds, checked against the descriptors of their messages.
//!
//! The check finds everything that is wrong with a document at once. It also clears the tree of what Istio overlooks
//! (`null`, fields that nobody knows), so that what is left converts into the message.

use std::str::FromStr;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use proto_istio::wkt;

use super::nearest::nearest;
use super::node::{Entry, Node, Path, Span, Step, Value};

/// Something about a value that the person who wrote it should know.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) fault: Fault,
    pub(super) path: Path,
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// What kind of fault it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A field that the kind does not have. Istio's API server drops it, istiod overlooks it.
    UnknownField,
    /// A field that no version known here has, in metadata or in an object of Kubernetes: a newer version may have it.
    Newer,
    /// A key that stands twice.
    DuplicateKey,
    /// A name that no API server would take.
    BadName,
    /// A path that no request has.
    BadPath,
    /// A value that has no meaning in its place.
    Invalid,
}

/// Checks `node` as the JSON of `message`, and clears it of what is not there.
pub(super) fn message(
    node: &mut Node<'_>,
    message: &MessageDescriptor,
    path: &mut Path,
    findings: &mut Vec<Finding>,
) {
    Check { path, findings }.message(node, message);
}

/// The help for an unknown field: what it probably should be, or else what there is.
pub(super) fn field_help<'a>(
    field: &str,
    valid: impl Iterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(name) = nearest(field, valid.clone()) {
        return Some(format!("did you mean `{name}`?"));
    }
    let mut names: Vec<&str> = valid.collect();
    names.sort_unstable();
    if names.is_empty() {
        return Some("no fields are expected here".to_owned());
    }
    Some(format!("known fields are {}", names.join(", ")))
}

struct Check<'p> {
    path: &'p mut Path,
    findings: &'p mut Vec<Finding>,
}

/// So many faults are looked for; of those that make a value useless, as many again.
const MOST: usize = 1000;

impl Check<'_> {
    /// Whether so much was found that one more unknown field tells nobody anything.
    fn is_full(&self) -> bool {
        self.findings.len() >= MOST
    }

    fn report(&mut self, fault: Fault, span: Span, message: String, help: Option<String>) {
        let full = match fault {
            Fault::Invalid => self.findings.len() >= 2 * MOST,
            _ => self.is_full(),
        };
        if full {
            return;
        }
        let path = self.path.clone();
        self.findings.push(Finding {
            fault,
            path,
            span,
            message,
            help,
        });
    }

    fn expected(&mut self, what: &str, node: &Node<'_>) {
        let message = format!("expected {what}, found {}", node.value);
        // Text is the one type that plain YAML scalars slip out of unnoticed.
        let help = match &node.value {
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) if what == "text" => {
                Some("put the value in quotes".to_owned())
            }
            _ => None,
        };
        self.report(Fault::Invalid, node.span, message, help);
    }

    fn within(&mut self, step: Step, check: impl FnOnce(&mut Self)) {
        self.path.0.push(step);
        check(self);
        self.path.0.pop();
    }

    fn message(&mut self, node: &mut Node<'_>, message: &MessageDescriptor) {
        if message.package_name() == "google.protobuf" {
            return self.well_known(node, message.name());
        }
        let Value::Map(entries) = &mut node.value else {
            return self.expected("a map", node);
        };
        let mut seen: Vec<u32> = Vec::new();
        let mut oneofs: Vec<(String, String)> = Vec::new();
        entries.retain_mut(|entry| {
            self.path.0.push(Step::Field((&*entry.key).into()));
            let keep = self.field(entry, message, &mut seen, &mut oneofs);
            self.path.0.pop();
            keep
        });
    }

    /// Checks one entry of a message; whether it is part of it.
    fn field(
        &mut self,
        entry: &mut Entry<'_>,
        message: &MessageDescriptor,
        seen: &mut Vec<u32>,
        oneofs: &mut Vec<(String, String)>,
    ) -> bool {
        let by_json = message.get_field_by_json_name(&entry.key);
        let Some(field) = by_json.or_else(|| message.get_field_by_name(&entry.key)) else {
            if self.is_full() {
                return false;
            }
            let names: Vec<_> = message.fields().map(|f| f.json_name().to_owned()).collect();
            let help = field_help(&entry.key, names.iter().map(String::as_str));
            self.report(
                Fault::UnknownField,
                entry.at,
                format!("unknown field `{}`", entry.key),
                help,
            );
            return false;
        };
        let is_any_value =
            matches!(field.kind(), Kind::Message(m) if m.full_name() == "google.protobuf.Value");
        if entry.value.is_null() && !is_any_value {
            return false;
        }
        if seen.contains(&field.number()) {
            let message = format!(
                "`{}` is set twice, under both of its names",
                field.json_name()
            );
            self.report(Fault::Invalid, entry.at, message, None);
            return false;
        }
        seen.push(field.number());
        if entry.key != field.json_name() {
            entry.key = field.json_name().to_owned().into();
        }
        if let Some(oneof) = field.containing_oneof() {
            if let Some((_, other)) = oneofs.iter().find(|(name, _)| name == oneof.name()) {
                let message = format!(
                    "only one of `{other}` and `{}` may be set",
                    field.json_name()
                );
                self.report(Fault::Invalid, entry.at, message, None);
            } else {
                oneofs.push((oneof.name().to_owned(), field.json_name().to_owned()));
            }
        }
        if field.is_map() {
            self.map(&mut entry.value, &field);
        } else if field.is_list() {
            self.list(&mut entry.value, &field.kind());
        } else {
            self.value(&mut entry.value, &field.kind());
        }
        true
    }

    fn list(&mut self, node: &mut Node<'_>, kind: &Kind) {
        let Value::Seq(items) = &mut node.value else {
            return self.expected("a list", node);
        };
        for (index, item) in items.iter_mut().enumerate() {
            self.within(Step::Index(index), |check| check.value(item, kind));
        }
    }

    fn map(&mut self, node: &mut Node<'_>, field: &FieldDescriptor) {
        let Kind::Message(entry) = field.kind() else {
            return;
        };
        let (key, value) = (
            entry.map_entry_key_field().kind(),
            entry.map_entry_value_field().kind(),
        );
        let Value::Map(entries) = &mut node.value else {
            return self.expected("a map", node);
        };
        for entry in entries {
            self.within(Step::Field((&*entry.key).into()), |check| {
                if key != Kind::String && entry.key.parse::<i64>().is_err() {
                    let message = format!("expected a number as key, found {:?}", entry.key);
                    check.report(Fault::Invalid, entry.at, message, None);
                }
                check.value(&mut entry.value, &value);
            });
        }
    }

    fn value(&mut self, node: &mut Node<'_>, kind: &Kind) {
        match kind {
            Kind::Message(message) => self.message(node, message),
            Kind::Enum(values) => self.enumeration(node, values),
            Kind::Bool => self.boolean(node),
            Kind::String => self.text(node),
            Kind::Bytes => self.bytes(node),
            Kind::Double | Kind::Float => self.float(node),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                self.integer(node, i32::MIN.into(), i32::MAX.into());
            }
            Kind::Uint32 | Kind::Fixed32 => self.integer(node, 0, u32::MAX.into()),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                self.integer(node, i64::MIN.into(), i64::MAX.into());
            }
            Kind::Uint64 | Kind::Fixed64 => self.integer(node, 0, u64::MAX.into()),
        }
    }

    fn boolean(&mut self, node: &Node<'_>) {
        if !matches!(node.value, Value::Bool(_)) {
            self.expected("true or false", node);
        }
    }

    fn text(&mut self, node: &Node<'_>) {
        if !matches!(node.value, Value::String(_)) {
            self.expected("text", node);
        }
    }

    fn bytes(&mut self, node: &Node<'_>) {
        let is_base64 = node.as_str().is_some_and(|text| {
            let digits = text.trim_end_matches('=');
            digits
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+/-_".contains(&b))
                && digits.len() % 4 != 1
        });
        if !is_base64 {
            self.expected("text in base64", node);
        }
    }

    /// Numbers may be quoted.
    fn float(&mut self, node: &mut Node<'_>) {
        match &node.value {
            Value::Int(_) | Value::UInt(_) => {}
            Value::Float(value) if value.is_finite() => {}
            Value::String(text) if text.parse::<f64>().is_ok() => {}
            _ => self.expected("a number", node),
        }
    }

    /// Numbers may be quoted.
    fn integer(&mut self, node: &mut Node<'_>, min: i128, max: i128) {
        let value = match &node.value {
            Value::Int(value) => Some(i128::from(*value)),
            Value::UInt(value) => Some(i128::from(*value)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match value {
            Some(value) if (min..=max).contains(&value) => {
                if let Ok(value) = i64::try_from(value) {
                    node.value = Value::Int(value);
                }
            }
            Some(value) => {
                let message = format!("the number {value} is not between {min} and {max}");
                self.report(Fault::Invalid, node.span, message, None);
            }
            None => self.expected("a whole number", node),
        }
    }

    /// Values have their name, or their number.
    fn enumeration(&mut self, node: &mut Node<'_>, values: &EnumDescriptor) {
        let known = match &node.value {
            Value::String(text) => values.get_value_by_name(text),
            Value::Int(number) => i32::try_from(*number)
                .ok()
                .and_then(|n| values.get_value(n)),
            _ => return self.expected("the name of a value", node),
        };
        if let Some(value) = known {
            node.value = Value::String(value.name().to_owned().into());
            return;
        }
        let names: Vec<String> = values.values().map(|v| v.name().to_owned()).collect();
        let near = node
            .as_str()
            .and_then(|text| nearest(text, names.iter().map(String::as_str)));
        let help = match near {
            Some(name) => format!("did you mean `{name}`? Valid are {}", names.join(", ")),
            None => format!("valid are {}", names.join(", ")),
        };
        let message = format!("{} is no {}", node.value, values.name());
        self.report(Fault::Invalid, node.span, message, Some(help));
    }

    fn well_known(&mut self, node: &mut Node<'_>, name: &str) {
        match name {
            "BoolValue" => self.boolean(node),
            "StringValue" => self.text(node),
            "BytesValue" => self.bytes(node),
            "DoubleValue" | "FloatValue" => self.float(node),
            "Int32Value" => self.integer(node, i32::MIN.into(), i32::MAX.into()),
            "UInt32Value" => self.integer(node, 0, u32::MAX.into()),
            "Int64Value" => self.integer(node, i64::MIN.into(), i64::MAX.into()),
            "UInt64Value" => self.integer(node, 0, u64::MAX.into()),
            "Duration" => {
                if node
                    .as_str()
                    .map(wkt::Duration::from_str)
                    .is_none_or(|d| d.is_err())
                {
                    self.expected("a duration such as 1.5s, 100ms or 1h30m", node);
                }
            }
            "Timestamp" => {
                if node.as_str().and_then(super::meta::timestamp).is_none() {
                    self.expected("a time such as 2006-01-02T15:04:05Z", node);
                }
            }
            "Struct" | "Any" => {
                if node.entries().is_none() {
                    self.expected("a map", node);
                }
            }
            "Empty" => match &mut node.value {
                Value::Map(entries) => {
                    for entry in std::mem::take(entries) {
                        let message = format!("unknown field `{}`", entry.key);
                        let help = field_help(&entry.key, std::iter::empty());
                        self.within(Step::Field((&*entry.key).into()), |check| {
                            check.report(Fault::UnknownField, entry.at, message, help);
                        });
                    }
                }
                _ => self.expected("an empty map", node),
            },
            "ListValue" => {
                if !matches!(node.value, Value::Seq(_)) {
                    self.expected("a list", node);
                }
            }
            _ => {}
        }
    }
}
