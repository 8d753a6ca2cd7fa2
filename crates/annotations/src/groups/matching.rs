//! Which requests the routes of an Ingress are for, beside host and path.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What a request must have.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Matching {
    /// `ignore-path-case`, or regular expressions of nginx.
    pub ignore_case: bool,
    /// `match-method`: upper case, in the order stated, each once; all where empty.
    pub methods: Vec<Arc<str>>,
    /// `*-match-header-*`, and pseudo headers with a colon before them, by name.
    pub headers: BTreeMap<Arc<str>, Text>,
    /// `*-match-query-*`, by name.
    pub query: BTreeMap<Arc<str>, Text>,
}

/// How a text is matched.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Text {
    /// It is this.
    Exact(Arc<str>),
    /// It begins so.
    Prefix(Arc<str>),
    /// A regular expression matches it as a whole.
    Regex(Arc<str>),
}
