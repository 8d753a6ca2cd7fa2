//! What is said to the person who wrote an object.

use std::sync::Arc;

use crate::object::{ObjectKey, Origin};

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
}
