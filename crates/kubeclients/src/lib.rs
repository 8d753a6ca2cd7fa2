//! Clients that others wrote, against the Kubernetes API of `apiserver`, and our own source of configuration against APIs that
//! fail. The tests are the point: their dependencies are many, and nobody else should have to build them. What several of them
//! share is here, and the program `on-kubetest`, which runs a command on real API servers that hold a scenario.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

pub mod corpus;
pub mod draw;
pub mod fake;
pub mod kubetest;
pub mod real;
pub mod wire;
