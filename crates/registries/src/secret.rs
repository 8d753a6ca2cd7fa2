//! Passwords, keys and tokens.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A text that never shows in `Debug`, and is overwritten when nobody holds it any more.
#[derive(Clone, PartialEq, Eq)]
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

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes, redacted)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_its_length_alone() {
        let shown = format!("{:?}", Redacted::new("hunter2"));
        assert_eq!(shown, "(7 bytes, redacted)");
    }
}
