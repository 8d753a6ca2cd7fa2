//! A Kubernetes API as a source of configuration, like a folder.
//!
//! [`client`] says which API and how it is asked; [`source`] lists and watches every kind that generation reads, each by
//! itself, and tells what there is.

pub mod client;
mod item;
pub mod source;

pub use kube::Client;
