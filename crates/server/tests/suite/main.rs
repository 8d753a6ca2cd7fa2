//! The tests of the crate from outside, as one program: each program links all that the crate uses.

mod config_sources;
mod derive;
mod places;
mod registration;
mod remotes;
mod settings;
mod unsupported;
mod webhooks;
