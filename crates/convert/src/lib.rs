//! Objects made of objects: the stage before generation.
//!
//! A *translator* turns objects of one kind into internal objects of Istio's kinds: an Ingress, or the Gateway API,
//! into Gateways and VirtualServices. The [`Stage`] runs them, as queries of an engine of its own, over what the store holds, and puts
//! what they make back into the store within the same batch, under a source of its own. So generation reads derived
//! objects by name and by every index as it reads written ones, and needs no word of this crate.
//!
//! What a translator may read is decided by types: see [`strata`]. What an object was derived from is the typed field
//! `Meta::derived`, which no document can set. Statuses are queries of the same kind: see [`status`].
//!
//! Everything here is a pure function of the snapshot; there is no I/O, and nothing of Envoy.

mod budget;
mod claims;
pub mod edge;
pub mod gateway_api;
pub mod ingress;
pub mod knative;
mod outcome;
mod owner;
mod reader;
mod refer;
mod root;
mod service;
mod stage;
pub mod status;
pub mod strata;

pub use outcome::{Made, Outcome, SOURCE, code};
pub use reader::{Derive, Reader};
pub use root::Root;
pub use stage::{FindingsChange, Loaded, Stage, load};
