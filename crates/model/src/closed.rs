//! What takes the place of an object that protects and cannot be used.
//!
//! A policy that is rejected, and of which no earlier version is known, would be absent, and what it protects would be
//! open. So reading makes a substitute of it: an object of its kind and name that covers what its readable part covers
//! and lets nothing through. A source reports the substitute where it has nothing better; it goes with the object, or
//! when the object is valid. How each kind closes is for `parse::closed` to say; a substitute is recognised by
//! [`Meta::closed`](crate::object::Meta::closed), which nothing that is written can set.

use std::sync::Arc;

/// The credential of TLS settings with which no connection may come about.
pub const NO_CREDENTIAL: &str = "closed://";

/// The name of a target of a closed BackendTLSPolicy that means all Services of its namespace. No Service has it.
pub const EVERY_SERVICE: &str = "*";

/// Why an object was rejected and a substitute stands in its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Closed {
    /// The field that is wrong, the first of several; empty for the whole object.
    pub path: Arc<str>,
    /// What is wrong with it, in one sentence without a full stop.
    pub why: Arc<str>,
}
