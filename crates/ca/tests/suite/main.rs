//! The CA from outside: what it signs, read by others.
#![allow(clippy::unwrap_used)] // Functions that tests share are tests as well.

extern crate pilothouse_ca as ca;

mod chains;
mod judges;
mod requests;
