//! Limits of kinds that an API server enforces: what must be there, how much, how long.
//!
//! They hold for what is written, so that an empty text differs from none. A limit belongs to a message and counts
//! wherever the message is used; [`LIMITS`] is the one list of those of Istio's messages. Kinds that are no messages have
//! [`shape`]s.

mod definition;
mod gateway_api;
mod higress;
mod knative;
mod kubernetes;
mod limits;
mod metadata;
mod multicluster;
mod shape;
mod webhooks;

use std::collections::HashMap;
use std::sync::LazyLock;

use model::Kind;
use model::parse::{Raw, Remark, code};
use prost_reflect::{Kind as FieldKind, MessageDescriptor};

use crate::report::{At, Report, codes};

pub use definition::constrain;
pub(crate) use gateway_api::is_subdomain;
use limits::{LIMITS, Limit, SPECS};

/// What is to be looked at within one message.
#[derive(Default)]
struct Message {
    limits: Vec<Limit>,
    fields: HashMap<String, Field>,
    /// Fields of which at most one is set, as the message itself says.
    choices: Vec<Vec<String>>,
}

/// A field that is to be looked at.
#[derive(Default)]
struct Field {
    name: String,
    limits: Vec<Limit>,
    of_items: Vec<Limit>,
    /// The message within it.
    inner: Option<String>,
    is_map: bool,
    scalar: Option<Scalar>,
}

/// What kind of value a field has, where JSON has no type for it.
#[derive(Clone, Copy)]
enum Scalar {
    /// A length of time.
    Time,
    /// A number that is not negative.
    Unsigned,
}

impl Scalar {
    fn of(kind: &FieldKind) -> Option<Self> {
        match kind {
            FieldKind::Message(m) if m.full_name() == "google.protobuf.Duration" => {
                Some(Self::Time)
            }
            FieldKind::Message(m) if m.full_name() == "google.protobuf.UInt32Value" => {
                Some(Self::Unsigned)
            }
            FieldKind::Uint32 | FieldKind::Uint64 | FieldKind::Fixed32 | FieldKind::Fixed64 => {
                Some(Self::Unsigned)
            }
            _ => None,
        }
    }
}

static MESSAGES: LazyLock<HashMap<String, Message>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for (_, name, _) in SPECS {
        if let Some(descriptor) = proto_istio::descriptors().get_message_by_name(name) {
            build(&descriptor, &mut all);
        }
    }
    all
});

fn build(descriptor: &MessageDescriptor, all: &mut HashMap<String, Message>) {
    let name = descriptor.full_name().to_owned();
    if all.contains_key(&name) {
        return;
    }
    all.insert(name.clone(), Message::default());
    let rows: Vec<_> = LIMITS
        .iter()
        .filter(|(message, ..)| name.strip_prefix("istio.") == Some(*message))
        .collect();
    let mut message = Message::default();
    for field in descriptor.fields() {
        let inner = match field.kind() {
            FieldKind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        let scalar = Scalar::of(&inner);
        let inner = inner
            .as_message()
            .filter(|m| m.package_name() != "google.protobuf")
            .cloned();
        if let Some(inner) = &inner {
            build(inner, all);
        }
        let json = field.json_name().to_owned();
        let of = |suffix: &str| -> Vec<Limit> {
            let wanted = rows.iter().filter(|(_, field, _)| {
                field.strip_suffix(suffix) == Some(json.as_str())
                    && (!suffix.is_empty() || !field.ends_with(']'))
            });
            wanted.map(|(.., limit)| *limit).collect()
        };
        let field = Field {
            limits: of(""),
            of_items: of("[]"),
            inner: inner.map(|m| m.full_name().to_owned()),
            is_map: field.is_map(),
            scalar,
            name: json.clone(),
        };
        let proto_name = descriptor.get_field_by_json_name(&json);
        let other = proto_name
            .map(|f| f.name().to_owned())
            .filter(|n| *n != json);
        if let Some(other) = other {
            let copy = Field {
                name: json.clone(),
                limits: field.limits.clone(),
                of_items: field.of_items.clone(),
                inner: field.inner.clone(),
                is_map: field.is_map,
                scalar,
            };
            message.fields.insert(other, copy);
        }
        message.fields.insert(json, field);
    }
    let choices = descriptor.oneofs().filter(|o| !o.is_synthetic());
    let names = |o: prost_reflect::OneofDescriptor| {
        let fields = o.fields().map(|f| f.json_name().to_owned());
        fields.collect()
    };
    message.choices = choices.map(names).collect();
    let of_message = rows.iter().filter(|(_, field, _)| field.is_empty());
    message.limits = of_message.map(|(.., limit)| *limit).collect();
    all.insert(name, message);
}

/// Checks an object as it is written.
pub fn check(kind: Kind, object: Raw<'_>, report: &mut Report) {
    let mut found = Report::default();
    metadata::check(object, &mut found);
    spec(kind, object, &mut found);
    let limit = |remark: Remark| match remark.code {
        code::INVALID => Remark {
            code: codes::LIMIT,
            ..remark
        },
        _ => remark,
    };
    report.0.extend(found.0.into_iter().map(limit));
}

fn spec(kind: Kind, object: Raw<'_>, report: &mut Report) {
    if shape::check(kind, object, report) {
        return;
    }
    let Some((_, message, needed)) = SPECS.iter().find(|(k, ..)| *k == kind) else {
        return;
    };
    let top = At::TOP;
    let at = top.field("spec");
    match object.value_of("spec") {
        None if *needed => report.error(&at, "a spec is needed"),
        None => {}
        Some(spec) if spec.is_null() => report.error(&at, NULL),
        Some(spec) => within(spec, message, &at, report),
    }
}

const NULL: &str = "has no value: write one, or leave the field out";

fn within(value: Raw<'_>, message: &str, at: &At<'_>, report: &mut Report) {
    let Some(message) = MESSAGES.get(message) else {
        return;
    };
    for limit in &message.limits {
        limit.check(value, at, report);
    }
    for (key, value) in value.all_entries().into_iter().flatten() {
        let Some(field) = message.fields.get(key) else {
            continue;
        };
        let at = at.field(&field.name);
        if value.is_null() {
            report.error(&at, NULL);
            continue;
        }
        for limit in &field.limits {
            limit.check(value, &at, report);
        }
        let mut item = |value: Raw<'_>, at: At<'_>| {
            if value.is_null() {
                return report.error(&at, NULL);
            }
            for limit in &field.of_items {
                limit.check(value, &at, report);
            }
            if let Some(inner) = &field.inner {
                within(value, inner, &at, report);
            }
        };
        if let Some(items) = value.items() {
            for (index, value) in items.enumerate() {
                item(value, at.item(index));
            }
        } else if field.is_map {
            for (key, value) in value.all_entries().into_iter().flatten() {
                item(value, at.field(key));
            }
        } else if let Some(inner) = &field.inner {
            within(value, inner, &at, report);
        }
    }
}
