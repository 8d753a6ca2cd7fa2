//! What istiod makes of the Gateway API, where the recordings are at hand: objects, and what statuses say.
//!
//! `GOLDEN=http cargo test -p pilothouse-convert --test suite gateway_api -- --nocapture` runs one case and shows how it differs.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod attached;
mod filters;
mod fixture;
mod goldens;
mod incremental;
mod listeners;
mod scenarios;
mod shown;
