//! What an operator allows, word by word.

use std::sync::Arc;

use super::{Assign, Words};

/// Words that are allowed, separated by commas: `*` allows all, `off` none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listed(Words);

impl Listed {
    /// Whether all are allowed.
    pub fn is_all(&self) -> bool {
        self.iter().any(|word| &**word == "*")
    }

    /// Whether a word is allowed.
    pub fn allows(&self, word: &str) -> bool {
        self.iter()
            .any(|listed| &**listed == "*" || &**listed == word)
    }

    /// The words, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }
}

impl From<&str> for Listed {
    fn from(text: &str) -> Self {
        match text.trim() {
            "off" => Self::default(),
            text => Self(text.into()),
        }
    }
}

impl Assign for Listed {
    fn assign(&mut self, text: &str) -> bool {
        *self = Self::from(text);
        true
    }
}
