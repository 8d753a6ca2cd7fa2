//! The subcommands.

pub mod bootstrap;
pub mod echo;
