//! Paths and hosts as backends see them.

use std::sync::Arc;

/// How requests are changed on their way.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Rewrite {
    /// `rewrite-target`, as written: `$1` is a group of the path.
    pub target: Option<Arc<str>>,
    /// `rewrite-path`.
    pub path: Option<Arc<str>>,
    /// `upstream-vhost`: host name characters and an optional port.
    pub host: Option<Arc<str>>,
    /// How paths are read.
    pub paths: Paths,
    /// `x-forwarded-prefix`.
    pub forwarded_prefix: Option<Arc<str>>,
}

/// How paths of type Prefix and ImplementationSpecific are read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Paths {
    /// As text.
    #[default]
    Plain,
    /// As regular expressions of how paths begin (`use-regex`).
    Regex,
    /// As regular expressions of whole paths (`full-path-regex`).
    FullRegex,
}
