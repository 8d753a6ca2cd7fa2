//! All tests of the crate from outside, as one program: each would link all of it again.

mod derive;
mod registration;
mod remotes;
mod settings;
mod unsupported;
mod webhooks;
