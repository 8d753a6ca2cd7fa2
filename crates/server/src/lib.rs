//! Wiring, supervision, debug HTTP, metrics, readiness.

pub mod access;
pub mod analysis;
pub mod api;
pub mod apis;
pub mod authority;
pub mod config;
pub mod debug;
pub mod derive;
pub mod findings;
pub mod http;
pub mod metrics;
pub mod permissions;
pub mod quiet;
pub mod registration;
pub mod remotes;
pub mod serve;
pub mod settings;
pub mod shadows;
pub mod streams;
pub mod supervisor;
pub mod trust;
pub mod unsupported;
pub mod warm;
mod welcome;
pub mod writing;
