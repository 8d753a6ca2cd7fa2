//! All tests of the crate from outside, as one program: each would link all of it again.

mod backpressure;
mod property;
mod requests;
mod secure;
mod slow;
mod socket;
mod stateful;
mod tables;
