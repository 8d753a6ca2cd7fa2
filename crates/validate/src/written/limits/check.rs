//! How each limit is checked, and the conditions that have no form of their own.

use std::collections::BTreeSet;

use model::parse::{Raw, nearest};
use proto_istio::wkt::Duration;

use super::Limit::{
    self, Between, Choice, Entries, Form, Length, Needs, OneOf, Other, Time, Unique,
};
use crate::report::{At, Report};
use crate::text::{is_label, unix_path};
use crate::written::gateway_api::is_subdomain;

impl Limit {
    /// Checks a value. Values of another type are for reading to find.
    pub(in crate::written) fn check(&self, value: Raw<'_>, at: &At<'_>, report: &mut Report) {
        match *self {
            Needs(keys) => {
                let is_map = value.all_entries().is_some();
                let missing = |key: &&&str| is_map && !has(value, key);
                for key in keys.iter().filter(missing) {
                    report.error(&at.field(key), "is needed");
                }
            }
            OneOf(keys) => {
                let mut set = keys.iter().filter(|key| value.get(key).is_some());
                if let (Some(first), Some(second)) = (set.next(), set.next()) {
                    let message = format!("only one of `{first}` and `{second}` may be set");
                    report.error(&at.field(second), message);
                }
            }
            Length(least, most) => check_length(value, least, most, at, report),
            Entries(least, most) => check_entries(value, least, most, at, report),
            Between(least, most) => {
                let Some(number) = value.as_f64() else { return };
                if number < least && most == f64::MAX {
                    report.error(at, format!("must be at least {least}, is {number}"));
                } else if !(least..=most).contains(&number) {
                    report.error(at, format!("{number} is not between {least} and {most}"));
                }
            }
            Time => {
                let time = value
                    .as_str()
                    .and_then(|text| text.parse::<Duration>().ok());
                if time.is_some_and(|time| time.as_nanos() < 1_000_000) {
                    report.error(at, "must be at least 1ms");
                }
            }
            Unique(key) => {
                let mut seen = BTreeSet::new();
                for (index, item) in value.items().into_iter().flatten().enumerate() {
                    let value = item.get(key).map(|value| value.to_json().to_string());
                    if let Some(value) = value.filter(|value| !seen.insert(value.clone())) {
                        let message = format!("there is another {value}");
                        report.error(&at.item(index).field(key), message);
                    }
                }
            }
            Choice(texts) => {
                let text = value.as_str().unwrap_or_default();
                if !text.is_empty() && !texts.contains(&text) {
                    let expected = texts.join(", ");
                    report.error(at, format!("expected one of {expected}, found {text:?}"));
                    if let Some(near) = nearest(text, texts.iter().copied()) {
                        report.help(format!("did you mean `{near}`?"));
                    }
                }
            }
            Form(is, name) => {
                if let Some(text) = value.as_str().filter(|text| !is(text)) {
                    report.error(at, format!("{text:?} is not {}", described(name)));
                }
            }
            Other(check) => check(value, at, report),
        }
    }
}

/// What a text is not: `a host name` where it should name `a host`.
fn described(form: &str) -> String {
    match form.split_once(' ') {
        Some(("a" | "an", thing)) if !thing.contains(' ') => format!("{form} name"),
        _ => form.to_owned(),
    }
}

fn check_length(value: Raw<'_>, least: usize, most: usize, at: &At<'_>, report: &mut Report) {
    let Some(length) = value.as_str().map(|text| text.chars().count()) else {
        return;
    };
    if length < least {
        report.error(at, "must not be empty");
    } else if length > most && most == 0 {
        report.error(at, "must not be set");
    } else if length > most {
        report.error(at, format!("has {length} characters, more than {most}"));
    }
}

fn check_entries(value: Raw<'_>, least: usize, most: usize, at: &At<'_>, report: &mut Report) {
    let items = value.items().map(|items| items.len());
    let Some(many) = items.or_else(|| Some(value.all_entries()?.count())) else {
        return;
    };
    if many < least {
        report.error(at, "must not be empty");
    } else if many > most {
        report.error(at, format!("has {many} entries, more than {most}"));
    }
}

/// Whether the key of a message stands there, under either of its names.
fn has(value: Raw<'_>, key: &str) -> bool {
    if value.value_of(key).is_some() {
        return true;
    }
    let mut snake = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    value.value_of(&snake).is_some()
}

pub(in crate::written) fn is_group(text: &str) -> bool {
    text.is_empty() || is_subdomain(text)
}

pub(in crate::written) fn is_kind(text: &str) -> bool {
    text.is_empty() || (is_label(text) && text.starts_with(|c: char| c.is_ascii_alphabetic()))
}

fn text_of<'a>(value: Raw<'a>, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Raw::as_str)
}

pub(super) fn unix_socket(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let address = text_of(value, "address");
    let Some(path) = address.and_then(|a| a.strip_prefix("unix://")) else {
        return;
    };
    report.check(&at.field("address"), unix_path(path));
    if value.get("ports").is_some() {
        report.error(&at.field("ports"), "a Unix socket has no ports");
    }
}

pub(super) fn port_names(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    for (name, _) in value.all_entries().into_iter().flatten() {
        if !is_label(name) {
            report.error(&at.field(name), format!("{name:?} is not a port name"));
        }
    }
}

pub(super) fn endpoints_of_none(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let none = matches!(text_of(value, "resolution"), None | Some("NONE"));
    if none && value.get("endpoints").is_some() {
        let message = "endpoints have no meaning where the resolution is NONE";
        report.error(&at.field("endpoints"), message);
    }
}

pub(super) fn waypoint_match(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let of_waypoint = text_of(value, "context") == Some("WAYPOINT");
    match (of_waypoint, value.get("waypoint").is_some()) {
        (true, false) => {
            report.error(at, "the context WAYPOINT can only be matched by `waypoint`");
        }
        (false, true) => {
            let message = "only the context WAYPOINT can be matched by `waypoint`";
            report.error(&at.field("waypoint"), message);
        }
        _ => {}
    }
}

pub(super) fn tag_to_remove(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if text_of(value, "operation") == Some("REMOVE") && value.get("value").is_some() {
        report.error(&at.field("value"), "REMOVE has no value");
    }
}

pub(super) fn value_from_host(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if text_of(value, "valueFrom") == Some("HOST") && value.get("value").is_some() {
        report.error(
            &at.field("value"),
            "has no meaning where `valueFrom` is HOST",
        );
    }
}
