//! A Kubernetes API as a source of configuration, like a folder.
//!
//! [`client`] says which API and how it is asked; [`source`] lists and watches every kind that generation reads, each by
//! itself, and tells what there is; [`trial`] says whether credentials are good for that. [`review`] asks what others may do.

pub mod client;
pub mod item;
pub mod review;
pub mod source;
pub mod trial;

pub use client::Clients;
pub use kube::Client;
