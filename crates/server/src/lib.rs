//! Wiring, supervision, debug HTTP, metrics, readiness.
