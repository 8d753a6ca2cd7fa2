//! What cannot be honoured as written: it fails closed, and says so.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod authorization;
mod others;
mod shared;
pub(crate) mod support;
mod tokens;
