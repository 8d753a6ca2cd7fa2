//! Host names with wildcards, and how they match.

use crate::text_newtype;

text_newtype! {
    /// A host name, possibly with a leading wildcard label (`*.example.com`, `*`).
    Hostname
}

impl Hostname {
    /// Whether the name starts with `*`.
    pub fn is_wildcard(&self) -> bool {
        self.starts_with('*')
    }
}
