//! Attacks on a running server from outside, over the wire and through its folders, and what they cost the proxies that
//! it serves.
//!
//! Nothing of the server is linked in: frames and messages are made by hand. An attack is a module of [`attacks`]; the
//! program runs each beside honest proxies and measures, `tests/ceilings.rs` holds a debug build to ceilings.
//! Everything stays on loopback, and ends by itself.

pub mod attack;
pub mod attacks;
pub mod fleet;
pub mod http1;
pub mod mesh;
pub mod peer;
pub mod proto;
pub mod report;
pub mod run;
pub mod server;
pub mod wire;
