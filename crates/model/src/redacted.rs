//! Texts that are not for logs or pages.

use std::fmt;
use std::sync::Arc;

/// A text that shows nothing of itself but its length.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Redacted(Arc<str>);

impl Redacted {
    /// Hides a text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for whoever it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes, redacted)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_shows_its_length_alone() {
        let shown = format!("{:?}", Redacted::new("hunter2"));
        assert_eq!(shown, "(7 bytes, redacted)");
    }
}
