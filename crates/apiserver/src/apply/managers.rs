//! `metadata.managedFields`.

use serde_json::{Value, json};

use super::Writer;
use crate::fields::Set;
use crate::object::{meta_mut, set_meta};

/// How fields came to be managed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What one manager manages.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The name of the manager.
    pub manager: String,
    /// How.
    pub operation: Operation,
    /// The version in which the fields are named.
    pub api_version: String,
    /// The part of the object, where it was written apart.
    pub subresource: String,
    /// When this last changed.
    pub time: String,
    /// The fields.
    pub fields: Set,
}

impl Entry {
    /// Whether it is the entry of a writer.
    pub fn is(&self, writer: &Writer<'_>, operation: Operation) -> bool {
        self.manager == writer.manager
            && self.operation == operation
            && self.subresource == writer.subresource
            // Those who update by several versions are several managers.
            && (operation == Operation::Apply || self.api_version == writer.api_version)
    }

    /// As messages about conflicts name it.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// Who manages what of an object.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Managers(Vec<Entry>);

impl Managers {
    /// As the object says.
    pub fn of(object: &Value) -> Self {
        let list = object["metadata"]["managedFields"].as_array();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let entries = list.into_iter().flatten().filter_map(|e| {
            Some(Entry {
                manager: e["manager"].as_str()?.to_owned(),
                operation: match e["operation"].as_str()? {
                    "Apply" => Operation::Apply,
                    _ => Operation::Update,
                },
                api_version: text(&e["apiVersion"]),
                subresource: text(&e["subresource"]),
                time: text(&e["time"]),
                fields: Set::from_json(&e["fieldsV1"]),
            })
        });
        Self(entries.collect())
    }

    /// Every entry.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut()
    }

    /// The entry of a writer.
    pub fn get(&self, writer: &Writer<'_>, operation: Operation) -> Option<&Entry> {
        self.0.iter().find(|e| e.is(writer, operation))
    }

    /// The entry of a writer, made where there is none.
    pub fn entry(&mut self, writer: &Writer<'_>, operation: Operation) -> &mut Entry {
        let at = self
            .0
            .iter()
            .position(|e| e.is(writer, operation))
            .unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push(Entry {
                manager: writer.manager.to_owned(),
                operation,
                api_version: writer.api_version.to_owned(),
                subresource: writer.subresource.to_owned(),
                time: writer.time.to_owned(),
                fields: Set::default(),
            });
        }
        &mut self.0[at]
    }

    /// What everybody but a writer manages.
    pub fn others(&self, writer: &Writer<'_>, operation: Operation) -> Set {
        let others = self.0.iter().filter(|e| !e.is(writer, operation));
        others.fold(Set::default(), |all, e| all.union(&e.fields))
    }

    /// Writes the entries that manage anything into an object.
    pub fn store(mut self, object: &mut Value) {
        self.0.retain(|e| !e.fields.is_empty());
        self.0.sort_by(|a, b| {
            let key = |e: &Entry| {
                (
                    e.operation,
                    e.time.clone(),
                    e.manager.clone(),
                    e.subresource.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        if self.0.is_empty() {
            meta_mut(object).remove("managedFields");
            return;
        }
        let entries = self.0.iter().map(|e| {
            let mut entry = json!({
                "manager": e.manager,
                "operation": e.operation.name(),
                "apiVersion": e.api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": e.fields.to_json(),
            });
            if !e.time.is_empty() {
                entry["time"] = e.time.as_str().into();
            }
            if !e.subresource.is_empty() {
                entry["subresource"] = e.subresource.as_str().into();
            }
            entry
        });
        let entries: Vec<Value> = entries.collect();
        set_meta(object, "managedFields", entries);
    }
}
