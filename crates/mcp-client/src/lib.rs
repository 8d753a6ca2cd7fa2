//! Another control plane as a source of configuration, by MCP over xDS: an istiod, Higress's core, or another server of this
//! program.
//!
//! A stream asks for types of resources ([`topic`]); responses are read within [`limits`] ([`wire`], [`read`]) into a [`book`],
//! which says what follows: that is kept on disk ([`cache`]) and, once a gate lets it pass, told to the store ([`tell`]). The
//! book is without sockets and clocks, and holds what must be true whatever happens on the way. Whoever runs the [`source`] starts
//! it again when a stream fails.

mod age;
pub mod book;
pub mod cache;
mod gate;
pub mod limits;
mod mesh;
pub mod read;
mod request;
mod session;
pub mod source;
pub mod tell;
mod teller;
pub mod topic;
pub mod wire;

pub use client::TlsOptions;
pub use limits::Limits;
pub use source::{Asker, Memory, NO_ADDRESS, OnMesh, Options, PeerSource, Reader};
pub use topic::Topic;
