//! All tests of the crate from outside, as one program: each would link all of it again.

mod any_text;
mod crds;
mod definitions;
mod functions;
mod tables;
mod told;
