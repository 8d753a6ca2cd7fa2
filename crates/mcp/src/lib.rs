//! Configuration objects as they travel between control planes: MCP resources over xDS.
//!
//! A client asks for a type such as `networking.istio.io/v1/VirtualService` ([`kinds`]) and gets each object of it as a
//! [`Resource`]: its metadata, and its spec as a message. [`encode`] makes resources of objects, [`Resource::document`]
//! makes of a resource what a manifest in JSON would say, for the reader of manifests to judge. Nothing here knows a
//! stream or a socket.

mod dynamic;
pub mod kinds;
mod object;
pub mod resource;

pub use kinds::{MESH_CONFIG, Spelling};
pub use object::{Fill, encode, encode_spec, resource_of};
pub use resource::{Document, Fault, Resource, mesh_config};
