//! What the options of an edge are read from beside their ConfigMap: the one input of generation that remembers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::redacted::Redacted;

/// A file that stands in place of the ConfigMap, and what sections said when they could be used last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EdgeDocuments {
    /// The file, where one is named.
    pub file: Option<EdgeFile>,
    /// The last good version of each section, as JSON. A section that is stated nowhere has none.
    pub good: BTreeMap<Arc<str>, Redacted>,
}

/// A file with options of an edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EdgeFile {
    /// Where it is.
    pub path: Arc<Path>,
    /// What it says, or why it cannot be read.
    pub text: Result<Redacted, Arc<str>>,
}
