//! What is said to the person who wrote an object.

mod render;

use std::borrow::Cow;
use std::sync::Arc;

use crate::object::{ObjectKey, Origin};
use crate::template;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Works, probably not as meant.
    Warning,
    /// Does not work, in whole or in part.
    Error,
}

/// A finding about an object, with everything needed to act on it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Diagnostic {
    /// Stable code; `IST0101` where istioctl has one, `PIL....` where it is ours.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The object it is about; `None` for a file that holds no object.
    pub object: Option<ObjectKey>,
    /// Where the object was read from.
    pub origin: Option<Origin>,
    /// The field, as `spec.http[0].route[1].weight`; empty for the whole object.
    pub path: Arc<str>,
    /// What is wrong, in one sentence without a full stop.
    pub message: Arc<str>,
    /// What to do, if that is known.
    pub help: Option<Arc<str>>,
    /// The text it is about, where that was at hand.
    pub excerpt: Option<Excerpt>,
    /// Whether it is about the name of the field, and not about the value.
    pub of_name: bool,
}

/// A line of a file and the part of it that a finding is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Excerpt {
    /// Counted from 1.
    pub line: u32,
    /// First character, counted from 1.
    pub column: u32,
    /// How many characters; 0 where that is not known.
    pub length: u32,
    /// Characters of the line before the text.
    pub skipped: u32,
    /// The line, or of a long one the part around the characters; empty where it may hold a secret.
    pub text: Arc<str>,
}

impl Diagnostic {
    /// A finding of which no more is known than what is wrong.
    pub fn new(code: &'static str, severity: Severity, message: impl Into<Arc<str>>) -> Self {
        let mut message = message.into();
        if let Cow::Owned(written) = template::written(&message) {
            message = written.into();
        }
        Self {
            code,
            severity,
            object: None,
            origin: None,
            path: Arc::default(),
            message,
            help: None,
            excerpt: None,
            of_name: false,
        }
    }

    /// The finding, about an object.
    pub fn about(mut self, object: ObjectKey, origin: Origin) -> Self {
        self.object = Some(object);
        self.origin = Some(origin);
        self
    }

    /// The finding, about a field.
    pub fn at(mut self, path: impl Into<Arc<str>>) -> Self {
        self.path = path.into();
        self
    }

    /// The finding, with what to do about it.
    pub fn help(mut self, help: impl Into<Arc<str>>) -> Self {
        self.help = Some(help.into());
        self
    }
}
