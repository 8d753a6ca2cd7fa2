//! All tests of the crate from outside, as one program: each would link all of it again.

mod builtin;
mod cases;
mod gateways;
mod goldens;
