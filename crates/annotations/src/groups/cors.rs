//! Requests from pages of other origins.

use std::sync::Arc;
use std::time::Duration;

/// `enable-cors` and its family.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cors {
    /// Which origins.
    pub origins: Vec<Origin>,
    /// Which methods.
    pub methods: Vec<Arc<str>>,
    /// Which headers of requests.
    pub headers: Vec<Arc<str>>,
    /// Which headers of answers pages may read.
    pub expose: Vec<Arc<str>>,
    /// Whether cookies are sent.
    pub credentials: bool,
    /// How long browsers remember it.
    pub max_age: Duration,
}

/// An origin.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// Every origin.
    Any,
    /// This one.
    Exact(Arc<str>),
    /// Those that a regular expression matches as a whole.
    Regex(Arc<str>),
}
