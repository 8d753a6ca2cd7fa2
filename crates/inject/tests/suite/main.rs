//! The tests of the crate from outside, as one program: each program links all that the crate uses.

mod builtin;
mod cases;
mod gateways;
mod goldens;
mod shape;
