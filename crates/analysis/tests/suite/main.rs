//! The tests of the crate from outside, as one program: each program links all that the crate uses.

mod derived;
mod grants;
mod ours;
mod recorded;
mod reference;
mod routes;
mod silent;
mod templates;
