//! Wiring, supervision, debug HTTP, metrics, readiness.

pub mod config;
pub mod derive;
