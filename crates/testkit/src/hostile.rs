//! Objects that an attacker would write: of every kind that a namespace may have, drawn by a number.
//!
//! An object begins as an example of its kind with most of its fields (`hostile/examples.yaml`). Fields are left out, values
//! are replaced by what once did harm ([`values`]), and fields of Istio's kinds that the example has not are set by their
//! descriptors ([`fields`]). Whether anybody accepts what comes out is no concern of this module.

mod draw;
mod fields;
mod values;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use draw::Draw;

/// The namespace of hostile objects.
pub const HOSTILE: &str = "evil";

/// When what others have was created, at the latest.
const CREATED: &str = "2020-01-01T00:00:00Z";

/// What the namespace has that harms nobody: hostile objects have somewhere to lead to.
pub const OWN: &str = include_str!("hostile/own.yaml");

/// What an attacker knows of the others.
#[derive(Clone, Default, Debug)]
pub struct Surroundings {
    /// Hosts of others.
    pub hosts: Vec<String>,
    /// Gateways of others that routes may name, as `namespace/name`.
    pub gateways: Vec<String>,
    /// Gateways of the Gateway API that routes may name, as `namespace/name`.
    pub parents: Vec<String>,
    /// Labels of gateways' proxies, as `name=value`.
    pub selectors: Vec<String>,
    /// Addresses of others' workloads and services.
    pub addresses: Vec<String>,
    /// Ports of the servers of Gateways.
    pub ports: Vec<u16>,
    /// An address where something listens for the attacker.
    pub own_address: String,
}

/// A part of a list of examples: the kind's name, and the object.
static EXAMPLES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let read = model::parse::to_json(include_str!("hostile/examples.yaml"));
    let all = read
        .into_iter()
        .map(|object| object.expect("the examples are YAML"));
    all.collect()
});

/// What stays where it is: without it an object is none, or hardly ever accepted.
const KEPT: [&str; 34] = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "spec",
    "hosts",
    "host",
    "http",
    "route",
    "routes",
    "destination",
    "rules",
    "backendRefs",
    "backend",
    "service",
    "parentRefs",
    "port",
    "ports",
    "number",
    "protocol",
    "servers",
    "endpoints",
    "address",
    "addresses",
    "selector",
    "configPatches",
    "patch",
    "applyTo",
    "match",
    "url",
    "creationTimestamp",
    "host",
    "kubernetes.io/service-name",
];

/// The examples' kinds, as `group/Kind`.
pub fn kinds() -> BTreeSet<String> {
    EXAMPLES.iter().map(kind).collect()
}

fn kind(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    format!("{group}/{}", object["kind"].as_str().unwrap_or_default())
}

/// The hostile objects of a number: the same for the same surroundings, on any machine. No two have one name.
pub fn objects(seed: u64, count: usize, around: &Surroundings) -> Vec<Value> {
    let mut draw = Draw::new(seed);
    (0..count).map(|at| object(&mut draw, at, around)).collect()
}

fn object(draw: &mut Draw, at: usize, around: &Surroundings) -> Value {
    let mut object = draw.of(&EXAMPLES).clone();
    let mut change = Change {
        kept: draw.of(&[20, 50, 80, 100]).to_owned(),
        harm: draw.of(&[0, 5, 10, 25]).to_owned(),
        around,
        draw,
    };
    change.fill(&mut object);
    let Value::Object(fields) = &mut object else {
        return object;
    };
    for (name, value) in fields.iter_mut() {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                for part in ["labels", "annotations"] {
                    if let Some(inner) = value.get_mut(part) {
                        change.alter(part, inner);
                    }
                }
            }
            name => change.alter(name, value),
        }
    }
    if let Some(message) = fields::message(fields) {
        change.add_fields(&message, &mut fields["spec"]);
    }
    // Slices keep the names of their services, and routes those of what they are attached to.
    let metadata = &mut fields["metadata"];
    if metadata["name"]
        .as_str()
        .is_none_or(|name| name.starts_with("x-"))
    {
        metadata["name"] = format!("x-{at}").into();
    }
    metadata["namespace"] = HOSTILE.into();
    // Never before what others have: without a date, at their time, or after it.
    match *change.draw.of(&["", CREATED, "2026-01-01T00:00:00Z"]) {
        "" => {
            _ = metadata
                .as_object_mut()
                .map(|m| m.remove("creationTimestamp"))
        }
        time => metadata["creationTimestamp"] = time.into(),
    }
    object
}

