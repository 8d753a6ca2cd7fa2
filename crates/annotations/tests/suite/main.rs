//! All tests of the crate from outside, as one program: each would link all of it again.

mod cases;
mod properties;
mod recorded;
