//! The vocabulary of xDS: encoded resources, sorted sets of them, their types, and what is published of them.
//!
//! Generation makes these, streams send them, clients and the warm start read them. Nothing here knows how a resource
//! is made or how it travels.

/// The longest name of a resource that a stream takes, in bytes. A client that asks for a longer one loses its stream, so no resource has
/// such a name, and none names another so: `judge` refuses what does.
pub const NAME_BYTES: usize = 2 << 10;

mod published;
mod resource;
mod type_url;
mod types;

pub use published::Published;
pub use resource::{Cursor, Iter, Resource, ResourceSet, SubscriptionRule, any};
pub use type_url::{Removal, TypeUrl};
pub use types::{ByType, Types};
