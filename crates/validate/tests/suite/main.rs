//! The tests of the crate from outside, as one program: each program links all that the crate uses.

mod any_text;
mod crds;
mod definitions;
mod functions;
mod refused;
mod tables;
mod told;
mod verdicts;
