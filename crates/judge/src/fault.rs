//! What Envoy would refuse, and where in the message it is.

use std::borrow::Cow;
use std::fmt;

/// A value that Envoy refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The names of the fields that lead to it, the innermost first.
    path: Vec<Cow<'static, str>>,
    why: Cow<'static, str>,
}

impl Fault {
    pub(crate) fn new(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            path: Vec::new(),
            why: why.into(),
        }
    }

    /// The fault, in a field of what it was found in.
    pub(crate) fn within(mut self, field: &'static str) -> Self {
        self.path.push(field.into());
        self
    }

    /// What is wrong, without the place.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The place in the message: `route.hash_policy.header.header_name`.
    pub fn place(&self) -> String {
        let names: Vec<&str> = self.path.iter().rev().map(|name| &**name).collect();
        names.join(".")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str(&self.why),
            false => write!(f, "{}: {}", self.place(), self.why),
        }
    }
}

impl std::error::Error for Fault {}
