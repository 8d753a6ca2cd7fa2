//! How a value goes into a field that others write as well.
//!
//! Conditions keep the time of their last transition while their status stays, and those of types that are not ours stay.
//! Of entries of several controllers, ours are replaced where they stand.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/conversion.go SetListenerConditions, gateway/conditions.go createRouteStatus, 1.32.

use std::sync::Arc;

use serde_json::{Map, Value, json};

/// The time of the last transition of a condition.
const TRANSITION: &str = "lastTransitionTime";
/// The conditions of an entry.
const CONDITIONS: &str = "conditions";
/// What an entry is about: one of these fields.
const REFERENCES: [&str; 2] = ["parentRef", "ancestorRef"];

/// How a value goes into what a field holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Merge {
    /// It replaces what is there.
    Whole,
    /// A list of conditions, each replaced by type.
    Conditions,
    /// A list of entries by name, all of them ours, with conditions.
    ByName,
    /// A list of entries by controller and what they are about, with conditions; ours have one of these as
    /// `controllerName`.
    ByController(Arc<[Arc<str>]>),
}

impl Merge {
    /// What the field is to hold, of an object in `namespace`, at a time (RFC 3339).
    pub(super) fn merged(&self, held: &Value, wanted: &Value, namespace: &str, now: &str) -> Value {
        match self {
            Self::Whole => wanted.clone(),
            Self::Conditions => conditions(held, wanted, now),
            Self::ByName => {
                let entries = items(wanted).iter().map(|entry| {
                    let there = items(held).iter().find(|at| at["name"] == entry["name"]);
                    with_conditions(there, entry, now)
                });
                entries.collect()
            }
            Self::ByController(ours) => by_controller(held, wanted, ours, namespace, now),
        }
    }

    /// What of a field is ours, in a form in which what is held and what is wanted are equal if there is nothing to do.
    pub(super) fn part(&self, held: &Value, wanted: &Value, namespace: &str) -> Value {
        match self {
            Self::Whole => held.clone(),
            Self::Conditions => conditions_of_types(held, wanted),
            Self::ByName => {
                let entries = items(held).iter().map(|entry| {
                    let wanted = items(wanted).iter().find(|at| at["name"] == entry["name"]);
                    comparable(entry, wanted)
                });
                entries.collect()
            }
            Self::ByController(ours) => {
                let key = |entry: &Value| reference(entry, namespace);
                let held = items(held).iter();
                let mut left: Vec<&Value> = held.filter(|at| is_of(at, ours)).collect();
                let mut part = Vec::new();
                for wanted in items(wanted) {
                    let about = key(wanted);
                    if let Some(at) = left.iter().position(|entry| key(entry) == about) {
                        let mut entry = comparable(left.remove(at), Some(wanted));
                        // An API server fills in defaults.
                        for field in REFERENCES {
                            if let Some(fields) = entry.as_object_mut() {
                                fields.remove(field);
                            }
                        }
                        entry["about"] = about;
                        part.push(entry);
                    }
                }
                part.extend(left.into_iter().cloned());
                part.into()
            }
        }
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The conditions that are wanted, among those that others wrote.
fn conditions(held: &Value, wanted: &Value, now: &str) -> Value {
    let of = |list: &'_ [Value], kind: &Value| list.iter().position(|c| c["type"] == *kind);
    let (held, wanted) = (items(held), items(wanted));
    let next = |condition: &Value| {
        let there = of(held, &condition["type"]).map(|at| &held[at]);
        let kept = there.filter(|there| there["status"] == condition["status"]);
        let since = kept.and_then(|there| there[TRANSITION].as_str());
        let mut condition = condition.clone();
        condition[TRANSITION] = since.unwrap_or(now).into();
        condition
    };
    let mut all = Vec::new();
    for (at, there) in held.iter().enumerate() {
        match of(wanted, &there["type"]) {
            None => all.push(there.clone()),
            // One of each type.
            Some(ours) if of(held, &there["type"]) == Some(at) => all.push(next(&wanted[ours])),
            Some(_) => {}
        }
    }
    let new = wanted.iter().filter(|c| of(held, &c["type"]).is_none());
    all.extend(new.map(next));
    all.into()
}

fn with_conditions(held: Option<&Value>, wanted: &Value, now: &str) -> Value {
    let mut entry = wanted.clone();
    if wanted[CONDITIONS].is_array() {
        let there = held.map_or(&Value::Null, |held| &held[CONDITIONS]);
        entry[CONDITIONS] = conditions(there, &wanted[CONDITIONS], now);
    }
    entry
}

fn is_of(entry: &Value, controllers: &[Arc<str>]) -> bool {
    controllers
        .iter()
        .any(|name| entry["controllerName"] == **name)
}

fn by_controller(
    held: &Value,
    wanted: &Value,
    ours: &[Arc<str>],
    namespace: &str,
    now: &str,
) -> Value {
    let mut left: Vec<&Value> = items(wanted).iter().collect();
    let mut all = Vec::new();
    for there in items(held) {
        if !is_of(there, ours) {
            all.push(there.clone());
            continue;
        }
        let about = reference(there, namespace);
        let found = left.iter().position(|w| reference(w, namespace) == about);
        if let Some(at) = found {
            all.push(with_conditions(Some(there), left.remove(at), now));
        }
    }
    let new = left.into_iter();
    all.extend(new.map(|entry| with_conditions(None, entry, now)));
    all.into()
}

/// Whose an entry is and what it is about, with what is there by default.
fn reference(entry: &Value, namespace: &str) -> Value {
    let mut found = REFERENCES.iter().map(|field| &entry[*field]);
    let reference = found.find(|reference| reference.is_object());
    let reference = reference.unwrap_or(&Value::Null);
    let or = |field: &str, default: &str| match &reference[field] {
        Value::Null => Value::from(default),
        stated => stated.clone(),
    };
    json!([
        entry["controllerName"],
        or("group", "gateway.networking.k8s.io"),
        or("kind", "Gateway"),
        or("namespace", namespace),
        reference["name"],
        reference["sectionName"],
        reference["port"],
    ])
}

/// The conditions of the types that are wanted, without times.
fn conditions_of_types(held: &Value, wanted: &Value) -> Value {
    let found = items(wanted).iter().filter_map(|wanted| {
        let mut of_type = items(held).iter();
        let there = of_type.find(|there| there["type"] == wanted["type"])?;
        let mut there = there.clone();
        if let Some(fields) = there.as_object_mut() {
            fields.remove(TRANSITION);
        }
        Some(there)
    });
    found.collect()
}

/// An entry with the conditions that are to be compared.
fn comparable(entry: &Value, wanted: Option<&Value>) -> Value {
    let fields = entry.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| {
        let value = match (name.as_str(), wanted) {
            (CONDITIONS, Some(wanted)) => conditions_of_types(value, &wanted[CONDITIONS]),
            _ => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(fields.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests;
