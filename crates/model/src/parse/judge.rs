//! What others have to say about an object while it is read, and where in the text that is.

use super::check::{Fault, Finding};
use super::node::{Node, Path, Span, Step, Value};
use super::{MOST_FINDINGS, Reader, code};
use crate::diagnostic::{Diagnostic, Severity};
use crate::kinds::{AnyObject, Kind};

/// Rules beyond what reading needs, such as what values mean together.
pub trait Judge: Sync {
    /// Judges an object as it is written, before defaults and conversions.
    fn written(&self, kind: Kind, raw: Raw<'_>, out: &mut Vec<Remark>) {
        let _ = (kind, raw, out);
    }

    /// Judges an object that could be read.
    fn object(&self, object: &AnyObject, out: &mut Vec<Remark>) {
        let _ = (object, out);
    }
}

/// Something about a part of an object that the person who wrote it should know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Remark {
    /// The part.
    pub path: Path,
    /// How bad it is.
    pub severity: Severity,
    /// Stable code, as in [`Diagnostic`].
    pub code: &'static str,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What to do, if that is known.
    pub help: Option<String>,
}

/// A value as it is written.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a>(pub(super) &'a Node<'a>);

impl<'a> Raw<'a> {
    /// The value of a key, unless it is `null`.
    pub fn get(self, key: &str) -> Option<Raw<'a>> {
        self.0.get(key).filter(|n| !n.is_null()).map(Raw)
    }

    /// The value of a key, be it `null`.
    pub fn value_of(self, key: &str) -> Option<Raw<'a>> {
        self.0.get(key).map(Raw)
    }

    /// Whether the value is `null`.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The entries of a map, also those that are `null`.
    pub fn all_entries(self) -> Option<impl Iterator<Item = (&'a str, Raw<'a>)>> {
        let entries = self.0.entries()?.iter();
        Some(entries.map(|e| (&*e.key, Raw(&e.value))))
    }

    /// The items of a list.
    pub fn items(self) -> Option<impl ExactSizeIterator<Item = Raw<'a>>> {
        match &self.0.value {
            Value::Seq(items) => Some(items.iter().map(Raw)),
            _ => None,
        }
    }

    /// The value of a text.
    pub fn as_str(self) -> Option<&'a str> {
        self.0.as_str()
    }

    /// The value of a number.
    pub fn as_f64(self) -> Option<f64> {
        match self.0.value {
            #[allow(clippy::cast_precision_loss)] // Bounds are far below where it matters.
            Value::Int(value) => Some(value as f64),
            #[allow(clippy::cast_precision_loss)] // As above.
            Value::UInt(value) => Some(value as f64),
            Value::Float(value) => Some(value),
            _ => None,
        }
    }

    /// The value as JSON.
    pub fn to_json(self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.0.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::UInt(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::String(text) => Json::String(text.to_string()),
            Value::Seq(items) => items.iter().map(|n| Raw(n).to_json()).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|e| (e.key.to_string(), Raw(&e.value).to_json()))
                .collect(),
        }
    }
}

impl Reader<'_> {
    /// Where the value at `path` of the object stands, or else the innermost one around it that is written.
    pub(super) fn locate(&mut self, path: &Path) -> Option<Span> {
        let part = self.part.as_ref()?;
        let again = self.again.get_or_insert_with(|| part.read()?.node.ok());
        let mut node = again.as_ref()?;
        for item in &self.items {
            let Value::Seq(items) = &node.get("items")?.value else {
                return None;
            };
            node = items.get(*item)?;
        }
        let mut span = node.span;
        for step in &path.0 {
            let next = match (&node.value, step) {
                (Value::Seq(items), Step::Index(index)) => {
                    items.get(*index).map(|item| (item, item.span))
                }
                (Value::Map(entries), Step::Field(name)) => {
                    // A field of a message may also have its other name.
                    let named = |key: &str| key == &**name || lower_camel(key) == **name;
                    let entry = entries.iter().find(|e| named(&e.key));
                    entry.map(|e| (&e.value, e.at))
                }
                _ => None,
            };
            let Some((inner, at)) = next else {
                return Some(span);
            };
            node = inner;
            // A list or map is shown by its key: it may be long.
            span = match node.value {
                Value::Seq(_) | Value::Map(_) | Value::Null => at,
                _ => node.span,
            };
        }
        Some(span)
    }

    /// Takes out the remarks about what an Ingress that protects leaves unread, as findings: unknown fields, and paths that no
    /// request has, in whose place others would be open.
    pub(super) fn unread(&mut self, remarks: &mut Vec<Remark>, line: u32) -> Vec<Finding> {
        let mut count = 0;
        let (unread, others): (Vec<Remark>, Vec<Remark>) =
            std::mem::take(remarks).into_iter().partition(|remark| {
                let is_unread = fault_of(remark).is_some() && count < MOST_FINDINGS;
                count += usize::from(is_unread);
                is_unread
            });
        *remarks = others;
        let at_top = Span {
            line,
            ..Span::default()
        };
        let finding = |remark: Remark| {
            Some(Finding {
                fault: fault_of(&remark)?,
                span: self.locate(&remark.path).unwrap_or(at_top),
                path: remark.path,
                message: remark.message,
                help: remark.help,
            })
        };
        unread.into_iter().filter_map(finding).collect()
    }

    /// A remark as it is shown.
    pub(super) fn remarked(&mut self, remark: Remark, line: u32) -> Diagnostic {
        let span = self.locate(&remark.path);
        let severity = match (remark.severity, self.validation) {
            (Severity::Error, super::Validation::Warn) => Severity::Warning,
            (severity, _) => severity,
        };
        Diagnostic {
            origin: Some(self.origin(span.map_or(line, |s| s.line))),
            path: super::told(remark.path.to_string()),
            help: remark.help.map(super::told),
            excerpt: span.and_then(|span| self.excerpt(span)),
            ..Diagnostic::new(remark.code, severity, super::told(remark.message))
        }
    }
}

/// The fault of an Ingress because of which a part of it is not read, if a remark is about one.
fn fault_of(remark: &Remark) -> Option<Fault> {
    let is_of_path = || {
        let fields = remark.path.0.iter().filter_map(|step| match step {
            Step::Field(field) => Some(&**field),
            Step::Index(_) => None,
        });
        fields.eq(["spec", "rules", "http", "paths", "path"])
    };
    if remark.code == code::UNKNOWN_FIELD {
        return Some(Fault::UnknownField);
    }
    (remark.severity == Severity::Error && is_of_path()).then_some(Fault::BadPath)
}

/// The name in JSON of a field of a message.
fn lower_camel(name: &str) -> String {
    let mut upper = false;
    let mut camel = String::with_capacity(name.len());
    for c in name.chars() {
        if c == '_' {
            upper = true;
        } else if std::mem::take(&mut upper) {
            camel.push(c.to_ascii_uppercase());
        } else {
            camel.push(c);
        }
    }
    camel
}
