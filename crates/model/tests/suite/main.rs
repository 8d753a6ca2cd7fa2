//! The tests of the crate from outside, as one program: each program links all that the crate uses.

mod any_text;
mod lists;
mod misspelt;
mod parse;
mod tables;
mod templates;
mod unsaid;