/// How one object is changed.
struct Change<'a> {
    /// Of a hundred fields, so many are kept.
    kept: u64,
    /// Of a hundred values, so many become harmful.
    harm: u64,
    around: &'a Surroundings,
    draw: &'a mut Draw,
}

impl Change<'_> {
    /// Puts what is known of the surroundings in its places.
    fn fill(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(filled) = values::fill(text, self.around, self.draw) {
                    *value = filled;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Object(fields) => {
                for field in fields.values_mut() {
                    self.fill(field);
                }
                // `<selector>: x` is one label.
                if fields.remove("<selector>").is_some() {
                    let label = self.draw.of(&self.around.selectors).clone();
                    let (name, of) = label.split_once('=').unwrap_or((&label, ""));
                    fields.insert(name.to_owned(), of.into());
                }
            }
            _ => {}
        }
    }

    /// Leaves fields out and replaces values.
    fn alter(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => self.alter_fields(name, fields),
            Value::Array(items) => {
                if self.draw.chance(self.harm / 2) && !items.is_empty() {
                    let again = self.draw.of(items).clone();
                    items.push(again);
                }
                items.iter_mut().for_each(|item| self.alter(name, item));
            }
            leaf if self.draw.chance(self.harm) => {
                *leaf = values::harmful(name, leaf, self.around, self.draw);
            }
            _ => {}
        }
    }

    fn alter_fields(&mut self, name: &str, fields: &mut Map<String, Value>) {
        let names: Vec<String> = fields.keys().cloned().collect();
        for field in names {
            let kept = match KEPT.contains(&field.as_str()) {
                true => 97,
                false => self.kept,
            };
            if !self.draw.chance(kept) {
                fields.remove(&field);
                continue;
            }
            if let Some(mut value) = fields.remove(&field) {
                self.alter(&field, &mut value);
                let harm = values::is_map_of_names(name) && self.draw.chance(self.harm);
                let field = match harm {
                    true => values::name(self.draw),
                    false => field,
                };
                fields.insert(field, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Surroundings {
        Surroundings {
            hosts: vec!["a.example".into()],
            gateways: vec!["edge/web".into()],
            parents: vec!["edge/front".into()],
            selectors: vec!["istio=ingressgateway".into()],
            addresses: vec!["10.0.0.1".into()],
            ports: vec![80],
            own_address: "10.9.9.9".into(),
        }
    }

    #[test]
    fn a_number_draws_the_same_objects_each_time() {
        assert_eq!(objects(7, 50, &around()), objects(7, 50, &around()));
        assert_ne!(objects(7, 50, &around()), objects(8, 50, &around()));
    }

    #[test]
    fn every_kind_is_drawn_and_nothing_is_left_to_fill() {
        let all = objects(1, 2000, &around());
        let drawn: BTreeSet<String> = all.iter().map(kind).collect();
        assert_eq!(drawn, kinds());
        for object in &all {
            let text = object.to_string();
            assert!(!text.contains("\"<") && !text.contains(">\""), "{text}");
            assert_eq!(object["metadata"]["namespace"], HOSTILE);
        }
    }

    #[test]
    fn what_harms_is_drawn() {
        let text: String = objects(1, 4000, &around())
            .iter()
            .map(Value::to_string)
            .collect();
        for part in [
            "\\ufdd0",
            "\u{FDD0}",
            "315576000000s",
            "15006",
            "${secret.",
            "%ENVIRONMENT",
            "A.example",
            "a.example.\"",
            "*.a.example",
        ] {
            assert!(text.contains(part), "{part:?}");
        }
    }
}
