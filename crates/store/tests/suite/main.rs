//! The tests of the crate from outside, as one program: each program links all that the crate uses.

mod discovery;
mod owners;
mod shards;
