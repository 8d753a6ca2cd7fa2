//! Passwords, keys, tokens, and texts that may hold some.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use zeroize::Zeroizing;

/// A text that shows nothing of itself but its length, and is overwritten when nobody holds it any more.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Redacted(Arc<Zeroizing<String>>);

impl Redacted {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(Zeroizing::new(text.into())))
    }

    /// The text, for whoever it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Hash for Redacted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.reveal().hash(state);
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
