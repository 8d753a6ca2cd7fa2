//! Wiring, supervision, debug HTTP, metrics, readiness.

pub mod analysis;
pub mod api;
mod authentication;
pub mod authority;
pub mod config;
pub mod debug;
pub mod derive;
pub mod findings;
pub mod http;
pub mod issuing;
pub mod metrics;
pub mod permissions;
pub mod quiet;
pub mod registration;
pub mod remotes;
pub mod secure;
pub mod serve;
pub mod settings;
pub mod shadows;
pub mod streams;
pub mod supervisor;
pub mod unsupported;
pub mod warm;
mod watched;
mod welcome;
pub mod writing;
