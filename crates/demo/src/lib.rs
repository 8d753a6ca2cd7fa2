//! A mesh on one machine: Pilothouse, Envoys and small backends as child processes.
//!
//! The demo shows it to people; the acceptance tests beside it measure what Envoys make of what they are sent. Linux
//! only: every workload has a loopback address of its own, and only Linux answers on all of `127.0.0.0/8`.

pub mod admin;
pub mod check;
pub mod control;
pub mod http;
pub mod mesh;
pub mod routed;
pub mod shop;
pub mod syncz;
pub mod watch;
