//! Errors, with the place in the template.

use std::fmt;

/// Why a template cannot be parsed or rendered. It prints as Go's errors do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The name of the template that was parsed.
    pub template: String,
    /// The line, from 1.
    pub line: usize,
    /// The byte within the line, from 0.
    pub column: usize,
    /// What was being rendered; nothing while parsing.
    pub executing: Option<Executing>,
    /// What is wrong.
    pub message: String,
}

/// What was being rendered when an error came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executing {
    /// The name of the template, or of one that it defines.
    pub template: String,
    /// The expression.
    pub expression: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "template: {}:{}:{}: ",
            self.template, self.line, self.column
        )?;
        if let Some(Executing {
            template,
            expression,
        }) = &self.executing
        {
            write!(f, "executing {template:?} at <{expression}>: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Line and column of a byte of a text.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    (line, before.len() - start)
}
