//! Envoy as a child process: where it is, and how it starts and ends.

pub mod process;
pub mod program;
