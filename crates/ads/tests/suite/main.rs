//! The tests of the crate from outside, as one program: each program links all that the crate uses.
//!
//! `tests/descriptors.rs` is another, since it counts the descriptors of its process.

mod backpressure;
mod extra;
mod named;
mod property;
mod requests;
mod secure;
mod sent;
mod serving;
mod slow;
mod socket;
mod stateful;
mod tables;
