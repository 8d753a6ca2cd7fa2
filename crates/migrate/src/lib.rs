//! A way out of ingress-nginx: what becomes of its Ingresses, annotation by annotation.
//!
//! [`World::load`] takes the objects of a cluster, chooses the Ingresses that ingress-nginx serves, and derives from
//! them what Pilothouse serves in their place. [`report`] says of each of them what is the same, what differs and what
//! is not supported; [`compare`] says whether requests go where they went; [`show`] prints both, and [`manifests`] writes
//! what takes their place. [`alone`] says what is wrong with Ingresses whatever else there is. What an annotation means is not
//! decided here: `annotations` and `convert` say so, and this crate gathers it.
//!
//! Secrets are looked for, never shown. There is no I/O.

pub mod alone;
mod assumed;
mod class;
pub mod compare;
pub mod manifests;
mod options;
mod ports;
pub mod report;
pub mod show;
mod world;

pub use class::Left;
pub use world::{Wanted, World};

/// The prefixes of annotations that ingress-nginx and Higress read.
pub(crate) const PREFIXES: [&str; 2] = ["nginx.ingress.kubernetes.io/", "higress.io/"];

/// What named the class before there were IngressClasses.
pub(crate) const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// An annotation's name without the prefix, if it is one of these.
pub(crate) fn name_of(key: &str) -> Option<&str> {
    PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix))
}
