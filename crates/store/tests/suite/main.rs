//! All tests of the crate from outside, as one program: each would link all of it again.

mod discovery;
mod owners;
mod shards;
