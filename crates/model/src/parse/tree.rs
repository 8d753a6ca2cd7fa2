//! Messages as trees, for settings that are laid over others before they are read.

use std::path::Path as FilePath;
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::check::{self, Fault};
use super::node::{Entry, Node, Path, Span, Value};
use super::{Reader, Remark, Validation, yaml};
use crate::diagnostic::{Diagnostic, Severity};

/// A message as its JSON, with the fields that are set and no others.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a>(Node<'a>);

const NOWHERE: Span = Span {
    line: 0,
    column: 0,
    length: 0,
};

impl<'a> Tree<'a> {
    /// The JSON of a value.
    pub(crate) fn from_value<T: Serialize>(value: &T) -> Self {
        let json = serde_json::to_value(value).unwrap_or_default();
        Self(Node::from_json(json, NOWHERE))
    }

    /// The value of the JSON, or what does not fit.
    pub(crate) fn to_value<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(&self.0).map_err(|error| error.to_string())
    }

    /// Reads a text that holds a message, or a ConfigMap that holds such a text under one of `keys`. `Ok(None)` is a
    /// text without content, `Err` one that cannot be used. Unknown fields are warnings.
    pub(crate) fn read(
        text: &str,
        keys: &[&str],
        message: &MessageDescriptor,
        file: &Arc<FilePath>,
    ) -> (Result<Option<Tree<'static>>, ()>, Vec<Diagnostic>) {
        let inner = inner_text(text, keys);
        let mut reader = Reader::new(text, file, Validation::Warn);
        let mut tree = Ok(None);
        for document in yaml::documents(inner.as_deref().unwrap_or(text)) {
            let mut findings = Reader::duplicates(&document.duplicates);
            match document.node {
                Err(error) => {
                    reader.syntax(error);
                    tree = Err(());
                }
                Ok(node) if node.is_null() => {}
                Ok(mut node) => {
                    check::message(&mut node, message, &mut Path::default(), &mut findings);
                    if findings.iter().any(|f| f.fault == Fault::Invalid) {
                        tree = Err(());
                    } else if let Ok(None) = tree {
                        tree = Ok(Some(Tree(node.into_owned())));
                    }
                }
            }
            for finding in findings {
                let diagnostic = reader.diagnostic(finding, None);
                reader.parsed.diagnostics.push(diagnostic);
            }
        }
        let diagnostics = reader.parsed.diagnostics;
        debug_assert!(tree.is_ok() || diagnostics.iter().any(|d| d.severity == Severity::Error));
        (tree, diagnostics)
    }

    /// Remarks about settings that [`Tree::read`] has read from the text, with their places.
    pub(crate) fn remarked(
        text: &str,
        keys: &[&str],
        file: &Arc<FilePath>,
        remarks: Vec<Remark>,
    ) -> Vec<Diagnostic> {
        if remarks.is_empty() {
            return Vec::new();
        }
        let inner = inner_text(text, keys);
        let text = inner.as_deref().unwrap_or(text);
        let mut reader = Reader::new(text, file, Validation::Strict);
        reader.part = yaml::parts(text).find(|part| part.read().is_some());
        let shown = remarks.into_iter().map(|r| reader.remarked(r, 1));
        shown.collect()
    }

    /// Sets the fields of `over` in place of those of the same name, and in place of others of the same `oneof`.
    pub(crate) fn overlay(&mut self, over: Tree<'a>, message: &MessageDescriptor) {
        let Value::Map(entries) = over.0.value else {
            return;
        };
        for entry in entries {
            let field = message.get_field_by_json_name(&entry.key);
            let oneof = field.and_then(|f| f.containing_oneof());
            for other in oneof.iter().flat_map(|o| o.fields().collect::<Vec<_>>()) {
                self.0.take(other.json_name());
            }
            self.put(&entry.key, Some(Tree(entry.value)));
        }
    }

    /// Sets the entries of `over` in place of those of the same key.
    pub(crate) fn extend(&mut self, over: Tree<'a>) {
        if let Value::Map(entries) = over.0.value {
            for entry in entries {
                self.put(&entry.key, Some(Tree(entry.value)));
            }
        }
    }

    pub(crate) fn take(&mut self, field: &str) -> Option<Tree<'a>> {
        self.0.take(field).map(|entry| Tree(entry.value))
    }

    pub(crate) fn put(&mut self, field: &str, value: Option<Tree<'a>>) {
        self.0.take(field);
        if let (Some(Tree(value)), Value::Map(entries)) = (value, &mut self.0.value) {
            entries.push(Entry {
                key: field.to_owned().into(),
                at: value.span,
                value,
            });
        }
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.get(field).is_some()
    }

    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field).and_then(Node::as_str)
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        self.0.as_str()
    }

    pub(crate) fn into_items(self) -> Vec<Tree<'a>> {
        match self.0.value {
            Value::Seq(items) => items.into_iter().map(Tree).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn list(items: Vec<Tree<'a>>) -> Self {
        Self(Node {
            value: Value::Seq(items.into_iter().map(|t| t.0).collect()),
            span: NOWHERE,
        })
    }

    pub(crate) fn of_text(text: String) -> Self {
        Self(Node {
            value: Value::String(text.into()),
            span: NOWHERE,
        })
    }
}

/// The text that a ConfigMap holds under one of `keys`, moved to the lines and columns where it stands.
fn inner_text(text: &str, keys: &[&str]) -> Option<String> {
    let documents = yaml::documents(text);
    let maps = documents.filter_map(|d| d.node.ok()).filter(|node| {
        node.get("kind").and_then(Node::as_str) == Some("ConfigMap") && node.get("data").is_some()
    });
    let mut found = None;
    for map in maps {
        // A ConfigMap is never the settings themselves, so one without the key sets nothing.
        found.get_or_insert_with(String::new);
        let data = map.get("data")?;
        let Some(inner) = keys.iter().find_map(|key| data.get(key)) else {
            continue;
        };
        // A block of text starts on its first line, behind the line of its key.
        let line = (inner.span.line as usize).saturating_sub(1);
        let next = text.lines().nth(line).unwrap_or_default();
        let indent = &next[..next.len() - next.trim_start_matches(' ').len()];
        let mut moved = "\n".repeat(line);
        for line in inner.as_str()?.lines() {
            if !line.is_empty() {
                moved.push_str(indent);
                moved.push_str(line);
            }
            moved.push('\n');
        }
        return Some(moved);
    }
    found
}
