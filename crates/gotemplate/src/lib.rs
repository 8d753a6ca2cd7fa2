//! Go's `text/template` with the functions of Sprig, as the templates of Istio's sidecar injector use them.
//!
//! [`Template::parse`] makes trees of a text, [`Template::render`] evaluates them over a [`Value`] within a [`Budget`].
//! Values have the types of Go as far as templates can tell them apart: structs refuse fields that they do not have,
//! maps give no value for keys that they do not have, a pointer or an interface may be nil. Callers add functions of
//! their own to [`Functions`]. What a template prints and which errors it meets, and where, is compared with Go's
//! own (`tests/cases`).
//!
//! Strings are UTF-8: what cuts a character in two (`trunc`, `substr`) leaves a replacement character where Go leaves
//! half of it. Maps have strings as keys. There are no functions as values and no complex numbers. No I/O.

mod ast;
mod budget;
mod builtin;
mod error;
mod exec;
mod functions;
pub mod json;
mod lexer;
mod literal;
mod parser;
pub mod print;
mod sprig;
mod value;
pub mod yaml;

use std::collections::BTreeMap;

pub use budget::{Budget, Meter};
pub use error::{Error, Executing};
pub use functions::{Args, Fault, Functions};
pub use value::{IntType, List, Map, Named, Object, Struct, Type, Value};

/// The most bytes that a template may have.
pub const MAX_TEMPLATE: usize = 1 << 20;

/// A template, with those that it defines.
#[derive(Debug)]
pub struct Template {
    name: String,
    text: String,
    trees: BTreeMap<String, ast::Tree>,
}

impl Template {
    /// What it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses a template. Every function that it names has to be known.
    pub fn parse(name: &str, text: &str, functions: &Functions) -> Result<Self, Error> {
        if text.len() > MAX_TEMPLATE {
            return Err(Error {
                template: name.to_owned(),
                line: 1,
                column: 0,
                executing: None,
                message: format!(
                    "the template has {} bytes, {MAX_TEMPLATE} at most are allowed",
                    text.len()
                ),
            });
        }
        let trees = parser::parse(name, text, functions)?;
        Ok(Self {
            name: name.to_owned(),
            text: text.to_owned(),
            trees,
        })
    }

    /// Renders it over data. The functions are those that it was parsed with, or others of the same names.
    pub fn render(
        &self,
        data: &Value,
        functions: &Functions,
        budget: &Budget,
    ) -> Result<String, Error> {
        exec::render(self, data, functions, budget)
    }
}
