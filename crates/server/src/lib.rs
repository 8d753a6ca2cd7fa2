//! Wiring, supervision, debug HTTP, metrics, readiness.

pub mod config;
pub mod derive;
pub mod metrics;
pub mod streams;
